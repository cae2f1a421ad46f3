from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.ledgers import flow, table
from waterclock.batches.ledger_snapshot import LedgerSnapshot, Pause, TableFacts
from waterclock.flow.declarations import Flow
from waterclock.operations.display_states import State
from waterclock.operations.freshness import Freshness, freshness
from waterclock.operations.project_summary import verdict
from waterclock.operations.wait_chain import find_wait_chain
from waterclock.planner.plan import Batch, BoundRead, Cause, Plan, ReadScope, Status
from waterclock.timelabel.intervals import IntervalSet

NOW = datetime(2026, 11, 21, 1, 30, tzinfo=UTC)
DAY = timedelta(days=1)
FLOW = flow(
    table("raw.a"), table("raw.b"), table("core.a", reads=["raw.a"]), table("marts.a", reads=["core.a", "raw.b"])
)


def label(day: int) -> datetime:
    return datetime(2026, 11, day, tzinfo=UTC)


def batch(
    name: str,
    day: int,
    status: Status,
    reason: str = "",
    root: tuple[str, int] | None = None,
    by: Status = Status.FAILED,
) -> Batch:
    cadence = FLOW.tables[name].cadence
    causes: tuple[Cause, ...] = ()
    if root is not None:
        causes = (Cause(root[0], cadence.window_of(label(root[1])), by, "E731 no number"),)
    reads = tuple(BoundRead(read, ReadScope.SLICES, label(day), label(day) + DAY) for read in FLOW.tables[name].reads)
    return Batch(name, cadence.window_of(label(day)), status, reason, reads, causes)


def covered(to: int, *, but: int | None = None) -> TableFacts:
    done = IntervalSet.from_intervals([(label(1), label(to) + DAY)])
    gap = IntervalSet.from_intervals([] if but is None else [(label(but), label(but) + DAY)])
    return TableFacts(covered=done - gap)


def said(plan: Plan, found: dict[str, Freshness] | None = None, of: Flow = FLOW) -> str:
    fresh = Freshness(label(20), 0, 0, None, State.OK)
    return verdict(of, found or dict.fromkeys(of.tables, fresh), plan).text


def test_failures_are_counted_with_the_batches_they_block_and_named() -> None:
    plan = Plan(
        NOW,
        (
            batch("raw.a", 9, Status.FAILED),
            batch("core.a", 9, Status.BLOCKED, root=("raw.a", 9)),
            batch("marts.a", 9, Status.BLOCKED, root=("raw.a", 9)),
        ),
    )
    assert said(plan) == "One failure holds up 2 batches: raw.a @ 9 Nov."
    alone = Plan(NOW, (batch("marts.a", 9, Status.FAILED), batch("marts.a", 10, Status.FAILED)))
    assert said(alone) == "Two failures hold up nothing else: marts.a @ 2 labels."


def test_many_failures_are_summarized_by_table() -> None:
    names = [f"raw.t{number}" for number in range(6)]
    many = flow(*(table(name) for name in names))
    window = many.tables[names[0]].cadence.window_of(label(9))
    plan = Plan(NOW, tuple(Batch(name, window, Status.FAILED, "E731") for name in names for _ in range(2)))
    expected = (
        "12 failures hold up nothing else: raw.t0 @ 2 labels, raw.t1 @ 2 labels, raw.t2 @ 2 labels and 3 other tables."
    )
    assert said(plan, of=many) == expected


def test_held_batches_are_reported_alone_and_next_to_failures() -> None:
    held = batch("marts.a", 20, Status.HELD)
    assert said(Plan(NOW, (held,))) == "One held batch holds up nothing else: marts.a @ 20 Nov."
    both = Plan(NOW, (batch("raw.a", 9, Status.FAILED), held))
    assert said(both) == "One failure holds up nothing else: raw.a @ 9 Nov; one batch is held: marts.a @ 20 Nov."


def test_a_held_batch_that_blocks_others_is_listed_before_a_failure_that_blocks_none() -> None:
    held = batch("raw.a", 15, Status.HELD)
    blocked = [batch("core.a", 15, Status.BLOCKED, root=("raw.a", 15), by=Status.HELD)]
    plan = Plan(NOW, (held, *blocked, batch("marts.a", 17, Status.FAILED)))
    assert said(plan) == "One held batch holds up 1 batch: raw.a @ 15 Nov; one batch failed: marts.a @ 17 Nov."
    both = (batch("raw.b", 9, Status.FAILED), batch("marts.a", 9, Status.BLOCKED, root=("raw.b", 9)))
    assert said(Plan(NOW, (held, *blocked, *both))) == (
        "One failure holds up 1 batch: raw.b @ 9 Nov; one held batch holds up 1 batch: raw.a @ 15 Nov."
    )


