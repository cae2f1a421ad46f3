"""Resetting a table: the labels that are taken or kept, and a kill at each step. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from tests.slices import SCHEMA as COLUMNS
from tests.slices import ids, rows_of, schema_json, sealed
from tests.tiny import CONNECTIONS, TOML, day
from tests.unit.engine.fakes import manifest
from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER, RECOMPUTE, TableFacts
from waterclock.batches.records import BatchResult, ClaimRequest
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.abandoned_claims import find_abandoned_claims
from waterclock.engine.batch.claim_record import write_claim_record
from waterclock.engine.batch.takeover import take_over
from waterclock.engine.ledger_export import export_ledger, list_exports
from waterclock.engine.maintenance import maintain
from waterclock.engine.maintenance.ledger_rebuild import rebuild_ledger
from waterclock.engine.maintenance.rebuild_all import finish_killed_rebuild
from waterclock.engine.maintenance.reset import prepare_reset, reset
from waterclock.engine.reads.as_of import resolve_as_of
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.open_windows import open_table_of
from waterclock.ledger.read.signatures import signature_of
from waterclock.ledger.write.rebuilt_tables import MovedTable
from waterclock.planner.plan import Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.storage.commit import rebuild
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.pointers import commit_slices
from waterclock.storage.commit.speed_tables import commit_state, end_running_ticks, read_state
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.open_tables import has_columns
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.label import label_of

CLICKS, DAILY, OUT = "web.clicks", "web.daily", "out.clicks"
COLLECT = "COLLECT web.clicks (id BIGINT, name STRING) FROM land.acme.clicks EVERY DAY START '2020-01-01' {};"
BELOW = "TRANSFORM web.daily PARTITIONED AS SELECT count(*) AS n FROM web.clicks; PUBLISH web.clicks TO out.clicks;"
APPENDED = COLLECT.format("BY ARRIVAL TIME APPEND") + BELOW
MERGED = COLLECT.replace("id BIGINT", "id BIGINT KEY").format("BY ARRIVAL TIME MERGE ORDER BY name") + BELOW
NOW = day(4)
FRESH = ["ready", "waiting", "waiting"]  # oldest first


def declare(root: Path, flow: str) -> None:
    (root / "flows").mkdir(exist_ok=True)
    (root / "waterclock.toml").write_text(TOML.format(name="shop", storage=".waterclock"))
    (root / "flows" / "flow.dpl").write_text(CONNECTIONS + flow)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with three done days: two rows each day, a reader and a delivery of them."""
    declare(tmp_path, APPENDED)
    with open_workplace(load_project(tmp_path, capabilities=capabilities())) as work:
        apply_flow(work, NOW)
        for number in (1, 2, 3):
            make(work, CLICKS, number, (2 * number, 2 * number + 1))
            make(work, DAILY, number)
            make(work, OUT, number)
    return tmp_path


@pytest.fixture
def work(root: Path) -> Iterator[RunContext]:
    with open_workplace(load_project(root, capabilities=capabilities())) as work:
        yield work


def make(work: RunContext, name: str, number: int, rows: Sequence[int] = ()) -> None:
    """Make the batch of a day as a runner does; only the collect has files."""
    table, label, ledger = work.flow.tables[name], day(number), work.ledger
    asked = PlanRequest(only=[name], force={name: frozenset({label})})
    plan = Planner(work.flow).plan(ledger.reads.snapshot(work.flow), NOW, asked)
    batch = next(each for each in plan.batches if each.label == label)
    assert batch.status is Status.READY, batch.reason
    pins = ledger.reads.pins([(read.read.table, read.low, read.high) for read in batch.reads])
    inputs = tuple(pin.input(str(read.read), read.scope.value) for pin, read in zip(pins, batch.reads, strict=True))
    request = ClaimRequest(
        table=name,
        labels=(label,),
        code=table.fingerprint,
        flow=work.flow.fingerprint,
        runner="desk:1",
        who="ann",
        now=NOW,
        lease_seconds=60,
        target_version=ledger.reads.table(name).head_version,
        inputs={label: inputs},
        declared=signature_of(table),
    )
    version, path = number, f"_stage/{number}"
    if name == CLICKS:
        folder = work.folder(table)
        create_table(folder, schema_json(COLUMNS), is_partitioned=False, project="shop")
    claim = ledger.claims.take(request)
    result = BatchResult(label, day(number + 1), -1, len(rows) or 1, 10, f"{len(rows)}:{sum(rows)}:3", path)
    if name == CLICKS:
        manifest = sealed(folder, label, claim.number, rows_of(*rows))
        result = BatchResult(
            label, day(number + 1), -1, len(rows), 10, f"{len(rows)}:{sum(rows)}:3", manifest.slice_path
        )
        write_claim_record(folder, claim, [result])
        text = label_of(label)
        by = Identity("shop", name, "collect", (text,), text, claim.number, "c", slices=(manifest.slice_path,))
        version = commit_slices(folder, by, [manifest], mode="append")
    ledger.claims.record_done(
        claim,
        [BatchResult(label, result.end, version, result.rows, 10, result.digest, result.slice_path)],
    )


