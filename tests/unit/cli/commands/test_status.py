from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Shop, ask


def row(text: str, table: str) -> list[str]:
    [line] = [line for line in text.splitlines() if line.startswith(table + " ")]
    return line.split()[1:]


def test_the_grid_shows_the_state_of_each_table_and_day(busy_shop: Shop) -> None:
    found = busy_shop.ask("status").stdout
    assert row(found, "shop.orders") == ["■", "▲", "✕"]
    assert row(found, "shop.customers") == ["→", "→", "■"]
    assert row(found, "sales.by_country") == ["■", "▲", "┃"]
    assert row(found, "web.per_order") == ["·", "·", "┃"]
    assert row(found, "sales.best_customers") == ["□", "□", "┃"]


def test_tables_come_by_schema_upstream_first(busy_shop: Shop) -> None:
    lines = busy_shop.ask("status").stdout.splitlines()
    names = [line.split()[0] for line in lines if "." in line.split(" ")[0]]
    order = [busy_shop.project.flow.order.index(name) for name in names]
    schemas = [name.partition(".")[0] for name in names]
    assert len(dict.fromkeys(schemas)) == sum(
        one != other for one, other in zip([None, *schemas], schemas, strict=False)
    )
    assert order[0] == 0
    assert schemas[-1] == "out"


def test_the_legend_names_only_states_that_occur(busy_shop: Shop) -> None:
    found = busy_shop.ask("status").stdout
    assert "✕ failed   ┃ blocked   · due   ▲ warned   ■ ok   → stood for   □ not needed" in found
    assert "running" not in found


def test_a_failed_batch_is_shown_with_the_number_of_batches_it_blocks(busy_shop: Shop) -> None:
    found = busy_shop.ask("status").stdout
    assert "✕ shop.orders@20241119000000 failed: E731 amount is no number (blocks 3 batches)" in found
    assert "next due 2024-11-21 00:00Z" in found


