"""`release` and `replay` without held batches or quarantined rows, and batches that wait for held ones."""

from __future__ import annotations

import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.model.flows import collect
from tests.unit.cli.conftest import Shop, day
from waterclock.batches.ledger_snapshot import BatchStatus
from waterclock.batches.records import BatchResult
from waterclock.cli.actions import release
from waterclock.engine.batch import releasing
from waterclock.engine.batch.claim_record import write_claim_record
from waterclock.engine.run_listener import GroupReport
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.operations.project_opening import open_read_only
from waterclock.operations.proposals import Verb, propose
from waterclock.planner.plan import Batch, Group, Status
from waterclock.storage.lake import Lake
from waterclock.ui.page_query import PageQuery
from waterclock.ui.pages.batch import batch
from waterclock.ui.pages.batches import batches

SAID = "E755 shop.orders is held: positive: 3 of 5 rows violate (amount > 0)"


def hold(shop: Shop, **measures: Any) -> str:
    """Hold the batch of the 19th as a runner does, and return the folder of its slice."""
    shop.ledger.decisions.retry("shop.orders", [day(19)], who="ann")
    claim = shop.ledger.claims.take(shop._request(shop._batch("shop.orders", 19)))
    lake = Lake(shop.project.storage)
    path = lake.slice_path(day(19), claim.number)
    sealed = BatchResult(day(19), day(20), -1, 2, 2400, None, path, measures=measures)
    Path(lake.folder("shop.orders"), path).mkdir(parents=True)
    write_claim_record(lake.folder("shop.orders"), claim, [sealed])
    shop.ledger.claims.record_failed(claim, error=SAID, is_transient=False, status=BatchStatus.HELD)
    return f"{lake.folder('shop.orders')}/{path}"


def test_an_audit_of_a_held_batch_shows_the_rows_that_a_release_makes_visible(busy_shop: Shop) -> None:
    counts: dict[str, Any] = {"in": 5, "quarantined": 3, "broken": {"positive": 3}, "dropped": 0}
    folder = hold(busy_shop, **counts)
    said = " ".join(busy_shop.ask("audit", "shop.orders@2024-11-19", width=400).stdout.split())
    assert f"held back 2 rows, 2.4 kB, not visible until released its files {folder} in 5 quarantined 3 broken" in said
    assert "◆ held claim" in said
    told = busy_shop.json("audit", "shop.orders@2024-11-19")["held"]
    assert told == {"rows": 2, "bytes": 2400, "folder": folder, "measures": counts}


def test_an_audit_of_a_held_batch_without_its_claim_record_omits_the_held_rows(busy_shop: Shop) -> None:
    folder = hold(busy_shop)
    Path(folder, "_claim.json").unlink()
    assert busy_shop.json("audit", "shop.orders@2024-11-19")["held"] is None
    assert SAID in busy_shop.ask("audit", "shop.orders@2024-11-19", width=400).stdout


def test_a_release_of_a_batch_that_is_not_held_is_refused_and_lists_held_ones(busy_shop: Shop) -> None:
    found = busy_shop.ask("release", "shop.orders@2024-11-18", "--because", "it is right", "--yes")
    assert found.exit_code == 1
    assert "E440 no batch of shop.orders@2024-11-18 is held" in found.stdout + found.stderr
    assert "no batch of it is held by a rule" in found.stdout + found.stderr
    apart = busy_shop.ask("release", "shop.orders", "2024-11-18", "--because", "it is right", "--yes")
    assert apart.stdout + apart.stderr == found.stdout + found.stderr
    twice = busy_shop.ask("release", "shop.orders@2024-11-18", "2024-11-18", "--because", "it is right", "--yes")
    assert twice.exit_code == 2
    assert "labels are given twice" in twice.stderr


