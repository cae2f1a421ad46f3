"""Runs a flow: plans, starts ready groups in threads, limited by pools, and plans again until nothing is ready."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import datetime

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.batches.records import ClaimRequest
from waterclock.engine.abandoned_claims import find_abandoned_claims
from waterclock.engine.collect.source_clocks import SourceClocks
from waterclock.engine.damage import find_log_errors
from waterclock.engine.due_offline_measurements import measure_due
from waterclock.engine.lease_renewal import Heartbeat
from waterclock.engine.linked_projects import find_link_problems
from waterclock.engine.newer_flow import UNDER_NEWER_FLOW, has_newer_flow
from waterclock.engine.ready_groups import fits_next_to, without_running
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_listener import GroupReport
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.spark.errors import add_batch_place, lost_spark, to_error
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Read
from waterclock.flow.shared_views import readers_of_shared
from waterclock.ledger.ledger_errors import REOPENED_SINCE
from waterclock.planner.open_windows import requested_open_labels
from waterclock.planner.plan import Batch, Group, Plan, Status
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.planner.work_order import WorkOrder
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of

# codes of refused claims that may succeed in a later plan: another runner has the claim or took it over, an input
# changed, a pool is full, a table is paused, a past window was collected meanwhile, all tables are being recreated
_RETRYABLE_REFUSALS = frozenset({"E407", "E410", "E411", "E427", "E429", "E644", "E750", "E828"})
_POLL_SECONDS = 0.5  # between two polls of the other runners' progress


class Runner:
    """Runs a flow from one process: many batches concurrently, each once.

    New windows go before backfills and restatements, oldest first in dependency order (`WorkOrder`). A regular table
    has one batch at a time; a pool limits how many of its tables' batches run at once; `threads` limits all. Call the
    methods from one thread, except `stop`. `labels` limits the labels of a table that run. `force` names labels to run
    although no reader needs them. `at_most` and `newest_first` are those of a `PlanRequest`. With `waits`, the runner
    continues as long as another runner makes batches that are due here. With `follows_clock`, windows that become due
    during a long run are started in it, next to its backfills and restatements.
    """

    def __init__(  # noqa: PLR0913 - what runs, and how
        self,
        work: RunContext,
        *,
        only: Iterable[str] | None = None,
        labels: Mapping[str, Labels] | None = None,
        force: Mapping[str, frozenset[datetime]] | None = None,
        at_most: int | None = None,
        newest_first: bool = False,
        waits: bool = False,
        follows_clock: bool = False,
        stop: threading.Event | None = None,
    ) -> None:
        self._work = work
        self._waits = waits
        self._follows_clock = follows_clock
        self._next_look: datetime | None = None
        self._planner = Planner(work.flow)
        self._only = None if only is None else frozenset(only)
        self._labels = labels or None
        self._force = force or {}
        self._at_most = at_most
        self._newest_first = newest_first
        self._order = WorkOrder()
        self._stop = stop or threading.Event()
        self._unclaimed: dict[str, str] = {}
        self._reported: dict[str, set[str]] = {}
        self._is_spark_lost = False
        self._elsewhere: set[tuple[str, datetime]] = set()
        self._seen = -1
        self._lost: set[tuple[str, datetime]] = set()
        self._refused: set[tuple[str, datetime]] = set()
        self._unsettled: tuple[WaterclockError, ...] = ()
        self._away = ""
        self._absent: dict[str, frozenset[datetime]] = {}

    def stop(self) -> None:
        """Ask the run to start nothing more; running batches are finished. Safe from any thread."""
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def plan(self, now: datetime) -> Plan:
        """Plan the batches that are due at `now`, from the current state of the ledger."""
        snapshot = self.snapshot()
        undone = {
            name: frozenset(label for label in labels if not snapshot.of(name).covered.covers_instant(label))
            for name, labels in self._force.items()
        }
        return self._planner.plan(snapshot, now, self._request(undone))

    def _request(self, force: Mapping[str, frozenset[datetime]]) -> PlanRequest:
        return PlanRequest(
            only=self._only,
            labels=self._labels,
            cap=self._work.settings.catch_up,
            group_cap=self._work.settings.group_cap,
            force=force,
            clock=self._work.real_now(),
            absent=self._absent,
            at_most=self._at_most,
            newest_first=self._newest_first,
        )

    def _close_books(self, now: datetime, tried: set[tuple[str, datetime]], outcome: RunOutcome) -> None:
        """Close the windows whose CLOSE WHEN condition holds.

        A condition that raises an error is evaluated only once per run.
        """
        if not any(table.closes for table in self._work.flow.tables.values()):
            return
        request = self._request(self._force)
        if not any(books.needs_check for books in self._planner.books(self.snapshot(), now, request)):
            return
        # imports Spark, which a run with nothing to do should not load
        from waterclock.engine.batch.closing import close_due_books

        for books, error in close_due_books(self._work, self._planner, now, request, self.snapshot, tried):
            window = books.first_open()
            if window is not None and (books.table.name, window.start) not in tried:
                batch = Batch(books.table.name, window, Status.WAITING, "its books are open")
                group = Group(books.table.name, (batch,))
                self._report_unclaimed(GroupReport(group, None, error=error), tried, outcome)

    def snapshot(self) -> LedgerSnapshot:
        """Return the ledger's snapshot to plan from, with the facts of linked projects."""
        asking = requested_open_labels(self._work.flow, self._force)
        return self._work.links.marked_snapshot(self._work.ledger, self._work.settings.who, asking)

    def run_once(self, now: datetime) -> RunOutcome:
        """Run all batches that are due at `now`, and those that become ready by it, until nothing is ready.

        Batches that are lost because the Spark JVM ends are tried once more in a new JVM; a second loss is a failure.
        If the object store stops answering, running batches are finished, and the outcome has the error. Raises E701 to
        E704 if Spark does not start; nothing was claimed in that case.
        """
        outcome = RunOutcome()
        self._work.listener.tick(now)
        self._lost.clear()
        self._refused.clear()
        if has_newer_flow(self._work):
            outcome.plan, outcome.is_outdated = self.plan(now), True
            return outcome
        self._restart_spark()
        self._take_over()
        with (
            Heartbeat(self._work),
            ThreadPoolExecutor(self._work.settings.threads, thread_name_prefix="batch") as threads,
        ):
            now = self._run_ready_groups(now, threads, outcome)
        outcome.was_stopped, outcome.unsettled = self.is_stopping, self._unsettled
        self._remove_shared_view_rows()
        if not outcome.is_outdated:
            if not self._is_spark_lost:
                measure_due(self._work, now, self._only, self._stop)
            self._end_following(now)
            self._refuse_releases(now)
        outcome.plan = self.plan(now)
        return outcome

    def _remove_shared_view_rows(self) -> None:
        """Remove the rows of SHARED views. Rows that cannot be removed now are removed by a later run."""
        if readers_of_shared(self._work.flow):
            try:
                self._work.shared.clear()
            except (OSError, WaterclockError) as error:
                self._work.report_once(
                    f"rows of SHARED views could not be removed below {self._work.lake.root}: {error}"
                )

    def _end_following(self, now: datetime) -> None:
        """Remove requests to make batches again if their inputs change, once all inputs are settled and unchanged."""
        ledger = self._work.ledger
        for name, labels in self._planner.find_labels_to_follow(ledger.reads.snapshot(self._work.flow), now).items():
            if labels:
                ledger.decisions.end_following(name, labels, who=self._work.settings.who)

    def _refuse_releases(self, now: datetime) -> None:
        """Refuse requested releases of held batches that are no longer due, and record that."""
        ledger = self._work.ledger
        for name, labels in self._planner.find_unreleasable(ledger.reads.snapshot(self._work.flow), now).items():
            for label in labels:
                who = self._work.settings.who
                ledger.decisions.refuse_release(name, label, who=who, why="it is no longer due")

    def run_until(self, now: datetime, until: datetime) -> RunOutcome:
        """Step `now` through every instant at which a batch becomes due, up to and including `until`."""
        total = RunOutcome()
        while True:
            outcome = self.run_once(now)
            total.add(outcome)
            upcoming = outcome.plan.next_due if outcome.plan else None
            if self.is_stopping or upcoming is None or upcoming > until:
                return total
            now = upcoming

    def _take_over(self) -> bool:
        """Resolve claims whose runner is gone. Return whether any was resolved. Imports delta-rs only if needed."""
        self._unsettled = ()
        if left := find_abandoned_claims(self._work):
            from waterclock.engine.batch.takeover import take_over

            found = take_over(self._work, left)
            self._unsettled = tuple(found.unsettled)
            return found.settled > 0
        return False

    def _restart_spark(self) -> None:
        ending, self._is_spark_lost = self._work.sessions.end_of_jvm(), False
        if self._work.sessions.revive():
            self._work.listener.on_message("Spark has ended and is started again" + (f" ({ending})" if ending else ""))

    def _run_ready_groups(self, now: datetime, threads: ThreadPoolExecutor, outcome: RunOutcome) -> datetime:
        """Run what is ready, and what becomes ready by it. Return the instant of the last plan."""
        running: dict[Future[tuple[GroupReport, ...]], Group] = {}
        tried: set[tuple[str, datetime]] = set()
        clocks = SourceClocks(self._work, now)
        self._absent = {}
        ready = self._find_startable_groups(now, tried, clocks, outcome)
        may_be_fresher = False  # whether fresh groups may have become ready since the last plan
        while True:
            if not self.is_stopping and not self._is_spark_lost:
                self._start_groups(ready, running, threads, now)
            if not running:
                if not self.is_stopping and not (ready or self._is_spark_lost) and self._wait_for_progress():
                    self._refused.clear()
                    ready = self._find_startable_groups(now, tried, clocks, outcome)
                    continue
                if self.is_stopping or not (ready or self._is_spark_lost):
                    outcome.held_back = clocks.waiting_windows
                    return now
                if self._is_spark_lost:
                    self._restart_spark()
                    ready = self._find_startable_groups(now, tried, clocks, outcome)
                continue
            finished, _ = wait(running, self._seconds_to_look(), FIRST_COMPLETED)
            for future in finished:
                may_be_fresher = running.pop(future).is_fresh or may_be_fresher
                for report in future.result():
                    self._record_report(report, tried, outcome)
            # ready groups stay ready, so planning again can wait until the queue cannot fill the free threads, or would
            # fill them with backfills and restatements, although batches that read new windows may be ready
            startable = [group for group in ready if self._has_slot(group, running)]
            is_exhausted = may_be_fresher and not any(group.is_fresh for group in startable)
            is_look_due = self._seconds_to_look() == 0
            if not self.is_stopping and (is_look_due or (finished and (not startable or is_exhausted))):
                may_be_fresher = False
                if is_look_due:
                    now, self._next_look = self._work.real_now(), None
                    clocks = SourceClocks(self._work, now)
                    self._work.listener.tick(now)
                ready = deque(
                    without_running(self._find_startable_groups(now, tried, clocks, outcome), running.values())
                )

    def _seconds_to_look(self) -> float | None:
        """Return the seconds until new windows are due during this run, 0 if they are; None if none are started."""
        if not self._follows_clock or self._next_look is None:
            return None
        return max(0.0, (self._next_look - self._work.real_now()).total_seconds())

    def _wait_for_progress(self) -> bool:
        """Wait until another runner that makes batches due here changes the ledger. False if there is no such runner.

        Claims that this runner left open are resolved first: no other runner does so before their lease expires.
        """
        if not self._waits:
            return bool(self._work.abandoned_claims()) and self._take_over()
        ledger = self._work.ledger
        before = ledger.sequence()
        if self._take_over():
            return True
        others = self._find_live_claims()
        if not others:  # the other runner has finished by now; one more plan is enough if nothing was written since
            is_new, self._seen = bool(self._refused) and before != self._seen, before
            return is_new
        self._work.report_once(f"waiting for {others[0].runner}, which makes {others[0].table}")
        while ledger.sequence() == before and self._find_live_claims() == others:
            if self._stop.wait(_POLL_SECONDS):
                return False
        return True

    def _find_live_claims(self) -> list[ClaimRequest]:
        """Return live runners' claims on batches that are due here, or on any batch if a claim of ours was refused."""
        own = self._work.settings.runner
        left = {claim.number for claim in find_abandoned_claims(self._work)}
        others = [claim for claim in self._work.ledger.claims.open() if claim.request.runner != own]
        return [
            claim.request
            for claim in others
            if claim.number not in left
            and (
                self._refused or any((claim.request.table, label) in self._elsewhere for label in claim.request.labels)
            )
        ]

    def _find_startable_groups(
        self, now: datetime, tried: set[tuple[str, datetime]], clocks: SourceClocks, outcome: RunOutcome
    ) -> deque[Group]:
        """Return the groups that can start now; none under another applied flow, or without the object store."""
        # a watching runner reloads its changed files in the next round, or then reports that it is outdated
        if has_newer_flow(self._work, is_reported=self._waits):
            outcome.is_outdated = True
            self._elsewhere.clear()  # no runner is waited for
            return deque()
        try:
            found, outcome.away = self._plan_with_sources(now, tried, clocks, outcome), None
        except WaterclockError as error:
            if error.code != "E609" or not error.transient:
                raise
            error.forget_frames()
            found, outcome.away = deque[Group](), error
        self._report_store_outage(outcome.away)
        return found

    def _report_store_outage(self, error: WaterclockError | None) -> None:
        """Report once that a store became unavailable, and once that it is back."""
        message = "" if error is None else f"{error.where}: {error.what}: {error.why}"
        if bool(message) != bool(self._away):
            self._work.listener.on_message(message or "the object store answers again")
        self._away = message

    def _plan_with_sources(
        self, now: datetime, tried: set[tuple[str, datetime]], clocks: SourceClocks, outcome: RunOutcome
    ) -> deque[Group]:
        """Plan and query the sources. Plan again if inputs are missing, which PARTIAL AFTER may allow to leave out."""
        absent = self._absent
        fresh = self._plan_once(now, tried, clocks, outcome)
        if self._absent != absent and any(table.partial_after for table in self._work.flow.tables.values()):
            return self._plan_with_sources(now, tried, clocks, outcome)
        return fresh

    def _plan_once(
        self, now: datetime, tried: set[tuple[str, datetime]], clocks: SourceClocks, outcome: RunOutcome
    ) -> deque[Group]:
        self._close_books(now, tried, outcome)
        plan = self.plan(now)
        self._next_look = plan.next_due
        self._work.listener.on_plan(plan)
        self._elsewhere = {(each.table, each.label) for each in plan.batches if each.status is Status.RUNNING}
        fresh: deque[Group] = deque()
        self._report_refused(plan, tried, outcome)
        older = find_log_errors(self._work, _names_of(plan.groups, self._work.flow))
        for batch, wrong in find_link_problems(
            self._work.links.read_progress(self._work.ledger), plan.batches
        ).values():
            if (batch.table, batch.label) not in tried:
                placed = add_batch_place(wrong, batch.table, f"{batch.table}@{label_of(batch.label)}")
                self._report_unclaimed(GroupReport(Group(batch.table, (batch,)), None, error=placed), tried, outcome)
        for group in plan.groups:
            if any((group.table, batch.label) in tried | self._refused for batch in group.batches):
                continue
            table = self._work.flow.tables[group.table]
            own = {read for batch in group.batches for read in table.reads_for_window(batch.window)} if older else ()
            if error := _first_error(older, group.table, own):
                # nothing is claimed, so nothing is failed: the next run continues once the table is rebuilt
                self._report_unclaimed(GroupReport(group, None, error=error), tried, outcome)
                continue
            try:
                passed = clocks.complete(group)
            except Exception as raised:  # noqa: BLE001 - a failing source blocks only its own tables
                where = f"{group.table}@{label_of(group.batches[0].label)}"
                error = add_batch_place(to_error(raised, where=where), group.table, where)
                self._record_incomplete(group, ())
                self._report_unclaimed(GroupReport(group, None, error=error), tried, outcome)
                continue
            self._unclaimed.pop(group.table, None)
            outcome.unclaimed.pop(group.table, None)
            self._record_incomplete(group, passed.batches)
            if passed.batches:
                fresh.append(passed)
        return fresh

    def _report_refused(self, plan: Plan, tried: set[tuple[str, datetime]], outcome: RunOutcome) -> None:
        """Report each table whose declaration is refused (E405), at its first due batch or else its newest window."""
        for name, error in plan.refused.items():
            cadence = self._work.flow.tables[name].cadence
            newest = cadence.window_of(cadence.previous(cadence.last_due(plan.now)))
            first = next((batch for batch in plan.batches if batch.table == name), None)
            batch = first or Batch(name, newest, Status.BLOCKED, error.what)
            if (name, batch.label) not in tried:
                self._report_unclaimed(GroupReport(Group(name, (batch,)), None, error=error), tried, outcome)

    def _record_incomplete(self, group: Group, there: Iterable[Batch]) -> None:
        """Remember labels for which the source is not complete yet, or could not be queried."""
        known = self._absent.get(group.table, frozenset())
        found = {batch.label for batch in group.batches} - {batch.label for batch in there}
        if not found <= known:
            self._absent = {**self._absent, group.table: known | found}

    def _report_unclaimed(self, report: GroupReport, tried: set[tuple[str, datetime]], outcome: RunOutcome) -> None:
        """Report the error that prevents a table's batches from being claimed. A watching run reports it once."""
        table, message = report.group.table, str(report.error)
        outcome.unclaimed[table] = report
        if self._unclaimed.get(table) == message:
            tried.update((table, batch.label) for batch in report.group.batches)
            return
        self._unclaimed[table] = message
        self._record_report(report, tried, outcome)

    def _mark_repeated(self, report: GroupReport) -> GroupReport:
        """Mark a report about another runner's batch as a repeat if its error was sent before.

        E406, that another flow was applied, is always a repeat: `has_newer_flow` reports it.
        """
        table = report.group.table
        if not report.is_of_other_runner or report.error is None:
            self._reported.pop(table, None)
            return report
        reported = self._reported.setdefault(table, set())
        is_repeat = report.error.what in reported or report.error.code == UNDER_NEWER_FLOW
        reported.add(report.error.what)
        return replace(report, is_repeat=is_repeat)

    def _start_groups(
        self,
        ready: deque[Group],
        running: dict[Future[tuple[GroupReport, ...]], Group],
        threads: ThreadPoolExecutor,
        now: datetime,
    ) -> None:
        if not ready:
            return
        # imports Spark, which a run with nothing to do should not load
        from waterclock.engine.batch.retry import run_group_with_retries

        while len(running) < self._work.settings.threads:
            group = next((each for each in self._order.sort(ready) if self._has_slot(each, running)), None)
            if group is None:
                return
            ready.remove(group)
            self._order.start(group)
            self._work.listener.on_group_start(group)
            running[threads.submit(run_group_with_retries, self._work, group, now)] = group

    def _has_slot(self, group: Group, running: dict[Future[tuple[GroupReport, ...]], Group]) -> bool:
        # any of the batches that were running when the JVM ended may have ended it: alone, it fails no other
        if running and any(self._was_lost(each) for each in (group, *running.values())):
            return False
        return fits_next_to(self._work.flow, self._work.settings.threads, group, running.values())

    def _was_lost(self, group: Group) -> bool:
        """Return whether the JVM has ended during an earlier attempt at the group."""
        return any((group.table, batch.label) in self._lost for batch in group.batches)

    def _record_report(self, report: GroupReport, tried: set[tuple[str, datetime]], outcome: RunOutcome) -> None:
        if report.error is not None and lost_spark(report.error):
            self._is_spark_lost = True
            report.error.why = self._work.sessions.end_of_jvm() or report.error.why
        self._work.listener.on_group_finish(self._mark_repeated(report))
        if report.error is None:
            outcome.done += len(report.group.batches)
            outcome.rows += report.rows
            return
        report.error.forget_frames()  # frames keep the batch's session and rows alive as long as the report is kept
        batches = {(report.group.table, batch.label) for batch in report.group.batches}
        if lost_spark(report.error) and not batches <= self._lost:
            self._lost |= batches
            return
        if report.is_of_other_runner and report.error.code == REOPENED_SINCE:
            return  # late rows reopened a closed window: the next plan has its later closing tick
        if report.is_of_other_runner:
            if report.error.code in _RETRYABLE_REFUSALS:
                self._refused.update(batches)
            else:
                # the next plan is without a label that was done or skipped meanwhile, and has the others of its group
                where = report.error.where
                tried.update({each for each in batches if f"{each[0]}@{label_of(each[1])}" == where} or batches)
            return
        tried |= batches
        outcome.failed.append(report)


def _names_of(groups: Iterable[Group], flow: Flow) -> set[str]:
    """Return the names of the tables that groups make or may read."""
    tables = [flow.tables[name] for name in {group.table for group in groups}]
    reads = [reads for table in tables for reads in (table.reads, *(choice.reads for choice in table.choices))]
    return {table.name for table in tables} | {read.table for each in reads for read in each}


def _first_error(errors: Mapping[str, WaterclockError], table: str, reads: Iterable[Read]) -> WaterclockError | None:
    """Return a table's own error in `errors`, or else that of a table that it reads. None if there is none."""
    return next((errors[name] for name in (table, *(read.table for read in reads)) if name in errors), None)