def facts(work: RunContext, name: str) -> TableFacts:
    return work.ledger.reads.snapshot(work.flow).of(name)


def start_over(work: RunContext, why: str = "") -> None:
    found = prepare_reset(work, CLICKS)
    assert found is not None
    reset(work, found, why=why)


def states(work: RunContext, name: str, now: datetime = NOW) -> list[str]:
    plan = Planner(work.flow).plan(work.ledger.reads.snapshot(work.flow), now)
    return [str(batch.status) for batch in plan.batches if batch.table == name]


def test_prepare_reset_reports_lost_labels_and_dependents_without_changes(work: RunContext) -> None:
    found = prepare_reset(work, CLICKS)
    assert found is not None
    assert (found.labels, found.rows, found.changed) == (3, 6, ())
    assert (found.readers, found.publishes) == ((DAILY,), (OUT,))
    assert facts(work, CLICKS).covered  # nothing has changed


def test_the_table_holds_nothing_and_begins_again_while_its_slices_and_its_past_are_kept(work: RunContext) -> None:
    folder = work.folder(work.flow.tables[CLICKS])
    before, start = work.real_now(), work.ledger.reads.table(CLICKS).start
    files = sorted(Path(folder).rglob("*.parquet"))
    start_over(work, "other keys")
    assert not has_columns(folder)
    assert sorted(Path(folder).rglob("*.parquet")) == files
    assert not facts(work, CLICKS).covered
    assert (facts(work, CLICKS).paused, work.ledger.reads.table(CLICKS).start) == (None, start)
    assert states(work, CLICKS) == FRESH
    table = work.flow.tables[CLICKS]
    assert resolve_as_of(work, table, NOW).steps == ()
    assert len(resolve_as_of(work, table, NOW, known_at=before).steps) == 3
    assert resolve_as_of(work, table, NOW, known_at=work.real_now()).steps == ()
    [event] = [each for each in work.ledger.past.rows("events") if each["kind"] == "reset"]
    assert (event["table"], event["who"]) == (CLICKS, work.settings.who)
    assert list_exports(work.lake.root)  # a lost ledger could not restore it otherwise
    make(work, CLICKS, 1, (1, 2))
    assert ids(folder) == [1, 2]
    assert [step.label for step in resolve_as_of(work, table, NOW).steps] == [day(1)]


def test_open_windows_are_no_longer_shown(work: RunContext) -> None:
    name, columns = open_table_of(CLICKS), StructType([StructField("timelabel", StringType())])
    folder = work.lake.folder(name)
    end_running_ticks(folder, columns, table=name, project="shop")
    made = {day(3): manifest(name, 3)}
    assert commit_state(
        folder, read_state(folder), {}, made, tick=1, table=name, project="shop", code="c", schema=columns
    )
    found = prepare_reset(work, CLICKS)
    assert found is not None
    assert read_state(folder).slices
    continuous = replace(found.table, continuous=Duration(10, "SECOND"))
    reset(work, replace(found, table=continuous), why="")
    assert not read_state(folder).slices


def test_its_readers_wait_for_it_and_follow_only_where_rows_differ(work: RunContext) -> None:
    start_over(work)
    assert "ready" not in states(work, DAILY)
    make(work, CLICKS, 1, (2, 3))  # as before
    make(work, CLICKS, 2, (4, 6))
    make(work, CLICKS, 3, (6, 7))
    plan = Planner(work.flow).plan(work.ledger.reads.snapshot(work.flow), NOW)
    # each reads all rows up to its own end: those of the first day are unchanged
    assert {batch.label for batch in plan.batches if batch.table == DAILY} == {day(2), day(3)}
    assert facts(work, OUT).requested == {day(number): RECOMPUTE for number in (1, 2, 3)}


