from __future__ import annotations

import io
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from rich.console import Console

from tests.unit.cli.conftest import Shop, day
from waterclock.batches.audit_records import Audit, BatchState, Link
from waterclock.cli.views.audit import _format_measure, _print_links, _source_pairs, print_batches
from waterclock.cli.views.theme import make_console, theme
from waterclock.ledger.read import status
from waterclock.ledger.store.schema import AnyRow
from waterclock.operations.audit_lookup import BatchList
from waterclock.operations.project_opening import open_read_only
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import parse_period
from waterclock.ui.page_query import PageQuery
from waterclock.ui.pages.batch import batch


def _with_rows(audit: Audit, rows: int) -> Audit:
    """Return the audit of a batch with another number of rows in its revisions."""
    made = tuple(
        replace(each, revision=replace(each.revision, rows=rows)) if each.revision else each for each in audit.attempts
    )
    return replace(audit, attempts=made)


def test_audit_of_a_batch_shows_its_runner_size_code_timings_and_digest(busy_shop: Shop) -> None:
    found = busy_shop.ask("audit", "sales.by_country@2024-11-18")
    assert found.exit_code == 0
    lines = found.stdout
    assert "sales.by_country@20241118000000  2024-11-18" in lines
    assert "■ done" in lines
    assert "by ann on desk:1" in lines
    assert "10 rows, 1.2 kB" in lines
    assert "as today" in lines
    assert "make 0.5" in lines
    assert "digest   10:18:7" in lines


def test_audit_of_a_batch_with_dropped_rows_states_that_no_query_shows_them(busy_shop: Shop) -> None:
    busy_shop.ledger.maintenance.drop_windows("shop.orders", day(18), 9, who="ann", why="the licence ended")
    found = busy_shop.ask("audit", "shop.orders@2024-11-17", width=200).stdout
    assert "■ done: its rows were dropped since, and no query shows them" in found
    assert "■ done\n" in busy_shop.ask("audit", "shop.orders@2024-11-18", width=200).stdout
    with open_read_only(busy_shop.folder, None, "2024-11-20T08:00") as at:
        verbs = {}
        for number in (17, 18):
            page = batch(at, PageQuery("", "", {"table": "shop.orders", "labels": f"2024-11-{number}"}))
            verbs[number] = [action["verb"] for action in page["actions"]]
    assert verbs == {17: [], 18: ["recompute", "recollect"]}  # a dropped window cannot be made again (E518)


def test_a_batch_that_can_never_be_made_can_be_skipped(busy_shop: Shop) -> None:
    busy_shop.ledger.maintenance.drop_windows("web.visits", day(18), 9, who="ann")
    busy_shop.ledger.decisions.retry("shop.orders", [day(19)], who="ann")
    way = "`waterclock skip web.per_order 20241117000000 --why '…'` lets its readers go on without it"
    for command in ("status", "plan"):
        assert way in busy_shop.ask(command, "web.per_order", width=300).stdout
    with open_read_only(busy_shop.folder, None, "2024-11-20T08:00") as at:
        page = batch(at, PageQuery("", "", {"table": "web.per_order", "labels": "2024-11-17"}))
    assert (page["status"], [action["words"] for action in page["actions"]]) == ("expired", ["Skip per_order…"])


def test_a_delivery_has_no_version_and_columns_left_out_are_named(busy_shop: Shop) -> None:
    assert _format_measure(["modified_at", "note"]) == "modified_at, note"
    busy_shop.done("out.by_country", 17, version=-1)
    delivered = busy_shop.ask("audit", "out.by_country@2024-11-17").stdout
    assert "■ done" in delivered
    assert "table version" not in delivered


