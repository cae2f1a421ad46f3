"""Decisions about batches: skip, retry and backfill, up to the start of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import TODAY, Runs, Shop, ask, day, ranges, texts
from waterclock.cli.actions.init import start_empty


def covered(shop: Shop, table: str, label: int) -> bool:
    return shop.ledger.reads.snapshot(shop.project.flow).of(table).covered.covers_instant(day(label))


def test_scenario_b_retry_runs_only_the_failed_batch_and_the_batches_it_blocked(busy_shop: Shop, runs: Runs) -> None:
    assert busy_shop.ask("retry").exit_code == 0
    [asked] = runs.asked
    assert asked.only == ("sales.best_customers", "sales.by_country", "shop.orders", "web.per_order")
    assert set(ranges(asked).values()) == {"20241119000000"}
    assert not busy_shop.ledger.reads.snapshot(busy_shop.project.flow).of("shop.orders").troubles


def test_retry_of_a_selection_leaves_other_failures_alone(busy_shop: Shop, runs: Runs) -> None:
    busy_shop.failed("web.per_order", 17)
    busy_shop.ask("retry", "web.per_order")
    assert [asked.only for asked in runs.asked] == [("web.per_order",)]
    assert list(busy_shop.ledger.reads.snapshot(busy_shop.project.flow).of("shop.orders").troubles) == [day(19)]


def test_retry_of_labels_leaves_others_alone(busy_shop: Shop, runs: Runs) -> None:
    busy_shop.failed("web.per_order", 17, 18)
    busy_shop.ask("retry", "web.per_order", "2024-11-18")
    assert [ranges(asked) for asked in runs.asked] == [{"web.per_order": "20241118000000"}]
    assert list(busy_shop.ledger.reads.snapshot(busy_shop.project.flow).of("web.per_order").troubles) == [day(17)]


def test_retry_with_no_run_only_clears_the_failure(busy_shop: Shop, runs: Runs) -> None:
    told = busy_shop.json("retry", "--no-run")
    assert told == {"cleared": {"shop.orders": ["20241119000000"]}}
    assert runs.asked == []


def test_retry_of_a_project_without_tables_finds_nothing(tmp_path: Path) -> None:
    start_empty(tmp_path / "new", TODAY)
    assert ask("retry", "--project", str(tmp_path / "new")).stdout == "there are no failed batches\n"


def test_retry_reports_that_there_are_no_failed_batches(shop: Shop, runs: Runs) -> None:
    assert shop.ask("retry").stdout == "there are no failed batches\n"
    assert runs.asked == []


def test_a_skipped_batch_counts_as_covered_until_a_retry_that_names_it(busy_shop: Shop, runs: Runs) -> None:
    found = busy_shop.ask("skip", "shop.orders", "2024-11-19", "--why", "the shop was closed", "--yes")
    assert found.exit_code == 0
    assert "skipped: 1 batch of shop.orders (2024-11-19): the shop was closed" in found.stdout
    assert covered(busy_shop, "shop.orders", 19)
    assert "· ready" in busy_shop.ask("plan", "sales.by_country").stdout
    busy_shop.ask("retry", "--no-run")
    assert covered(busy_shop, "shop.orders", 19), "only a retry that names it withdraws a skip"
    busy_shop.ask("retry", "shop.orders", "2024-11-19", "--no-run")
    assert not covered(busy_shop, "shop.orders", 19)
    assert runs.asked == []


def test_retry_of_a_skipped_batch_also_runs_batches_made_without_its_rows(busy_shop: Shop, runs: Runs) -> None:
    busy_shop.ask("skip", "shop.orders", "2024-11-19", "--why", "the shop was closed", "--yes")
    busy_shop.done("sales.by_country", 19)
    assert busy_shop.ask("retry", "shop.orders", "2024-11-19").exit_code == 0
    [asked] = runs.asked
    assert ranges(asked) == dict.fromkeys(["shop.orders", "sales.by_country"], "20241119000000")


def test_skip_without_an_interactive_confirmation_changes_nothing(busy_shop: Shop) -> None:
    found = busy_shop.ask("skip", "shop.orders", "2024-11-19", "--why", "closed")
    assert found.exit_code == 1
    assert "E902 the command needs a confirmation" in found.stderr
    assert "Skip 1 batch of shop.orders (2024-11-19)?" in found.stderr
    assert not covered(busy_shop, "shop.orders", 19)


def test_skip_gives_up_a_done_batch_whose_rows_are_lost(busy_shop: Shop) -> None:
    found = busy_shop.ask("skip", "shop.orders", "2024-11-18", "--why", "the disk", "--yes")
    assert found.exit_code == 0
    assert "1 batch of shop.orders done before and damaged; skipping loses " in found.stdout
    [cell] = [cell for cell in busy_shop.ledger.past.grid(["shop.orders"]) if cell.label == day(18)]
    assert (cell.status, cell.requested) == ("done", "skip")
    [event] = [row for row in busy_shop.ledger.past.rows("events") if row["kind"] == "given up"]
    assert "the disk" in event["data"]


def test_skip_wants_a_reason_and_a_label(busy_shop: Shop) -> None:
    assert busy_shop.ask("skip", "shop.orders", "2024-11-19", "--yes").exit_code == 2
    refused = busy_shop.ask("skip", "shop.orders", "2024-11-19", "--why", " ", "--yes").stderr
    assert "E903" in refused
    assert "state why the rows are left out; on a command line: --why '…'" in refused
    assert "E513" in busy_shop.ask("skip", "shop.orders", "2024-12-24", "--why", "x", "--yes").stderr


def test_skip_is_json(busy_shop: Shop) -> None:
    told = busy_shop.json("skip", "web.per_order", "2024-11-17..2024-11-18", "--why", "no visits", "--yes")
    skipped = texts([day(17), day(18)])
    expected = {"table": "web.per_order", "skipped": skipped, "given_up": [], "others": {}, "why": "no visits"}
    assert told == expected


def test_backfill_shows_plan_and_cost_before_confirmation(busy_shop: Shop, runs: Runs) -> None:
    found = busy_shop.ask("backfill", "web.per_order", "2024-11-17..2024-11-18")
    assert found.exit_code == 1
    assert "web.per_order" in found.stdout
    assert "estimate: not known for web.per_order, which never ran" in found.stdout
    assert "Make 2 batches?" in found.stderr
    assert runs.asked == []


def test_backfill_starts_at_the_newest_label_with_newest_first(busy_shop: Shop, runs: Runs) -> None:
    for more in ((), ("--newest-first",)):
        busy_shop.ask("backfill", "web.per_order", "2024-11-17..2024-11-18", "--yes", *more)
    assert [asked.newest_first for asked in runs.asked] == [False, True]
    assert busy_shop.ask("backfill", "web.per_order", "--changed", "--newest-first").exit_code == 2


def test_backfill_makes_labels_that_are_not_needed(busy_shop: Shop, runs: Runs) -> None:
    found = busy_shop.ask("backfill", "sales.best_customers", "2024-11-17..2024-11-18", "--yes")
    assert found.exit_code == 0
    [asked] = runs.asked
    assert asked.force == {"sales.best_customers": frozenset({day(17), day(18)})}
    assert ranges(asked) == {"sales.best_customers": "2024-11-17..2024-11-18"}


def test_backfill_has_nothing_to_do_where_all_is_done(busy_shop: Shop, runs: Runs) -> None:
    assert busy_shop.ask("backfill", "shop.orders", "2024-11-17..2024-11-18").stdout == "there are no missing batches\n"
    assert runs.asked == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("shop.orders", "2020-01"), "E513"), (("shop.ordres", "2024-11"), "E511"), (("shop.orders", "soon"), "E512")],
)
def test_backfill_refuses_unknown_tables_and_labels(busy_shop: Shop, arguments: tuple[str, str], code: str) -> None:
    found: Any = busy_shop.ask("backfill", *arguments)
    assert found.exit_code == 1
    assert code in found.stderr
