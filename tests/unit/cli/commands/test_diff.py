"""Differences computed from ledgers alone: no Spark is started, and nothing is written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.cli.conftest import Shop, day, texts
from waterclock.cli.exit_codes import ExitCode

TABLE = "sales.by_country"
PROD = """
[env.prod]
storage = ".prod"
connections.shop = { path = "data/shop.sqlite" }
connections.landing = { path = "data/new" }
connections.out = { path = "data/out" }
"""
BEFORE_ALL = "2000-01-01"


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr("waterclock.engine.spark.session.Sessions.own", refuse)


def table_of(shop: Shop, *arguments: str) -> Any:
    [only] = shop.json("diff", TABLE, *arguments)["tables"]
    return only


def copy_to_prod(shop: Shop) -> None:
    """Add an environment whose ledger is a copy of dev's."""
    with (shop.folder / "waterclock.toml").open("a", encoding="utf-8") as file:
        file.write(PROD)
    (shop.folder / ".prod").mkdir()
    with closing(sqlite3.connect(shop.ledger_file)) as database:  # as if no runner had it open
        database.execute("VACUUM INTO ?", [str(shop.folder / ".prod" / shop.ledger_file.name)])


def test_a_label_that_was_made_once_is_not_compared(shop: Shop) -> None:
    shop.done(TABLE, 17, 18)
    asked = shop.ask("diff", TABLE)
    assert asked.exit_code == ExitCode.DONE
    assert "2 labels without an earlier revision" in asked.stdout
    assert table_of(shop) | {"measures": 0} == {
        "table": TABLE, "differs": False, "key": [], "equal": 0, "read": 0, "single": 2, "dropped_before": None,
        "held": [], "held_before": [],
        "labels": [], "types": [], "unlike": [], "columns": [], "rows": [], "error": None, "measures": 0,
    }  # fmt: skip


def test_labels_with_equal_digests_are_equal_and_not_read(shop: Shop) -> None:
    shop.done(TABLE, 17, 18, 18)
    asked = shop.ask("diff", TABLE)
    assert (asked.exit_code, table_of(shop)["equal"], table_of(shop)["single"]) == (ExitCode.DONE, 1, 1)
    assert "1 label equal" in asked.stdout


def test_measures_of_equal_labels_are_side_by_side(shop: Shop) -> None:
    shop.done(TABLE, 18, measured={"total": {"value": "5", "type": "bigint"}})
    shop.done(TABLE, 18, measured={"total": {"value": "6", "type": "bigint"}})
    [label] = table_of(shop)["labels"]
    assert label["measures"] == [{"name": "total", "before": "5", "after": "6"}]
    asked = shop.ask("diff", TABLE)
    assert asked.exit_code == ExitCode.DONE
    assert any(line.split() == ["2024-11-18", "total", "5", "6"] for line in asked.stdout.splitlines())


def test_diff_reports_a_label_whose_previous_rows_are_missing(shop: Shop) -> None:
    shop.done(TABLE, 18)
    shop.done(TABLE, 18, rows=11)
    asked = shop.ask("diff", TABLE)
    assert asked.exit_code == ExitCode.FAILED
    assert "E640 the rows of a label in the previous revision are gone" in asked.stderr
    assert f"{TABLE}@20241118000000" in asked.stderr


def test_labels_made_since_a_time_are_only_here(shop: Shop) -> None:
    shop.done(TABLE, 17, 18, 19)
    asked = shop.ask("diff", TABLE, "--as-known", BEFORE_ALL)
    assert asked.exit_code == ExitCode.DIFFERENT
    assert "3 labels only now" in asked.stdout
    assert any(line.split()[:3] == ["2024-11-17", "..", "2024-11-19"] for line in asked.stdout.splitlines())
    found = table_of(shop, "--as-known", BEFORE_ALL, "--labels", "2024-11-18..2024-11-19")
    assert [(each["label"], each["before"], each["after"]) for each in found["labels"]] == [
        (label, None, 10) for label in texts([day(18), day(19)])
    ]
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}"
    shop.json("diff", TABLE, "--as-known", now)


def test_another_environment_has_labels_that_are_missing_here(shop: Shop) -> None:
    shop.done(TABLE, 17)
    copy_to_prod(shop)
    shop.done(TABLE, 18)
    there = [path.read_bytes() for path in sorted((shop.folder / ".prod").iterdir())]
    asked = shop.ask("diff", TABLE, "--against", "prod")
    assert asked.exit_code == ExitCode.DIFFERENT
    assert "1 label equal; 1 label only in dev" in asked.stdout
    assert [path.read_bytes() for path in sorted((shop.folder / ".prod").iterdir())] == there
    back = shop.ask("diff", f"{TABLE}@2024-11-18", "--env", "prod", "--against", "dev", "--markdown")
    assert back.exit_code == ExitCode.DIFFERENT
    assert "### sales.by\\_country\n\n0 labels equal; 1 label only in dev\n" in back.stdout
    assert "| 2024-11-18 | 10 |  |  |  |  | only in dev |" in back.stdout