def test_a_declaration_that_no_rebuild_can_follow_is_followed(root: Path) -> None:
    declare(root, MERGED)
    with open_workplace(load_project(root, capabilities=capabilities())) as work:
        apply_flow(work, NOW)
        assert set(states(work, CLICKS, day(5))) == {"blocked"}
        start_over(work)
        # the mode of a delivery follows that of its table: it is rebuilt or reset by its own name
        assert set(work.ledger.declared.refused_tables(work.flow)) == {OUT}
        assert work.ledger.reads.table(CLICKS).mode == "merge"
        assert states(work, CLICKS) == FRESH
        # the same slices give other rows in a MERGE
        assert facts(work, DAILY).requested == {day(number): RECOMPUTE for number in (1, 2, 3)}


@pytest.mark.parametrize("point", ["reset.paused", "reset.emptied", "reset.recorded"])
def test_a_kill_at_each_step_is_finished_by_the_same_command(root: Path, point: str) -> None:
    class Killed(BaseException):
        pass

    def strike(at: str) -> None:
        if at == point:
            raise Killed

    is_recorded = point == "reset.recorded"
    with open_workplace(load_project(root, capabilities=capabilities())) as work:
        with inject_faults(strike), pytest.raises(Killed):
            start_over(work)
        assert states(work, CLICKS, day(5)) == ([*FRESH, "waiting"] if is_recorded else ["paused"])
    with open_workplace(load_project(root, capabilities=capabilities())) as work:
        if is_recorded:
            assert prepare_reset(work, CLICKS) is None  # there is nothing left to reset
        else:
            assert "waterclock reset web.clicks" in str(facts(work, CLICKS).paused)
            with pytest.raises(WaterclockError, match="is being reset"):
                work.ledger.decisions.resume_tables([CLICKS], who="bob")
            start_over(work)
        assert states(work, CLICKS) == FRESH
        make(work, CLICKS, 1, (1, 2))
        assert ids(work.folder(work.flow.tables[CLICKS])) == [1, 2]


def test_a_table_that_a_user_paused_stays_paused(work: RunContext) -> None:
    work.ledger.decisions.pause_tables([CLICKS], who="bob", why="the source lies")
    start_over(work)
    paused = facts(work, CLICKS).paused
    assert paused is not None
    assert (paused.who, paused.why) == ("bob", "the source lies")


@pytest.mark.parametrize("point", ["reset.paused", "reset.emptied"])
def test_of_two_concurrent_resets_the_later_finishes_and_the_earlier_fails(work: RunContext, point: str) -> None:
    folder, asleep = work.folder(work.flow.tables[CLICKS]), [True]

    def strike(at: str) -> None:
        if at == point and asleep.pop():
            asleep.append(False)
            start_over(work)
            make(work, CLICKS, 1, (1, 2))

    with inject_faults(strike), pytest.raises(WaterclockError) as refused:
        start_over(work)
    assert refused.value.code == ("E630" if point == "reset.paused" else "E411")
    assert ids(folder) == [1, 2]
    assert [piece.label for piece in work.ledger.reads.slices(CLICKS, BEGINNING, FOREVER)] == [day(1)]
    assert facts(work, CLICKS).paused is None


@pytest.mark.parametrize("ask", [prepare_reset, lambda work, _: start_over(work)])
def test_it_waits_for_a_batch_that_runs_and_for_a_rebuild_of_all(
    work: RunContext, ask: Callable[[RunContext, str], object]
) -> None:
    work.ledger.maintenance.begin_rebuilding("t", runner="another", who="ann", lease_seconds=60)
    with pytest.raises(WaterclockError, match="all tables are being rebuilt"):
        ask(work, CLICKS)
    work.ledger.maintenance.end_rebuilding("t", who="ann", why="a test")
    request = ClaimRequest(CLICKS, (day(4),), "c", work.flow.fingerprint, "another", "ann", day(5), 600, 3)
    work.ledger.claims.take(request)
    with pytest.raises(WaterclockError, match="claimed by another") as refused:
        ask(work, CLICKS)
    assert refused.value.code == "E407"
    assert facts(work, CLICKS).paused is None


def test_a_reset_is_refused_if_a_claim_started_during_the_confirmation(work: RunContext) -> None:
    found = prepare_reset(work, CLICKS)
    assert found is not None
    request = ClaimRequest(CLICKS, (day(4),), "c", work.flow.fingerprint, "another", "ann", day(5), 600, 3)
    work.ledger.claims.take(request)
    with pytest.raises(WaterclockError, match="claimed by another"):
        reset(work, found, why="")
    assert len(work.ledger.reads.slices(CLICKS, BEGINNING, FOREVER)) == 3


