from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tests.ledgers import Clock, Desk, day, desk, require_sums, result, table
from waterclock.batches.ledger_snapshot import FOREVER, BatchStatus
from waterclock.batches.records import Input
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store.export import ExportHead
from waterclock.ledger.store.instants import to_micros
from waterclock.ledger.write.committed_claims import CommittedClaim
from waterclock.timelabel.window import Window


@dataclass
class Shelf:
    """The existing exports, newest first."""

    exports: list[tuple[str, list[str]]] = field(default_factory=list)

    def take(self, ledger: Ledger, *, whole: bool = False) -> ExportHead:
        earlier = [] if whole else [(name, ExportHead.of_line(lines[0])) for name, lines in self.exports]
        lines = list(ledger.maintenance.export_lines(earlier))
        self.exports.insert(0, (f"e{len(self.exports)}", lines))
        return ExportHead.of_line(lines[0])

    def chain(self) -> Iterator[Sequence[str]]:
        by_name = dict(self.exports)
        name: str | None = self.exports[0][0]
        while name is not None:
            yield by_name[name]
            name = ExportHead.of_line(by_name[name][0]).follows


def told(ledger: Ledger) -> dict[str, list[dict[str, Any]]]:
    return {
        "batches": list(ledger.past.rows("batches")),
        "inputs": list(ledger.past.rows("inputs")),
        "events": list(ledger.past.rows("events")),
    }


def again(shelf: Shelf) -> Ledger:
    ledger = Ledger.open("sqlite://", clock=Clock())
    ledger.maintenance.load(shelf.chain())
    return ledger


def live(at_desk: Desk, drawn: random.Random, days: int) -> None:
    """Simulate some days of a small flow: batches done, failed, held, skipped, restated, requested, left open."""
    for at in range(days):
        at_desk.clock.pass_by(hours=1)
        fate = drawn.choice(["done", "done", "failed", "skipped", "restated", "open", "asked"])
        name = drawn.choice(["a.rows", "a.state"])
        label = drawn.randrange(30)
        known = {cell.label: cell for cell in at_desk.ledger.past.grid([name])}
        held = any(claim.request.table == name for claim in at_desk.ledger.claims.open())
        is_done = day(label) in known and known[day(label)].current_claim is not None
        if fate == "skipped" and day(label) not in known:
            at_desk.ledger.decisions.skip(name, [Window(day(label), day(label + 1))], who="ann", why="no source")
        elif fate == "asked" and is_done:
            at_desk.ledger.decisions.request_restate(name, [day(label)], "recompute", who="ann")
        elif held or (day(label) in known and known[day(label)].status in {"skipped", "running"}):
            continue
        elif fate == "failed" and not is_done:
            at_desk.ledger.claims.record_failed(at_desk.claim(name, label), error="no", is_transient=False)
        elif fate == "open" and name == "a.rows" and not is_done:
            at_desk.claim(name, label)
        elif fate in {"done", "restated"}:
            digest = f"{drawn.randrange(1, 4)}:{at}:{label}"
            reads: dict[float, list[Input]] = {}
            if name == "a.state":
                reads[label] = [at_desk.read("a.rows", 0, label)]
            at_desk.done(name, label, digest=digest, restates="asked", reads=reads)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(12))
def test_a_ledger_is_taken_up_from_its_exports_as_it_was(seed: int, at_desk: Desk) -> None:
    drawn, shelf = random.Random(seed), Shelf()
    at_desk.apply(table("a.rows", partitioned=True), table("a.state", mode=Mode.REPLACE, reads=["a.rows"]))
    for _ in range(drawn.randrange(1, 5)):
        live(at_desk, drawn, drawn.randrange(1, 12))
        shelf.take(at_desk.ledger, whole=drawn.random() < 0.2)
    with again(shelf) as found:
        require_sums(found)
        assert told(found) == told(at_desk.ledger)
        before = at_desk.ledger.reads.snapshot(at_desk.flow)
        assert replace(found.reads.snapshot(at_desk.flow), sequence=before.sequence) == before
        assert found.reads.tables() == at_desk.ledger.reads.tables()
        assert found.claims.open() == at_desk.ledger.claims.open()
        assert found.reads.versions("a.state") == at_desk.ledger.reads.versions("a.state")


def test_append_only_rows_are_exported_once(at_desk: Desk) -> None:
    shelf = Shelf()
    at_desk.apply(table("a.rows", partitioned=True))
    at_desk.done("a.rows", 1)
    first = shelf.take(at_desk.ledger)
    at_desk.done("a.rows", 2)
    second = shelf.take(at_desk.ledger)
    assert (first.follows, second.follows) == (None, "e0")
    assert sum('"done","ann"' in line for line in shelf.exports[0][1]) == 1
    with again(shelf) as found:
        assert len(list(found.past.rows("events"))) == len(list(at_desk.ledger.past.rows("events")))