@pytest.mark.parametrize("width", [40, 80, 160])
def test_no_line_of_the_grid_is_longer_than_the_terminal_and_the_newest_stay(busy_shop: Shop, width: int) -> None:
    found = busy_shop.ask("status", "--now", "2024-12-31", width=width).stdout.splitlines()
    grid = found[2 : found.index("", 3)]
    assert all(len(line) <= width for line in grid)
    assert grid[1].split()[-1] == "30"
    days = len(grid[1].split())
    assert days == min(44, (width - len("sales.best_customers") - 1) // 3)


def test_before_the_first_run_everything_is_due_and_nothing_is_made(fresh: Path) -> None:
    found = ask("status", "--now", "2024-11-20", "--project", str(fresh)).stdout
    assert row(found, "shop.orders") == ["·", "·", "·"]
    assert not (fresh / ".waterclock").exists()


def test_a_plain_terminal_gets_plain_signs(busy_shop: Shop) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "waterclock", "status", "--now", "2024-11-20T08:00", "-p", str(busy_shop.folder)]
    done = subprocess.run(command, capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii", "PATH": ""})
    assert row(done.stdout.decode("ascii"), "shop.orders") == ["#", "!", "X"]


def test_labels_choose_the_columns(busy_shop: Shop) -> None:
    found = busy_shop.ask("status", "shop.orders", "--labels", "2024-11-18..").stdout
    assert row(found, "shop.orders") == ["▲", "✕"]
    found = busy_shop.ask("status", "shop.orders@2024-11-17").stdout
    assert row(found, "shop.orders") == ["■"]


def test_wider_columns_show_the_loudest_state_and_how_often(busy_shop: Shop) -> None:
    found = busy_shop.ask("status", "shop.orders", "--by", "month").stdout
    assert row(found, "shop.orders") == ["✕1"]
    assert "a number: how many of the labels there" in found


def test_the_grid_is_json_with_counts(busy_shop: Shop) -> None:
    told = busy_shop.json("status", "shop.orders", "--by", "month")
    assert [column["local"] for column in told["columns"]] == ["2024-11"]
    assert told["rows"] == [{"table": "shop.orders", "cells": [{"state": "failed", "count": 1, "of": 3}]}]
    assert told["due"] == {"failed": 1}
    assert json.dumps(told)


def test_an_invalid_period_is_refused(busy_shop: Shop) -> None:
    found = busy_shop.ask("status", "--by", "7 hours")
    assert found.exit_code == 1
    assert "E102" in found.stderr


def test_each_month_heading_is_aligned_with_its_own_days(busy_shop: Shop) -> None:
    found = busy_shop.ask("status", "--now", "2025-01-03", width=140).stdout.splitlines()
    months, days = found[2:4]
    assert days.split()[-3:] == ["31", "01", "02"]
    assert months.index("December 2024") == _column(days, "01")
    assert months.index("Jan") == days.rindex("01")
    assert months.index("November 2024") == days.index(days.split()[0])


@pytest.mark.parametrize(("until", "above"), [("2024-12-03", "Nov"), ("2024-12-02", "Nov"), ("2024-12-20", "Nov 2024")])
def test_a_month_of_few_days_is_written_short_and_never_over_those_of_another(
    busy_shop: Shop, until: str, above: str
) -> None:
    labels = f"2024-11-{'29' if above == 'Nov' else '27'}..{until}"
    found = busy_shop.ask("status", "shop.orders", "--labels", labels, "--now", "2024-12-31").stdout.splitlines()
    months, days = found[2:4]
    assert months.strip().split("  ")[0] == above
    assert months.index("December 2024") == _column(days, "01")


def _column(days: str, number: str) -> int:
    return days.index(f" {number}") + 1


def test_status_reports_requested_columns_that_do_not_fit_the_line(busy_shop: Shop) -> None:
    found = busy_shop.ask("status", "--labels", "2024-11-01..2024-11-19", "--by", "day", width=50).stdout
    shown = int(found.splitlines()[0].split(" to ")[0][-2:])
    assert f"{shown - 1} older columns that do not fit the line" in found
    assert "too short" not in busy_shop.ask("status", "--labels", "2024-11-18..2024-11-19", width=60).stdout
    assert "too short" not in busy_shop.ask("status", width=50).stdout


def test_years_are_shown_below_their_decade(busy_shop: Shop) -> None:
    head, numbers = busy_shop.ask("status", "--labels", "2018..2024", "--by", "year", width=100).stdout.splitlines()[
        2:4
    ]
    assert head.split() == ["2010s", "2020s"]
    assert numbers.split() == ["18", "19", "20", "21", "22", "23", "24"]
    assert numbers.index("20") - 1 <= head.index("2020s") <= numbers.index("20")


def test_a_long_span_is_shown_completely_in_coarser_columns(busy_shop: Shop) -> None:
    labels = ("--labels", "2020-01-01..2024-11-19")
    for width, first in ((60, "2020"), (100, "2020"), (300, "2020-01")):
        heading = busy_shop.ask("status", *labels, width=width).stdout.splitlines()[0]
        assert f", {first}" in heading, heading
    wide = busy_shop.ask("status", "--labels", "2024-11-18..2024-11-19", width=60).stdout.splitlines()[0]
    assert wide.startswith("days, 2024-11-18 to 2024-11-19")
    assert busy_shop.ask("status", *labels, "--by", "day", width=60).stdout.startswith("days, ")


def test_a_clock_that_is_behind_the_newest_record_is_reported(busy_shop: Shop) -> None:
    assert busy_shop.json("status")["clock_back"] is None
    with closing(sqlite3.connect(busy_shop.ledger_file)) as database, database:
        database.execute("UPDATE ledger SET last_recorded = last_recorded + 3600 * 1000000")
    assert "▲ the clock was set back: it shows" in busy_shop.ask("status").stdout
    assert busy_shop.json("status")["clock_back"]["place"] == "this machine"