def test_a_release_that_was_requested_already_is_not_to_be_requested_again(busy_shop: Shop) -> None:
    hold(busy_shop)
    busy_shop.ledger.decisions.request_release("shop.orders", [day(19)], who="bo", why="it may")
    found = busy_shop.ask("release", "shop.orders@2024-11-19", "--why", "it is right", "--yes")
    said = " ".join(found.stderr.split())
    assert "E440 no batch of shop.orders@2024-11-19 waits for a release" in said
    assert "the release of 20241119000000 was requested already" in said
    assert "`waterclock withdraw shop.orders@2024-11-19` cancels it" in said
    with open_read_only(busy_shop.folder, None, "2024-11-20T08:00") as at:
        page = batch(at, PageQuery("", "", {"table": "shop.orders", "labels": "2024-11-19"}))
        assert [action["words"] for action in page["actions"]] == ["Skip…", "Withdraw…"]
        block = batches(at, PageQuery("shop.orders", "2024-11-19"))
        assert [action["words"] for action in block["actions"]] == ["Withdraw 1…"]
        assert not propose(at, Verb.BACKFILL, "shop.orders", "2024-11-19").is_possible


def test_a_release_extends_the_lease_of_its_claim(busy_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: a commit or delivery of many rows outlasted the lease, so another runner could kill its claim."""
    hold(busy_shop)
    threads: list[list[str]] = []

    def run_group(work: object, group: Group, now: datetime) -> GroupReport:
        del work, now
        threads.append([thread.name for thread in threading.enumerate()])
        return GroupReport(group, 1)

    batch = busy_shop._batch("shop.orders", 19)
    monkeypatch.setattr(release, "run_group", run_group)
    monkeypatch.setattr(release, "group_to_release", lambda *_: Group("shop.orders", (batch,)))
    assert release.release_batches(busy_shop.folder, None, "shop.orders", "it may", None, yes=True, is_json=True) == 0
    assert ["heartbeat" in names for names in threads] == [True]


def test_a_release_of_several_passes_over_one_that_cannot_be_released(
    busy_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(busy_shop)
    busy_shop.ledger.decisions.request_restate("shop.orders", [day(18)], "recollect", who="ann")
    claim = busy_shop.ledger.claims.take(busy_shop._request(busy_shop._batch("shop.orders", 18)))
    busy_shop.ledger.claims.record_failed(claim, error=SAID, is_transient=False, status=BatchStatus.HELD)
    batch, released = busy_shop._batch("shop.orders", 19), list[datetime]()

    def to_release(_: object, table: Table, label: datetime, *__: object) -> Group:
        if label == day(18):
            raise WaterclockError("E756", "the 18th cannot be released", why="its inputs have changed since")
        released.append(label)
        return Group(table.name, (batch,))

    monkeypatch.setattr(release, "run_group", lambda _, group, __: GroupReport(group, 1))
    monkeypatch.setattr(release, "group_to_release", to_release)
    found = busy_shop.ask("release", "shop.orders", "--why", "it may", "--yes", width=400)
    assert released == [day(19)]
    assert found.exit_code == 1
    assert "released before this error: 20241119000000" in found.stdout
    assert "E756 the 18th cannot be released" in found.stderr


def test_the_error_of_a_held_batch_that_waits_does_not_only_name_retry() -> None:
    table, window = collect("raw.a"), collect("raw.a").cadence.window_of(day(18))
    waiting = Batch("raw.a", window, Status.WAITING, "waits for raw.b@20241118000000")
    error = releasing._not_ready_error(table, day(18), waiting)
    assert (error.code, error.why) == ("E756", waiting.reason)
    assert str(error.fix).startswith("release it when the batches that it waits for are done")
    assert "`waterclock retry raw.a@20241118000000`" in str(error.fix)
    assert (
        releasing._not_ready_error(table, day(18), None).fix == "`waterclock retry raw.a@20241118000000` makes it again"
    )


def test_a_release_needs_a_reason(busy_shop: Shop) -> None:
    found = busy_shop.ask("release", "shop.orders", "--because", " ", "--yes")
    assert found.exit_code == 1
    said = " ".join((found.stdout + found.stderr).split())
    assert "E903 a reason is needed" in said
    assert "readers have no other explanation of rows that a rule held" in said
    assert "left out" not in said  # that is the text of `skip`; here rows are shown


def test_a_held_batch_is_shown_with_its_blocked_batches_and_the_command_to_release_it(busy_shop: Shop) -> None:
    ledger = busy_shop.ledger
    ledger.decisions.retry("shop.orders", [day(19)], who="ann")
    claim = ledger.claims.take(busy_shop._request(busy_shop._batch("shop.orders", 19)))
    said = "E755 shop.orders is held: positive: 3 of 5 rows violate (amount > 0)"
    ledger.claims.record_failed(claim, error=said, is_transient=False, status=BatchStatus.HELD)
    assert f"shop.orders@20241119000000 held: {said}" in " ".join(busy_shop.ask("status").stdout.split())
    assert "blocks" in busy_shop.ask("status").stdout
    assert "1 held" in busy_shop.ask("plan").stdout
    way = "`waterclock release shop.orders@20241119000000 --why '…'` shows it"
    for command in ("status", "plan"):
        assert way in " ".join(busy_shop.ask(command).stdout.split())


def test_a_held_batch_with_changed_inputs_is_to_be_retried_and_not_released(busy_shop: Shop) -> None:
    """An input changed meanwhile, so a release would be refused."""
    ledger, name, where = busy_shop.ledger, "sales.by_country", "sales.by_country@20241118000000"
    ledger.decisions.request_restate(name, [day(18)], "recompute", who="ann")
    claim = ledger.claims.take(busy_shop._request(busy_shop._batch(name, 18)))
    ledger.claims.record_failed(claim, error="E755 it is held", is_transient=False, status=BatchStatus.HELD)
    lake = Lake(busy_shop.project.storage)
    path = lake.slice_path(day(18), claim.number)
    Path(lake.folder(name), path).mkdir(parents=True)
    write_claim_record(lake.folder(name), claim, [BatchResult(day(18), day(19), -1, 2, 2400, None, path)])
    for command in ("status", "plan"):
        assert f"waterclock release {where}" in " ".join(busy_shop.ask(command).stdout.split())
    busy_shop.done("shop.orders", 18, rows=11)
    for command in ("status", "plan"):
        said = " ".join(busy_shop.ask(command).stdout.split())
        assert "E755 it is held; its inputs have changed since" in said
        assert f"`waterclock retry {where}` makes it again" in said
        assert f"waterclock release {where}" not in said
    said = " ".join(busy_shop.ask("audit", where, width=400).stdout.split())
    assert f"not visible: `waterclock retry {where}` makes it again" in said
    with open_read_only(busy_shop.folder, None, "2024-11-20T08:00") as at:
        assert propose(at, Verb.RELEASE, name, "2024-11-18").requested == {}
        assert propose(at, Verb.RETRY, name, "2024-11-18").count == 1
        page = batch(at, PageQuery("", "", {"table": name, "labels": "2024-11-18"}))
        assert page["error"]["fix"] == f"`waterclock retry {where}` makes it again"
        assert [action["verb"] for action in page["actions"]] == ["retry", "recompute", "withdraw"]


def test_a_replay_of_labels_of_which_no_row_is_set_aside_is_refused(busy_shop: Shop) -> None:
    found = busy_shop.ask("replay", "shop.orders@2024-11-18", "--now", "2024-11-20T08:00", "--yes")
    assert found.exit_code == 1
    assert "E441 no rows of shop.orders are quarantined there" in found.stdout + found.stderr


def test_a_replay_where_nothing_is_set_aside_has_nothing_to_do(busy_shop: Shop) -> None:
    found = busy_shop.ask("replay", "shop.*", "--now", "2024-11-20T08:00", "--no-run", "--yes")
    assert found.exit_code == 0
    assert "no rows there were quarantined by older rules" in found.stdout


def test_recompute_of_a_held_batch_requests_it_again(busy_shop: Shop) -> None:
    ledger = busy_shop.ledger
    ledger.decisions.retry("shop.orders", [day(19)], who="ann")
    claim = ledger.claims.take(busy_shop._request(busy_shop._batch("shop.orders", 19)))
    ledger.claims.record_failed(claim, error="E755 held", is_transient=False, status=BatchStatus.HELD)
    found = busy_shop.ask("recompute", "shop.orders", "--no-run", "--yes", "--why", "mended")
    assert "held: 1 label of shop.orders (2024-11-19)" in found.stdout
    assert "requested; the next run makes them again" in found.stdout
    assert ledger.reads.held_labels("shop.orders") == {}