def test_a_rebuild_that_was_running_during_an_export_is_in_the_next_one(at_desk: Desk) -> None:
    """A rebuild reserves its claim number first, and records the claim with its inputs at its end."""
    shelf = Shelf()
    sums = table("b.sums", partitioned=True, reads=["a.rows"])
    at_desk.apply(table("a.rows", partitioned=True), sums)
    at_desk.done("a.rows", 1)
    at_desk.done("b.sums", 1, reads={1: [at_desk.read("a.rows", 1, 2)]})
    number, _ = at_desk.ledger.maintenance.begin_rebuild("b.sums", who="ann")
    shelf.take(at_desk.ledger)
    request = at_desk.request("b.sums", 1, reads={1: [at_desk.read("a.rows", 1, 2)]}, restates="rebuild")
    made = CommittedClaim(number, request, (result(1, version=7),), at_desk.clock.at)
    at_desk.ledger.maintenance.redeclare(sums, version=7, claim=number, who="ann", found=made)
    shelf.take(at_desk.ledger)
    with again(shelf) as found:
        assert told(found) == told(at_desk.ledger)
        assert found.maintenance.known_claims("b.sums") == at_desk.ledger.maintenance.known_claims("b.sums")
        at_desk.ledger, before = found, at_desk.ledger
        at_desk.done("a.rows", 1, digest="1:9:9", restates="again")
        assert at_desk.suspects() == {("b.sums", day(1))}
        at_desk.ledger = before


def test_an_export_of_a_ledger_that_kept_no_sums_is_taken_up_with_them(at_desk: Desk) -> None:
    shelf = Shelf()
    at_desk.apply(table("a.rows", mode=Mode.MERGE, keys=("id",)))
    at_desk.done("a.rows", 1, 2)
    shelf.take(at_desk.ledger)
    lines = list(shelf.exports[0][1])
    head = next(at for at, line in enumerate(lines) if line.startswith('{"table":"tables"'))
    said, row = json.loads(lines[head]), json.loads(lines[head + 1])
    known = said["columns"].index("sum_high")  # columns added since then follow it
    assert said["columns"][known:] == ["sum_high", "sum_low", "paused_at", "paused_by", "paused_why"]
    lines[head : head + 2] = [json.dumps(said | {"columns": said["columns"][:known]}), json.dumps(row[:known])]
    shelf.exports[0] = ("e0", lines)
    with again(shelf) as found:
        require_sums(found)
        states = [("a.rows", day(0), day(3)), ("a.rows", day(0), day(2))]
        assert found.reads.pins(states) == at_desk.ledger.reads.pins(states)


def test_an_export_that_was_cut_off_is_refused_and_leaves_nothing(at_desk: Desk) -> None:
    shelf = Shelf()
    at_desk.apply(table("a.rows", partitioned=True))
    at_desk.done("a.rows", 1)
    shelf.take(at_desk.ledger)
    shelf.exports[0] = ("e0", shelf.exports[0][1][:-3])
    found = Ledger.open("sqlite://", clock=Clock())
    with found, pytest.raises(WaterclockError, match="cut off") as refused:
        found.maintenance.load(shelf.chain())
    assert refused.value.code == "E418"


def test_an_export_of_newer_code_is_refused() -> None:
    with pytest.raises(WaterclockError, match="newer version"):
        ExportHead.of_line(
            '{"export": {"schema": "9000", "project": null, "created_at": 0, "at": 0, "sequence": 0, "last_claim": 0,'
            ' "flows": 0, "events": 0, "open": []}}'
        )


def test_a_commit_that_the_ledger_lacks_is_adopted_once(at_desk: Desk) -> None:
    at_desk.apply(table("a.rows", partitioned=True), table("b.sums", partitioned=True, reads=["a.rows"]))
    at_desk.done("a.rows", 1, digest="1:1:1")
    read = at_desk.read("a.rows", 1, 2)
    request = at_desk.request("b.sums", 1, reads={1: [read]})
    found = CommittedClaim(at_desk.claim("a.rows", 5).number + 1000, request, (result(1, version=7),), at_desk.clock.at)
    assert at_desk.ledger.maintenance.adopt(found)
    assert not at_desk.ledger.maintenance.adopt(found)
    [cell] = at_desk.ledger.past.grid(["b.sums"])
    assert (cell.status, cell.current_claim) == ("done", found.number)
    assert at_desk.ledger.reads.table("b.sums").head_version == 7
    assert at_desk.suspects() == set()
    at_desk.done("a.rows", 1, digest="1:9:9", restates="again")
    assert at_desk.suspects() == {("b.sums", day(1))}
    assert at_desk.claim("b.sums", 2).number > found.number


def test_a_reader_adopted_before_its_input_is_no_suspect_in_the_end(at_desk: Desk) -> None:
    at_desk.apply(table("a.rows", partitioned=True), table("b.sums", partitioned=True, reads=["a.rows"]))
    other = desk()
    with other.ledger:
        other.apply(table("a.rows", partitioned=True), table("b.sums", partitioned=True, reads=["a.rows"]))
        first = other.claim("a.rows", 1)
        other.done("a.rows", 1, claim=first)
        second = other.claim("b.sums", 1, reads={1: [other.read("a.rows", 1, 2)]})
    for claim in (second, first):
        found = CommittedClaim(claim.number, claim.request, (result(1),), at_desk.clock.at)
        assert at_desk.ledger.maintenance.adopt(found)
    assert at_desk.suspects() == set()