def test_all_is_fresh_to_where_the_windows_end_together() -> None:
    assert said(Plan(NOW)) == "All 4 tables are fresh to 20 Nov."
    hourly = flow(table("raw.h", every="HOUR"), table("raw.d"))
    found = {
        "raw.h": Freshness(label(20) + timedelta(hours=23), 0, 0, None, State.OK),
        "raw.d": Freshness(label(20), 0, 0, None, State.OK),
    }
    assert said(Plan(NOW), found, hourly) == "All 2 tables are fresh to 20 Nov."
    found["raw.h"] = Freshness(label(21), 0, 0, None, State.OK)
    assert said(Plan(NOW), found, hourly) == "All 2 tables are fresh, the newest to 21 Nov 00:00."


def test_other_activity_is_reported_once_below_the_state() -> None:
    plan = Plan(NOW, (batch("raw.a", 20, Status.RUNNING), batch("raw.b", 20, Status.READY)), left_out={"raw.b": 2})
    fresh = Freshness(label(20), 0, 0, None, State.OK)
    more = verdict(FLOW, dict.fromkeys(FLOW.tables, fresh), plan).more
    assert "".join(part.text for part in more) == "1 batch is running, 3 batches are due."


def test_pauses_are_reported_below_in_a_sentence_of_their_own() -> None:
    fresh = Freshness(label(20), 0, 0, None, State.OK)
    pause = Pause(NOW, "ann", "the source lies")
    plan = Plan(NOW, (batch("raw.a", 20, Status.PAUSED),), paused={"raw.a": pause})
    since = f"since {NOW:%Y-%m-%d %H:%M} +00:00: the source lies."
    more = verdict(FLOW, dict.fromkeys(FLOW.tables, fresh), plan).more
    assert "".join(part.text for part in more) == f"1 batch is paused. raw.a is paused by ann {since}"
    of_all = replace(plan, batches=(), paused={}, paused_all=replace(pause, is_of_all=True))
    more = verdict(FLOW, dict.fromkeys(FLOW.tables, fresh), of_all).more
    assert "".join(part.text for part in more).strip() == f"All is paused by ann {since}"


def test_a_table_is_late_once_a_window_more_is_over_and_at_once_where_it_failed() -> None:
    snapshot = LedgerSnapshot({"raw.a": covered(19), "raw.b": covered(20, but=9), "core.a": covered(19)})
    plan = Plan(
        NOW,
        (
            batch("raw.a", 20, Status.READY), batch("raw.b", 9, Status.FAILED), batch("core.a", 20, Status.BLOCKED),
        ),
    )  # fmt: skip
    found = freshness(FLOW, ["raw.a", "raw.b", "core.a", "marts.a"], snapshot, plan)
    assert found["raw.a"] == Freshness(label(19), 0, 1, None, State.DUE)  # it is in time until 22 November
    assert found["raw.a"].is_fresh
    assert found["raw.b"] == Freshness(label(20), 1, 0, label(10), State.FAILED)
    assert (found["core.a"].late, found["core.a"].is_fresh) == (label(21), False)
    assert (found["marts.a"].label, found["marts.a"].is_fresh) == (None, False)
    later = freshness(FLOW, ["raw.a"], snapshot, Plan(NOW + DAY, plan.batches))
    assert later["raw.a"].late == label(21)


def test_the_wait_chain_leads_through_the_inputs_to_the_root_cause() -> None:
    plan = Plan(
        NOW,
        (
            batch("raw.a", 9, Status.FAILED, "E731 no number"),
            batch("core.a", 9, Status.BLOCKED, root=("raw.a", 9)),
            batch("marts.a", 9, Status.BLOCKED, root=("raw.a", 9)),
        ),
    )
    way = find_wait_chain(plan, "marts.a", label(9))
    assert [(step.table, step.is_root) for step in way] == [("marts.a", False), ("core.a", False), ("raw.a", True)]
    assert find_wait_chain(plan, "marts.a", label(10)) == ()
    [itself] = find_wait_chain(plan, "raw.a", label(9))
    assert itself.is_root


def test_a_cause_that_is_not_planned_ends_the_way() -> None:
    plan = Plan(NOW, (batch("core.a", 9, Status.BLOCKED, root=("raw.a", 9)),))
    way = find_wait_chain(plan, "core.a", label(9))
    assert [(step.table, step.is_root, step.detail) for step in way] == [
        ("core.a", False, ""), ("raw.a", True, "E731 no number"),
    ]  # fmt: skip


def test_an_empty_selection_is_not_reported_as_a_project_without_tables() -> None:
    assert verdict(FLOW, {}, Plan(NOW, ())).text == "No table is selected."
    nothing = verdict(flow(), {}, Plan(NOW, ()))
    assert nothing.text == "No table is declared yet."
    assert "waterclock init" in "".join(part.text for part in nothing.more)
