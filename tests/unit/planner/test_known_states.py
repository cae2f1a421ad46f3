"""Whether all tables were settled at an instant, for a history written by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tests.model.flows import at, collect, flow, history, replace_transform, snapshot, transform
from tests.unit.planner.pasts import covered, done, past, read_then
from waterclock.batches.ledger_snapshot import (
    History,
    InputFact,
    LedgerSnapshot,
    RevisionFact,
    TableHistory,
    content_text,
)
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Mode
from waterclock.planner.dependency_graph import graph_of
from waterclock.planner.known_states import INSTANT, Conflict, KnownStates, current_history
from waterclock.planner.planning import Planner
from waterclock.timelabel.intervals import IntervalSet

A = collect("a")
ALL = ("2013-01-01", "2013-01-05")
NOON = at("2014-01-01 12:00")
SINCE = at("2014-01-01")


def now(tables: Flow, ledger: LedgerSnapshot) -> KnownStates:
    modes = {name: table.mode for name, table in tables.tables.items()}
    return KnownStates(
        graph_of(tables), ledger, current_history(ledger, modes, NOON), Planner(tables).starts(ledger, NOON)
    )


def then(tables: Flow, **of: TableHistory) -> KnownStates:
    return KnownStates(graph_of(tables), LedgerSnapshot(), History(SINCE, of), {})


def needs(name: str, low: str, high: str) -> dict[str, tuple[datetime, datetime]]:
    return {name: (at(low), at(high))}


def made(claim: int, instant: str, low: str, high: str, weight: int) -> RevisionFact:
    return RevisionFact(claim, at(instant), at(low), at(high), (weight, 0))


def found(conflicts: list[Conflict]) -> set[tuple[str, datetime]]:
    return {(each.table, each.label) for each in conflicts}


class TestNow:
    def test_stale_batches_upstream_of_the_requested_tables_are_found_through_other_tables(self) -> None:
        b, c = transform("b", ["a"]), transform("c", ["b"])
        stale = {at("2013-01-02"): (read_then("a", "2013-01-02", "2013-01-03", is_changed=True),)}
        behind = {at("2013-01-02"): (read_then("b", "2013-01-02", "2013-01-03", is_changed=False),)}
        known = now(flow(A, b, c), past(a=done(ALL), b=done(ALL, suspects=stale), c=done(ALL, suspects=behind)))
        assert found(known.conflicts(needs("c", *ALL), None)) == {("b", at("2013-01-02"))}
        assert not known.conflicts(needs("c", "2013-01-01", "2013-01-02"), None), "the inputs end before it"
        assert not known.conflicts(needs("a", *ALL), None)

    def test_an_old_state_that_stays_stale_is_in_the_way_of_no_newer_tick(self) -> None:
        stale = {at("2013-01-02"): (read_then("a", "2013-01-02", "2013-01-03", is_changed=True),)}
        known = now(flow(A, replace_transform("t", ["a"])), past(a=done(ALL), t=done(ALL, suspects=stale)))
        assert not known.conflicts(needs("t", "2013-01-04", "2013-01-05"), None)
        assert found(known.conflicts(needs("t", "2013-01-02", "2013-01-03"), None)) == {("t", at("2013-01-02"))}

    def test_a_batch_whose_input_was_dropped_does_not_conflict(self) -> None:
        stale = {at("2013-01-02"): (read_then("a", "2013-01-01", "2013-01-03", is_changed=True),)}
        gone = done(ALL, dropped_before=at("2013-01-02"))
        known = now(flow(A, transform("t", [history("a")])), past(a=gone, t=done(ALL, suspects=stale)))
        assert not known.conflicts(needs("t", *ALL), None)

    def test_a_batch_before_start_keeps_its_content(self) -> None:
        stale = {at("2013-01-02"): (read_then("a", "2013-01-02", "2013-01-03", is_changed=True),)}
        ledger = past(a=done(ALL), t=done(ALL, suspects=stale))
        first, later = transform("t", ["a"]), replace(transform("t", ["a"]), start=at("2013-01-03"))
        assert not now(flow(A, later), ledger).conflicts(needs("t", *ALL), None)
        assert found(now(flow(A, first), ledger).conflicts(needs("t", *ALL), None)) == {("t", at("2013-01-02"))}


class TestThen:
    # a@01-01 weighed 5, since 10:00 7, since 11:00 5 again, since 12:00 9; a@01-02 weighs 1 at any time
    CHANGED = (
        made(1, "2013-06-01", "2013-01-01", "2013-01-02", 5),
        made(2, "2014-01-01 10:00", "2013-01-01", "2013-01-02", 7),
        made(3, "2014-01-01 11:00", "2013-01-01", "2013-01-02", 5),
        made(4, "2014-01-01 12:00", "2013-01-01", "2013-01-02", 9),
    )
    HISTORY = transform("h", [history("a")])

    def known_states(self) -> KnownStates:
        read = InputFact("a", at("2013-01-01"), at("2013-01-03"), content_text(6, 0), content_text(10, 0))
        a = TableHistory(Mode.APPEND, covered(ALL), {at("2013-01-01"): self.CHANGED})
        h = TableHistory(Mode.APPEND, covered(ALL), read={at("2013-01-02"): {8: (read,)}})
        return then(flow(A, self.HISTORY), a=a, h=h)

    def test_the_content_at_an_instant_excludes_later_revisions(self) -> None:
        needed = needs("h", *ALL)
        assert self.known_states().conflicts(needed, None)
        assert not self.known_states().conflicts(needed, at("2014-01-01 11:30"))
        assert self.known_states().conflicts(needed, at("2014-01-01 10:30"))
        assert not self.known_states().conflicts(needed, at("2014-01-01 09:30"))

    def test_the_step_back_is_to_the_newest_instant_that_agrees(self) -> None:
        known = self.known_states()
        conflicts = known.conflicts(needs("h", *ALL), None)
        assert known.find_instant_before_conflicts(conflicts, None) == at("2014-01-01 12:00") - INSTANT
        earlier = known.conflicts(needs("h", *ALL), at("2014-01-01 10:30"))
        assert known.find_instant_before_conflicts(earlier, at("2014-01-01 10:30")) == at("2014-01-01 10:00") - INSTANT

    def test_a_batch_that_was_not_there_is_in_nobodys_way(self) -> None:
        read = InputFact("a", at("2013-01-01"), at("2013-01-02"), content_text(7, 0), content_text(9, 0))
        again = (
            made(5, "2013-07-01", "2013-01-01", "2013-01-02", 1),
            made(6, "2014-01-01 11:15", "2013-01-01", "2013-01-02", 1),
        )
        old = InputFact("a", at("2013-01-01"), at("2013-01-02"), content_text(5, 0), content_text(9, 0))
        a = TableHistory(Mode.APPEND, covered(ALL), {at("2013-01-01"): self.CHANGED})
        h = TableHistory(
            Mode.APPEND, covered(ALL), {at("2013-01-01"): again}, {at("2013-01-01"): {5: (old,), 6: (read,)}}
        )
        known = then(flow(A, self.HISTORY), a=a, h=h)
        conflicts = known.conflicts(needs("h", *ALL), None)
        before = known.find_instant_before_conflicts(conflicts, None)
        assert before == at("2014-01-01 11:15") - INSTANT, "from there on it had read the state at 10:30"
        assert not known.conflicts(needs("h", *ALL), before)

    def test_a_conflict_older_than_the_loaded_history_yields_an_instant_before_it(self) -> None:
        read = InputFact("a", at("2013-01-02"), at("2013-01-03"), content_text(3, 0), content_text(1, 0))
        h = TableHistory(Mode.APPEND, covered(ALL), read={at("2013-01-02"): {8: (read,)}})
        known = then(flow(A, self.HISTORY), a=TableHistory(Mode.APPEND, covered(ALL)), h=h)
        assert known.find_instant_before_conflicts(known.conflicts(needs("h", *ALL), None), None) < SINCE

    def test_a_batch_made_later_is_missing_before(self) -> None:
        known = self.known_states()
        late = made(9, "2014-01-01 08:00", "2013-01-03", "2013-01-04", 1)
        a = TableHistory(Mode.APPEND, covered(ALL), {at("2013-01-03"): (late,)})
        known = then(flow(A), a=a)
        assert known.find_missing_windows(needs("a", *ALL), at("2014-01-01 08:00")) == {}
        assert known.find_missing_windows(needs("a", *ALL), at("2014-01-01 07:59")) == {
            "a": covered(("2013-01-03", "2013-01-04"))
        }

    def test_a_snapshot_covers_no_window_before_it_was_taken(self) -> None:
        first = made(1, "2014-01-01 01:00", "2013-01-01", "2013-01-03", 3)
        second = made(2, "2014-01-01 02:00", "2013-01-03", "2013-01-05", 4)
        read = InputFact("s", at("2013-01-03"), at("2013-01-04"), content_text(4, 0), content_text(4, 0))
        s = TableHistory(Mode.REPLACE, covered(ALL), {at("2013-01-02"): (first,), at("2013-01-04"): (second,)})
        t = TableHistory(Mode.APPEND, covered(ALL), read={at("2013-01-03"): {8: (read,)}})
        known = then(flow(snapshot("s"), transform("t", ["s"])), s=s, t=t)
        assert not known.conflicts(needs("t", *ALL), at("2014-01-01 02:00"))
        assert known.conflicts(needs("t", *ALL), at("2014-01-01 01:59"))
        assert known.find_missing_windows(needs("s", "2013-01-03", "2013-01-04"), at("2014-01-01 01:59"))
        assert not known.find_missing_windows(needs("s", "2013-01-01", "2013-01-02"), at("2014-01-01 01:59"))

    def test_a_state_of_versions_has_the_snapshot_that_covers_its_last_window(self) -> None:
        first = made(1, "2014-01-01 01:00", "2013-01-01", "2013-01-03", 3)
        second = made(2, "2014-01-01 02:00", "2013-01-03", "2013-01-05", 4)
        read = InputFact("s", at("2013-01-01"), at("2013-01-04"), content_text(7, 0), content_text(7, 0))
        s = TableHistory(Mode.TEMPORAL, covered(ALL), {at("2013-01-02"): (first,), at("2013-01-04"): (second,)})
        t = TableHistory(Mode.APPEND, covered(ALL), read={at("2013-01-03"): {8: (read,)}})
        known = then(flow(snapshot("s"), transform("t", ["s"])), s=s, t=t)
        assert not known.conflicts(needs("t", *ALL), at("2014-01-01 02:00"))
        conflicts = known.conflicts(needs("t", *ALL), at("2014-01-01 01:59"))
        assert found(conflicts) == {("t", at("2013-01-03"))}

    def test_the_instant_before_thousands_of_restatements_is_found_quickly(self) -> None:
        labels = [at("2013-01-01") + timedelta(hours=hour) for hour in range(3000)]
        whole = IntervalSet.from_intervals([(labels[0], labels[-1] + timedelta(hours=1))])
        revisions, read, sums = {}, {}, {}
        for number, label in enumerate(labels, 1):
            end, again = label + timedelta(hours=1), SINCE + timedelta(minutes=number)
            old, new = RevisionFact(1, at("2013-06-01"), label, end, (1, 1)), RevisionFact(2, again, label, end, (2, 2))
            revisions[label] = (old, new)
            read[label] = {9: (InputFact("s", label, end, content_text(1, 1), content_text(2, 2)),)}
            of_all = InputFact("a", labels[0], end, content_text(number, number), content_text(2 * number, 2 * number))
            sums[label] = {9: (of_all,)}
        a = TableHistory(Mode.APPEND, whole, revisions)
        s = TableHistory(Mode.REPLACE, whole, revisions)
        t, h = TableHistory(Mode.APPEND, whole, read=read), TableHistory(Mode.APPEND, whole, read=sums)
        tables = flow(A, replace_transform("s", ["a"], "HOUR"), transform("t", ["s"], "HOUR"), self.HISTORY)
        known = then(tables, a=a, s=s, t=t, h=h)
        needed = {"t": next(iter(whole)), "h": next(iter(whole))}
        conflicts = known.conflicts(needed, NOON + timedelta(days=9))
        assert len(conflicts) == 6000
        before = known.find_instant_before_conflicts(conflicts, NOON + timedelta(days=9))
        assert before == SINCE + timedelta(minutes=1) - INSTANT
        assert not known.conflicts(needed, before)

    def test_the_shared_history_of_thousands_of_reads_is_walked_once(self) -> None:
        hours = [at("2013-01-01") + timedelta(hours=hour) for hour in range(6000)]
        whole = IntervalSet.from_intervals([(hours[0], hours[-1] + timedelta(hours=1))])
        a = {label: {9: (InputFact("c", label, label + timedelta(hours=1), "1.1", "1.1"),)} for label in hours}
        a[hours[3]] = {9: (InputFact("c", hours[3], hours[4], "1.1", "2.2"),)}
        h = {label: {9: (InputFact("a", hours[0], label + timedelta(hours=1), "1.1", "1.1"),)} for label in hours}
        tables = flow(collect("c", "HOUR"), transform("a", ["c"], "HOUR"), transform("h", [history("a")], "HOUR"))
        c = TableHistory(Mode.APPEND, whole)
        known = then(tables, c=c, a=replace(c, read=a), h=replace(c, read=h))
        assert found(known.conflicts({"h": next(iter(whole))}, None)) == {("a", hours[3])}

    def test_the_newest_consistent_tick_is_found_however_many_windows_ago(self) -> None:
        hours = [at("2013-01-01") + timedelta(hours=hour) for hour in range(4000)]
        whole = IntervalSet.from_intervals([(hours[0], hours[-1] + timedelta(hours=1))])
        a = collect("a", "HOUR", start=hours[0])
        b = transform("b", ["a"], "HOUR")
        read = {
            label: {
                9: (InputFact("a", label, label + timedelta(hours=1), "1.1", "2.2" if label == hours[7] else "1.1"),)
            }
            for label in hours
        }
        tables = flow(a, b)
        history = History(
            SINCE, {"a": TableHistory(Mode.APPEND, whole), "b": TableHistory(Mode.APPEND, whole, read=read)}
        )
        known = KnownStates(graph_of(tables), LedgerSnapshot(), history, {})
        ticks = Planner(tables).ticks(LedgerSnapshot(), NOON)
        assert ticks.newest_agreed_tick(["a", "b"], known, NOON) == hours[7], (
            "its input had changed and was not followed"
        )
        assert ticks.newest_agreed_tick(["a"], known, NOON) == hours[-1] + timedelta(hours=1)