def test_a_reloaded_ledger_records_no_batch_before_the_adopted_ones(at_desk: Desk) -> None:
    at_desk.apply(table("a.rows", partitioned=True))
    held, late = at_desk.claim("a.rows", 1), at_desk.clock.at + timedelta(hours=1)
    at_desk.ledger.maintenance.adopt(CommittedClaim(held.number, held.request, (result(1),), late))
    at_desk.done("a.rows", 2)
    other = Ledger.open("sqlite://", clock=at_desk.clock)
    with other:
        other.maintenance.load([list(at_desk.ledger.maintenance.export_lines())])
        again = Desk(other, at_desk.clock, version=2, flow=at_desk.flow)
        again.done("a.rows", 3)
        recorded = [row.recorded_at for row in other.reads.committed_slices("a.rows")]
    assert recorded == [late + timedelta(microseconds=micros) for micros in range(3)]


def test_an_open_claim_that_committed_is_recorded_as_itself(at_desk: Desk) -> None:
    at_desk.apply(table("a.rows", partitioned=True))
    held = at_desk.claim("a.rows", 1)
    assert at_desk.ledger.maintenance.adopt(CommittedClaim(held.number, held.request, (result(1),), at_desk.clock.at))
    assert at_desk.ledger.claims.open() == []
    failed = at_desk.claim("a.rows", 2)
    at_desk.ledger.claims.record_failed(failed, error="no", is_transient=False, status=BatchStatus.HELD)
    assert not at_desk.ledger.maintenance.adopt(
        CommittedClaim(failed.number, failed.request, (result(2),), at_desk.clock.at)
    )


def test_windows_dropped_by_retain_are_in_the_snapshot_for_the_planner(at_desk: Desk) -> None:
    at_desk.apply(table("a.rows", partitioned=True))
    at_desk.done("a.rows", 1)
    at_desk.ledger.maintenance.drop_windows("a.rows", day(3), 9, who="ann")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("a.rows").dropped_before == day(3)
    assert at_desk.ledger.reads.table("a.rows").head_version == 9


def test_the_drop_boundary_of_retain_is_removed_by_a_reset(at_desk: Desk) -> None:
    at_desk.apply(table("a.rows", partitioned=True))
    at_desk.done("a.rows", 1)
    maintenance = at_desk.ledger.maintenance
    maintenance.drop_windows("a.rows", day(3), 9, who="ann")
    assert maintenance.drop_boundary("a.rows", by=FOREVER) == day(3)
    maintenance.adopt_reset("a.rows", version=10, claim=2**40, at=at_desk.clock.at, who="ann")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("a.rows").dropped_before is None
    assert maintenance.drop_boundary("a.rows", by=FOREVER) is None
    maintenance.drop_windows("a.rows", day(2), 11, who="ann")
    assert maintenance.drop_boundary("a.rows", by=FOREVER) == day(2)


def test_a_state_that_was_rewritten_is_read_at_its_new_version(at_desk: Desk) -> None:
    at_desk.apply(table("a.state", mode=Mode.MERGE, keys=("id",)))
    at_desk.done("a.state", 1)
    at_desk.done("a.state", 2)
    at_desk.ledger.maintenance.move_head("a.state", 9)
    assert at_desk.ledger.reads.versions("a.state") == {day(1): 1, day(2): 9}
    at_desk.ledger.maintenance.forget_versions("a.state", 5)
    assert at_desk.ledger.reads.versions("a.state") == {day(2): 9}


def test_an_older_ledger_with_nan_and_nul_values_is_loaded_completely(
    at_desk: Desk, request: pytest.FixtureRequest
) -> None:
    """SQLite stores NaN and NUL, PostgreSQL does not: a move there loses no values next to them."""
    older = desk()
    request.addfinalizer(older.ledger.close)
    older.apply(table("a.rows", partitioned=True))
    older.done("a.rows", 0, 1)
    with older.ledger._database.write() as write:
        write.execute(sa.text("""UPDATE revisions SET measures = '{"mean": NaN, "rows": 3}' WHERE label = :at"""),
                      {"at": to_micros(day(1))})  # fmt: skip
        write.execute(sa.text("UPDATE events SET who = 'a' || char(0) || 'nn'"))
    assert at_desk.ledger.maintenance.load([list(older.ledger.maintenance.export_lines([]))]) == 2
    [attempt] = at_desk.ledger.past.audit("a.rows", day(1)).attempts
    assert attempt.revision is not None
    assert attempt.revision.measures == {"mean": "NaN", "rows": 3}
    assert {row["who"] for row in at_desk.ledger.past.rows("events") if row["kind"] == "claimed"} == {r"a\x00nn"}