def test_a_table_without_batches_has_nothing_to_reset(work: RunContext) -> None:
    start_over(work)
    assert prepare_reset(work, CLICKS) is None


def test_maintenance_keeps_slices_collected_before_a_reset(work: RunContext) -> None:
    start_over(work)
    [found] = maintain.find_maintenance(work, [CLICKS], work.real_now() + timedelta(days=400))
    assert (found.slice_folders, found.failed) == ([], [])


def test_a_lost_ledger_knows_of_it_by_the_log(root: Path) -> None:
    project = load_project(root, capabilities=capabilities())
    with open_workplace(project) as work:
        start_over(work)
        make(work, CLICKS, 1, (8, 9))
        for name, _ in list_exports(work.lake.root):
            (Path(work.lake.root) / "ledger" / name).unlink()
    rebuild_ledger(project, force=True)
    with open_workplace(project) as work:
        assert [piece.label for piece in work.ledger.reads.slices(CLICKS, BEGINNING, FOREVER)] == [day(1)]
        assert [step.label for step in resolve_as_of(work, work.flow.tables[CLICKS], NOW).steps] == [day(1)]


def test_a_lost_ledger_knows_a_declaration_that_is_newer_than_its_export(root: Path) -> None:
    """Regression: it refused all batches until another rebuild or reset, although they followed the declaration."""
    with open_workplace(load_project(root, capabilities=capabilities())) as work:
        export_ledger(work.ledger, work.lake.root)
        [(older, _)] = list_exports(work.lake.root)
    declare(root, MERGED)
    project = load_project(root, capabilities=capabilities())
    with open_workplace(project) as work:
        apply_flow(work, NOW)
        start_over(work)
        make(work, CLICKS, 1, (8, 9))
    rebuild_ledger(project, force=True, export=older)
    with open_workplace(project) as work:
        assert CLICKS not in work.ledger.declared.refused_tables(work.flow)
        assert facts(work, CLICKS).covered


def test_maintenance_keeps_slices_collected_before_a_change_of_cadence(work: RunContext) -> None:
    """Most labels of another cadence have no later revision: their slices would be mistaken for those of a LOOKBACK."""
    maintenance, table = work.ledger.maintenance, work.flow.tables[CLICKS]
    maintenance.begin_rebuilding("t", runner="another", who="ann", lease_seconds=60)
    claim = maintenance.take_claim_number()
    version = rebuild.start_over(
        work.folder(table), Identity("shop", CLICKS, "rebuild", (), "", claim, ""), above=3, stamp=""
    )
    moved = MovedTable(CLICKS, signature_of(table), "tables/web/clicks", None, claim, version, None, is_recut=True)
    maintenance.record_set("t", [moved], who="ann")
    [found] = maintain.find_maintenance(work, [CLICKS], work.real_now() + timedelta(days=400))
    assert (found.slice_folders, found.failed) == ([], [])


def test_a_lost_ledger_does_not_wait_for_the_move_of_a_rebuild_that_has_ended(root: Path) -> None:
    """An export was taken during the move, and no process that could finish the move is left."""
    project = load_project(root, capabilities=capabilities())
    with open_workplace(project) as work:
        work.ledger.maintenance.begin_rebuilding("t", runner="another", who="ann", lease_seconds=60)
        work.ledger.maintenance.begin_moving("t")
        export_ledger(work.ledger, work.lake.root)
        work.ledger.maintenance.record_set("t", [], who="ann")
    rebuild_ledger(project, force=True)
    with open_workplace(project) as work:
        assert work.ledger.maintenance.current_rebuilding() is None
        assert finish_killed_rebuild(work) == ()


def test_a_claim_of_a_table_that_is_no_longer_declared_is_closed_if_it_has_committed_nothing(root: Path) -> None:
    """It would keep the slices that it reads, although no runner has its table."""
    declare(root, APPENDED.partition(";")[0] + ";")
    with open_workplace(load_project(root, capabilities=capabilities())) as work:
        ledger = work.ledger
        applied = ledger.declared.applied_flow()
        assert applied is not None
        for name in (DAILY, OUT):
            ledger.claims.take(ClaimRequest(name, (day(4),), "c", applied.fingerprint, "gone", "ann", day(5), 0, 3))
        apply_flow(work, NOW)
        assert take_over(work, find_abandoned_claims(work)).settled == 1
        # without its declaration, the content of a destination cannot be queried
        assert [claim.request.table for claim in ledger.claims.open()] == [OUT]