def test_audit_of_a_batch_does_not_load_its_neighbouring_batches(
    busy_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[datetime] = []
    cell = status._build_cell

    def seen(row: AnyRow) -> BatchState:
        read.append(row.label)
        return cell(row)

    monkeypatch.setattr(status, "_build_cell", seen)
    busy_shop.ask("audit", "sales.by_country@2024-11-18")
    assert set(read) == {day(18)}
    read.clear()
    busy_shop.ask("audit", "sales.by_country", "--last", "1")
    assert len(set(read)) == 1


def test_audit_of_a_batch_shows_its_reads_and_its_upstream_and_downstream_batches(busy_shop: Shop) -> None:
    busy_shop.done("out.by_country", 17)
    found = busy_shop.ask("audit", "sales.by_country@20241117000000").stdout
    read, up, down = (found.index(heading) for heading in ("\nread\n", "\nmade from 2 batches", "\nwent into 1 batch"))
    assert read < up < down
    assert "shop.orders@20241117000000" in found[up:down]
    assert "shop.customers@20241119000000" in found[up:down]
    assert "out.by_country@20241117000000" in found[down:]
    assert "as of 2024-11-18 00:00Z" in found[read:up]


def test_audit_of_a_batch_shows_its_warnings_and_source_files(busy_shop: Shop) -> None:
    found = busy_shop.ask("audit", "web.visits@2024-11-18").stdout
    assert "warned   few_orders: 3 of 10 rows" in found
    assert "source   files: a.csv" in found


def test_audit_of_a_failed_batch_shows_its_attempts_and_errors(busy_shop: Shop) -> None:
    found = busy_shop.ask("audit", "shop.orders@2024-11-19").stdout
    assert "✕ failed: E731 amount is no number" in found
    assert "1 attempt" in found
    assert "✕ failed claim" in found


def test_audit_marks_the_current_attempt_among_completed_attempts(busy_shop: Shop) -> None:
    busy_shop.done("shop.orders", 17)
    found = busy_shop.ask("audit", "shop.orders@2024-11-17").stdout
    attempts = [line.rsplit("  ", 1)[1] for line in found.splitlines() if "■ done   claim" in line]
    assert attempts == ["replaced since", "current"]


def test_audit_shows_a_users_decision_with_its_reason(busy_shop: Shop) -> None:
    busy_shop.ask("skip", "shop.orders", "2024-11-19", "--why", "the shop was closed", "--yes")
    found = busy_shop.ask("audit", "shop.orders@2024-11-19").stdout
    assert "» skipped" in found
    assert "why: the shop was closed" in found


def test_without_a_label_the_newest_batches_are_listed_oldest_first(busy_shop: Shop) -> None:
    lines = busy_shop.ask("audit", "shop.orders", width=140).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["2024-11-17", "2024-11-18", "2024-11-19"]
    assert "■ done" in lines[1]
    assert "✕ failed" in lines[3]
    [line] = busy_shop.ask("audit", "shop.orders", "--last", "1", width=140).stdout.splitlines()[1:]
    assert line.startswith("2024-11-19")


def test_a_list_shows_the_same_status_for_each_batch_as_its_own_audit(busy_shop: Shop) -> None:
    """A failed attempt that is not needed any more, because its input has its former rows again."""
    name = "sales.by_country"
    busy_shop.done("shop.orders", 18, rows=11)
    busy_shop.failed(name, 18)
    assert busy_shop.json("audit", f"{name}@2024-11-18")["status"] == "failed"
    busy_shop.done("shop.orders", 18)
    one = busy_shop.json("audit", f"{name}@2024-11-18")
    assert (one["status"], one["reason"].startswith("an attempt to make it again failed")) == ("done", True)
    [*_, listed] = busy_shop.json("audit", name)["batches"]
    assert (listed["label"], listed["status"]) == ("20241118000000", "done")
    busy_shop.ledger.decisions.request_backfill("sales.by_country", [day(19)], who="ann")
    [*_, listed] = busy_shop.json("audit", name)["batches"]
    assert (listed["label"], listed["status"]) == ("20241119000000", "blocked")
    assert "┃ blocked" in busy_shop.ask("audit", name, width=140).stdout


def test_a_narrow_terminal_gets_the_columns_that_matter_most(busy_shop: Shop) -> None:
    lines = busy_shop.ask("audit", "shop.orders", width=80).stdout.splitlines()
    assert lines[0].split() == ["label", "state", "rows", "took", "made", "by"]
    assert all(len(line) <= 80 and "…" not in line for line in lines)
    assert busy_shop.ask("audit", "shop.orders", width=40).stdout.split()[:3] == ["label", "state", "rows"]


@pytest.mark.parametrize("width", [60, 80])
def test_columns_of_batches_are_whole_on_a_narrow_terminal_whatever_is_in_them(busy_shop: Shop, width: int) -> None:
    table = replace(
        busy_shop.project.flow.tables["shop.orders"], cadence=Cadence(parse_period("HOUR"), zone="America/New_York")
    )
    audits = [busy_shop.ledger.past.audit("shop.orders", day(number)) for number in (17, 18, 19)]
    many = [_with_rows(audit, 336_776_123) for audit in audits]
    out = io.StringIO()
    print_batches(make_console(out, width=width), table, BatchList(tuple(many), {}))
    lines = out.getvalue().splitlines()
    assert all(len(line.rstrip()) <= width and "…" not in line for line in lines)
    assert "336\u2009776\u2009123" in lines[1]
    assert lines[1].startswith("2024-11-16 19:00")


def test_links_of_many_labels_keep_to_the_line_of_a_terminal(busy_shop: Shop) -> None:
    links = [Link(1, "shop.orders", day(number), 7, 10, "c") for number in (17, 18)]
    out = io.StringIO()
    _print_links(
        Console(file=out, force_terminal=True, width=60, no_color=True, theme=theme("both")),
        busy_shop.project.flow,
        "up",
        links,
    )
    assert "  shop.orders  2024-11-17 .. 2024-11-18 (2 labels)  " in out.getvalue()
    assert "@" not in out.getvalue()


def test_source_files_are_listed_one_per_line_with_their_sizes() -> None:
    items = [{"name": f"new/{number}.csv.gz", "size": 812, "stamp": "2024-11-17"} for number in range(5)]
    assert _source_pairs("items", items) == [
        ("source", "new/0.csv.gz (812 B)"),
        ("source", "new/1.csv.gz (812 B)"),
        ("source", "new/2.csv.gz (812 B)"),
        ("", "and 2 items more"),
    ]
    assert _source_pairs("files", ["a.csv"]) == [("source", "files: a.csv")]


def test_consecutive_input_batches_of_one_table_are_shown_as_one_range(busy_shop: Shop) -> None:
    busy_shop.ask("skip", "shop.orders", "2024-11-19", "--why", "closed", "--yes")
    busy_shop.done("sales.best_customers", 19)
    found = busy_shop.ask("audit", "sales.best_customers@2024-11-19").stdout
    assert "shop.orders@20241117000000..20241118000000  2024-11-17 .. 2024-11-18 (2 labels)  20 rows" in found


def test_a_range_lists_its_batches(busy_shop: Shop) -> None:
    told = busy_shop.json("audit", "shop.orders@2024-11-17..2024-11-18")
    assert [batch["label"] for batch in told["batches"]] == ["20241117000000", "20241118000000"]


def test_the_audit_is_json_with_inputs_attempts_and_links(busy_shop: Shop) -> None:
    told = busy_shop.json("audit", "sales.by_country@2024-11-17")
    [attempt] = told["attempts"]
    assert told["status"] == "done"
    assert told["code_is_current"] is True
    assert attempt["revision"]["digest"] == "10:17:7"
    assert {each["read"] for each in attempt["inputs"]} == {"shop.orders", "shop.customers"}
    assert [link["table"] for link in told["made_from"]] == ["shop.orders", "shop.customers"]
    assert told["went_into"] == []


@pytest.mark.parametrize(
    ("which", "why"),
    [
        ("web.per_order@2024-11-17", "it is ready"),
        ("sales.by_country@2024-11-19", "blocked by shop.orders@20241119000000"),
    ],
)
def test_audit_of_a_batch_that_was_not_made_reports_the_reason(busy_shop: Shop, which: str, why: str) -> None:
    found = busy_shop.ask("audit", which)
    assert found.exit_code == 1
    assert "E516" in found.stderr
    assert why in found.stderr


def test_a_table_that_never_ran_and_a_label_it_does_not_have_are_refused(busy_shop: Shop) -> None:
    assert "E516 no batch of web.per_order was made yet" in busy_shop.ask("audit", "web.per_order").stderr
    assert "E513" in busy_shop.ask("audit", "shop.orders@2023-01-01").stderr
    assert "E515" in busy_shop.ask("audit", "shop.*").stderr


def test_audit_of_a_blocked_batch_reports_the_blocking_batch(busy_shop: Shop) -> None:
    said = busy_shop.ask("audit", "sales.by_country@2024-11-19").stderr
    assert "why  it is blocked by shop.orders@20241119000000, failed" in said


def test_audit_still_shows_row_counts_of_broken_rules_from_a_replaced_attempt(busy_shop: Shop) -> None:
    came: dict[str, Any] = {"in": 10}  # a keyword of Python's
    busy_shop.done("sales.by_country", 17, rows=7, dropped=3, broken={"positive": 3}, **came)
    busy_shop.done("sales.by_country", 17, rows=9, quarantined=1, broken={"positive": 1}, **came)
    told = busy_shop.ask("audit", "sales.by_country@2024-11-17", width=160).stdout
    assert "      in: 10; dropped: 3; broken: positive: 3" in told.splitlines()
    assert "quarantined  1" in told
    assert told.count("quarantined") == 1, "the current revision has it above"