def test_all_tables_that_were_made_are_compared(shop: Shop) -> None:
    shop.done(TABLE, 17)
    shop.done("shop.orders", 17, 17)
    answer = shop.json("diff", "--all")
    assert [each["table"] for each in answer["tables"]] == ["shop.orders", TABLE]
    assert "0 tables of 2 differ. Before: in the previous revision. After: now." in shop.ask("diff", "--all").stdout


def test_an_error_of_one_of_several_tables_is_shown_with_the_others(shop: Shop) -> None:
    shop.done(TABLE, 17)
    shop.done("shop.orders", 17)
    shop.done("shop.orders", 17, rows=11)
    asked = shop.ask("diff", "--all")
    assert asked.exit_code == ExitCode.FAILED
    assert "shop.orders  not compared: E640" in asked.stdout
    assert [each["error"] and each["error"]["code"] for each in shop.json("diff", "--all")["tables"]] == ["E640", None]


def test_labels_that_retain_dropped_are_left_out_or_refused(shop: Shop) -> None:
    shop.done("web.visits", 17, 17, 18, 19)
    flow = next(path for path in (shop.folder / "flows").iterdir() if "web.visits PARTITIONED" in path.read_text())
    flow.write_text(flow.read_text().replace("BY ARRIVAL TIME;", "BY ARRIVAL TIME RETAIN 2 DAYS;"))
    [found] = shop.json("diff", "web.visits", "--as-known", BEFORE_ALL)["tables"]
    assert (found["dropped_before"], len(found["labels"])) == ("20241118000000", 2)
    asked = shop.ask("diff", "web.visits@2024-11-17", "--as-known", BEFORE_ALL)
    assert asked.exit_code == ExitCode.FAILED
    assert "E518 web.visits@20241117000000 cannot be compared" in asked.stderr


def test_the_ledger_of_another_environment_is_fixed_there(shop: Shop) -> None:
    shop.done(TABLE, 17)
    copy_to_prod(shop)
    prod = shop.folder / ".prod" / shop.ledger_file.name
    prod.write_bytes(b"this was a ledger, and something else was written over it " * 200)
    damaged = shop.ask("diff", TABLE, "--against", "prod")
    assert "E422" in damaged.stderr
    assert "`waterclock ledger rebuild --force --env prod`" in damaged.stderr
    own = shop.ask("diff", TABLE, "--env", "prod", "--against", "dev")
    assert "`waterclock ledger rebuild --force --env prod`" in own.stderr
    prod.unlink()
    (shop.folder / ".prod" / "tables" / "sales" / "by_country" / "_delta_log").mkdir(parents=True)
    lost = shop.ask("diff", TABLE, "--against", "prod")
    assert "E421" in lost.stderr
    assert "`waterclock ledger rebuild --env prod`" in lost.stderr


def test_lost_slices_are_reported_with_their_environment(shop: Shop) -> None:
    shop.done(TABLE, 17)
    copy_to_prod(shop)
    shop.done(TABLE, 17, rows=11)
    lost = shop.ask("diff", TABLE, "--against", "prod")
    assert lost.exit_code == ExitCode.FAILED
    assert f"E605 a file of {TABLE} in prod is damaged or gone" in lost.stderr
    assert "`waterclock maintain --env prod`" in lost.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("diff", "no.such", "--as-known", BEFORE_ALL), "E511"),
        (("diff", "out.by_country", "--as-known", BEFORE_ALL), "E706"),
        (("diff", TABLE, "--against", "prd"), "E243"),
        (("diff", TABLE, "--as-known", "latest"), "E106"),
        (("diff", "web.visits"), "E516"),
        (("diff", TABLE, "--user", "eve"), "E941"),
    ],
)
def test_an_impossible_comparison_is_refused(shop: Shop, arguments: tuple[str, ...], code: str) -> None:
    shop.done(TABLE, 17)
    asked = shop.ask(*arguments)
    assert asked.exit_code == ExitCode.FAILED
    assert code in asked.stderr


def test_an_environment_that_never_ran_is_refused(shop: Shop) -> None:
    shop.done(TABLE, 17)
    header = shop.folder / "waterclock.toml"
    header.write_text(header.read_text(encoding="utf-8") + PROD, encoding="utf-8")
    for arguments in (("--against", "prod"), ("--env", "prod", "--against", "dev")):
        asked = shop.ask("diff", TABLE, *arguments)
        assert (asked.exit_code, "E412" in asked.stderr) == (ExitCode.FAILED, True), asked.stderr
    assert not (shop.folder / ".prod").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        (), (TABLE, "--all"), (TABLE, "--against", "prod", "--as-known", BEFORE_ALL), (TABLE, "--against", "dev"),
        (TABLE, "--markdown", "--json"), (TABLE, "--tolerance", "-1"), (TABLE, "--tolerance", "nan"),
        (TABLE, "--limit", "10001"),
    ],
)  # fmt: skip
def test_options_that_exclude_each_other_are_a_usage_error(shop: Shop, arguments: tuple[str, ...]) -> None:
    assert shop.ask("diff", *arguments).exit_code == ExitCode.USAGE


def test_names_of_tables_beside_all_are_refused_with_the_fix(shop: Shop) -> None:
    assert "leave out the names, or --all" in " ".join(shop.ask("diff", TABLE, "--all").stderr.split())
