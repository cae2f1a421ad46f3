"""Determines the status of a due batch, and the causes for which it waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice, starmap

from waterclock.batches.ledger_snapshot import (
    RECOMPUTE,
    RELEASE,
    BatchStatus,
    Closing,
    FailedBatch,
    Missing,
    OpenClaim,
    TableFacts,
    describe_missing_inputs,
)
from waterclock.flow.declarations import Read
from waterclock.flow.enums import ReadKind
from waterclock.planner.closings import closed_words, open_words
from waterclock.planner.dependency_graph import Node, is_circular
from waterclock.planner.due_batches import find_snapshot_start
from waterclock.planner.input_binding import bind, reads_otherwise, starts_earlier
from waterclock.planner.linked_projects import find_linked_wait_cause, is_expired
from waterclock.planner.open_windows import explain_unknown_windows, is_forgotten, merge_reads, open_windows
from waterclock.planner.partial_inputs import Partial, is_partial_allowed, partial_of
from waterclock.planner.plan import GIVE_UP, STOPS, TO_BE_RELEASED, Batch, BoundRead, Cause, OpenWindow, Status
from waterclock.planner.plan_facts import Facts
from waterclock.planner.readiness_bounds import find_reachable_spans
from waterclock.planner.settlement import find_awaited_inputs, is_dropped
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import local_text

# The maximum number of batches in a chain of causes. Upstream tables are evaluated first, so most chains are short
_MAX_CHAIN = 50
# How many windows back to search for an older state that can be made while the newest one is blocked
_MAX_WINDOWS_BACK = 32


@dataclass(slots=True)
class BatchEvaluator:
    """Determines the status of batches. Results are cached, since many batches may wait for the same one.

    `is_brief`: batches that are not ready are only reported as waiting, without a search for the causes.
    """

    facts: Facts
    is_brief: bool = False
    _evaluated: dict[tuple[str, datetime], Batch] = field(default_factory=dict)
    _depth: int = 0
    _coming_results: dict[tuple[str, datetime], bool] = field(default_factory=dict)
    _steps: int = 0

    def batch(self, name: str, window: Window) -> Batch:
        """Evaluate a due batch: return it with its status, its bound inputs and the causes for which it waits."""
        key = (name, window.start)
        if key not in self._evaluated:
            node = self.facts.graph.nodes[name]
            # result for a cycle of causes that reaches this batch again; in a legal flow no such cycle persists
            self._evaluated[key] = Batch(name, window, Status.WAITING, "waits for itself")
            self._depth += 1
            self._evaluated[key] = self._evaluate(node, window)
            self._depth -= 1
        return self._evaluated[key]

    def _evaluate(self, node: Node, window: Window) -> Batch:
        past = self.facts.snapshot.of(node.table.name)
        trouble = past.troubles.get(window.start)
        if known := self._find_known_status(node, window, past):
            stopped = self._build_batch(node, window, past, *known)
            return self._mark_held(stopped, node, trouble) if stopped.status is Status.HELD else stopped
        if cause := self._find_earlier_batch(node, window, past):
            return self._build_stopped_batch(node, window, past, (), (cause,))
        if found := self._find_unknown_wait(node, window, past):
            return found
        reads, causes = self._bind_reads(node, window, past)
        if reason := self._find_dropped_input(reads):
            return self._build_batch(node, window, past, Status.EXPIRED, reason, reads)
        missing: tuple[Missing, ...] = ()
        if causes:
            is_refused = any(cause.status is Status.BLOCKED for cause in causes)
            partial = None if is_refused else self._find_partial(node, window, past, reads)
            if partial is None:
                return self._build_stopped_batch(node, window, past, reads, causes)
            reads, missing = partial.reads, partial.missing
        reason = self._explain_ready(node, past, window.start)
        made = self._build_batch(node, window, past, Status.READY, reason, reads)
        if node.table.open_of is not None:
            made = replace(made, opened=self._find_open_windows(node, window, self._find_ticks(node, window, past)[0]))
        detail = f"{reason}, partial: {describe_missing_inputs(missing)}" if missing else reason
        return replace(made, missing=missing, reason=detail)

    def find_dropped_input(self, name: str, window: Window) -> str:
        """Return why the inputs of a window are dropped, even if its batch waits for another; '' if they are not."""
        node, found = self.facts.graph.nodes[name], self.batch(name, window)
        if found.status is Status.EXPIRED:
            return found.reason
        return self._find_dropped_input(self._bind_reads(node, window, self.facts.snapshot.of(name))[0])

    def _find_dropped_input(self, reads: tuple[BoundRead, ...]) -> str:
        dropped = is_dropped(((read.read.table, read.low, read.high) for read in reads), self.facts.snapshot)
        return "" if dropped is None else f"RETAIN of {dropped} has dropped its inputs"

    def _mark_held(self, held: Batch, node: Node, trouble: FailedBatch | None) -> Batch:
        """Return a held batch with the mark that a limit holds it, or that its inputs changed since it was sealed."""
        if trouble is None or trouble.is_due_again(self.facts.clock):
            return replace(held, is_over_limit=True)
        if not self._is_outdated(node, held.window, trouble):
            return held
        return replace(held, reason=f"{held.reason}; its inputs have changed since", is_outdated=True)

    def _is_outdated(self, node: Node, window: Window, trouble: FailedBatch) -> bool:
        """Return whether a held batch would read other inputs now, so that it cannot be released.

        Its inputs' rows have changed, its window was reopened, missing inputs arrived, or a START was moved back.
        """
        if trouble.is_outdated:
            return True
        if self.is_brief or not trouble.read:
            return False
        past = self.facts.snapshot.of(node.table.name)
        if self._find_earlier_batch(node, window, past) or self._find_unknown_wait(node, window, past):
            return False  # its inputs are not known yet
        reads, causes = self._bind_reads(node, window, past)
        if causes:
            if (partial := self._find_partial(node, window, past, reads)) is None:
                return node.table.partial_after is None and starts_earlier(reads, trouble.read)
            reads = partial.reads
        return bool(reads) and reads_otherwise(reads, trouble.read)

    def _find_unknown_wait(self, node: Node, window: Window, past: TableFacts) -> Batch | None:
        """Return the batch as waiting if its inputs depend on another project or on windows that are still open."""
        return (
            self._check_link(node, window, past)
            or self._check_closing(node, window, past)
            or self._check_late_rows(node, window, past)
        )

    def _check_late_rows(self, node: Node, window: Window, past: TableFacts) -> Batch | None:
        """Return a batch of late rows as waiting if it is not known yet which windows closed before it.

        Else return None.
        """
        late_rows, facts = node.table.late_rows, self.facts
        if late_rows is None or facts.books(facts.graph.nodes[late_rows.of]).is_decided(window.start):
            return None
        zone = node.table.cadence.zone
        reason = (
            f"waits until it is known which windows of {late_rows.of} were closed by {local_text(window.start, zone)}"
        )
        return self._build_batch(node, window, past, Status.WAITING, reason)

    def _check_closing(self, node: Node, window: Window, past: TableFacts) -> Batch | None:
        """Return the batch of an open window as waiting: for the window before it, or for its condition at a boundary.

        It is blocked if a user must act before the next boundary can be checked, and expired if its inputs are dropped.
        Return None if the window is closed.
        """
        if node.table.open_of is not None:
            return self._check_open_windows(node, window, past)
        if node.table.closes is None or not _is_open(past, window):
            return None
        books = self.facts.books(node)
        first = books.first_open() or window
        if first.start < window.start:
            before = Cause(node.table.name, first, Status.WAITING, "whose books are open")
            return self._build_stopped_batch(node, window, past, (), (before,))
        ahead = books.find_first_boundary(window, is_first=True)
        facts = self.facts
        reads = bind(node.table, window, facts.flow, facts.starts, reads=books.open_ended_reads, closing=ahead)
        dropped = is_dropped(((read.read.table, read.low, read.high) for read in reads), facts.snapshot)
        if dropped is not None:
            return self._build_batch(node, window, past, Status.EXPIRED, f"RETAIN of {dropped} has dropped its inputs")
        causes = tuple(cause for read in reads if (cause := self._gap_cause(read)))
        if any(cause.status in STOPS for cause in causes):
            return self._build_stopped_batch(node, window, past, reads, causes)
        return self._build_batch(node, window, past, Status.WAITING, open_words(books, window), reads, causes)

    def _check_open_windows(self, node: Node, window: Window, past: TableFacts) -> Batch | None:
        """Return a batch of open windows as waiting or expired if these windows are unknown. None if they are known."""
        books = self.facts.closing_books(node)
        if is_forgotten(books, window.end):
            reason = f"windows of {books.table.name} that were open then are closed since, and a newer state is made"
            return self._build_batch(node, window, past, Status.EXPIRED, reason)
        waits = explain_unknown_windows(books, window.end)
        return None if waits is None else self._build_batch(node, window, past, Status.WAITING, waits)

    def _find_open_windows(self, node: Node, window: Window, ticks: Mapping[str, datetime]) -> tuple[OpenWindow, ...]:
        return open_windows(self.facts.closing_books(node), window.end, ticks)

    def _find_partial(
        self, node: Node, window: Window, past: TableFacts, reads: tuple[BoundRead, ...]
    ) -> Partial | None:
        """Return the settled and missing inputs of a batch that stops waiting (PARTIAL AFTER). None if it still waits.

        A complete batch is never replaced by a partial one, and a partial one is made partial again only on request.
        """
        facts = self.facts
        is_requested_again = window.start in past.partial and window.start in past.requested
        if (
            (past.covered.covers_instant(window.start) and not is_requested_again)
            or not is_partial_allowed(node, window, facts.now)
            or len(reads) < len(node.table.reads_for_window(window))
        ):
            return None
        found = partial_of(node, reads, facts.graph, facts.snapshot, facts.settlement, facts.starts)
        return None if found is None or any(map(self._is_coming, found.missing)) else found

    def _is_coming(self, missing: Missing) -> bool:
        """Return whether part of a missing input is being made or will be made, so that waiting is worthwhile."""
        facts, node = self.facts, self.facts.graph.nodes[missing.table]
        if node.table.is_snapshot:  # of snapshots that are not done only the newest can be made
            to_do, cadence = facts.to_do[missing.table], node.table.cadence
            again = (label for label in to_do.revisions if missing.low <= label < missing.high)
            windows = [*starmap(Window, to_do.missing), *map(cadence.window_of, again)]
            return any(self._is_batch_coming(node, window) for window in windows)
        settled = facts.settlement.settled
        gaps = settled[missing.table].gaps(missing.low, missing.high)
        # first the windows that may be ready, then those that may become ready
        return any(
            self._is_batch_coming(node, window)
            for spans in (gaps & find_reachable_spans(node, settled, facts.graph.nodes), gaps)
            for window in islice(self._list_untroubled_windows(node, spans), _MAX_CHAIN)
        )

    def _list_untroubled_windows(self, node: Node, spans: IntervalSet) -> Iterator[Window]:
        troubles = self.facts.snapshot.of(node.table.name).troubles
        for window in (window for span in spans for window in node.table.cadence.windows(*span)):
            trouble = troubles.get(window.start)
            if trouble is None or trouble.is_due_again(self.facts.clock):
                yield window

    def _is_batch_coming(self, node: Node, window: Window) -> bool:
        """Return whether a batch is being made, or can be made once its causes are resolved."""
        key = (node.table.name, window.start)
        if key not in self._coming_results:
            self._coming_results[key] = False  # result for a cycle of causes, and for a chain that is too long
            self._steps += 1
            self._coming_results[key] = self._steps <= _MAX_CHAIN and self._check_batch_coming(node, window)
            self._steps -= 1
        return self._coming_results[key]

    def _check_batch_coming(self, node: Node, window: Window) -> bool:
        name, facts = node.table.name, self.facts
        if window.start < facts.starts[name] or node.table.cadence.due_at(window) > facts.now:
            return False
        batch = self.batch(name, window)
        if batch.status is Status.RUNNING or name not in facts.selected:
            return batch.status is Status.RUNNING
        if batch.status is Status.WAITING and batch.causes:
            nodes = facts.graph.nodes
            return all(self._is_batch_coming(nodes[cause.table], cause.window) for cause in batch.causes)
        return batch.status is Status.READY and window.start not in facts.absent.get(name, ())

    def _explain_ready(self, node: Node, past: TableFacts, label: datetime) -> str:
        """Return the reason why a batch is to be made, or made again."""
        if (trouble := past.troubles.get(label)) is not None:
            return f"tried again after: {_first_line(trouble.error)}"
        if past.requested.get(label) == RELEASE:
            return TO_BE_RELEASED
        if not past.covered.covers_instant(label):
            due = "backfill requested" if label in past.wanted else "due"
            closing = past.closings.get(label)
            is_closed = node.table.closes is not None and closing is not None and closing.tick is not None
            return f"{due}, {closed_words(closing, node.table.cadence.zone)}" if closing and is_closed else due
        facts = self.facts
        awaited = find_awaited_inputs(node, facts.graph, facts.snapshot, facts.starts)
        if label not in past.requested and (lacks := awaited.get(label)):
            return f"made {describe_missing_inputs(lacks)}, which has arrived"
        changed = {fact.table for fact in past.suspects.get(label, ()) if fact.recorded != fact.current}
        return (
            f"stale: {', '.join(sorted(changed))} changed since"
            if changed
            else f"{past.requested.get(label) or 'restatement'} requested"
        )

    def _check_link(self, node: Node, window: Window, past: TableFacts) -> Batch | None:
        """Return a batch whose input another project does not provide as waiting or expired. None for any other."""
        link = self.facts.snapshot.links.get(node.table.name)
        if link is None or past.requested.get(window.start) in {RECOMPUTE, GIVE_UP, RELEASE}:
            return None
        if is_expired(node.table, link, window):
            reason = f"RETAIN of {link.upstream} has dropped its inputs"
            return self._build_batch(node, window, past, Status.EXPIRED, reason)
        cause = find_linked_wait_cause(node.table, link, window)
        return None if cause is None else self._build_stopped_batch(node, window, past, (), (cause,))

    def _find_known_status(self, node: Node, window: Window, past: TableFacts) -> tuple[Status, str] | None:
        """Return the status and reason of a batch if they do not depend on its inputs. Otherwise return None."""
        if claim := _claim_of(past, window.start):
            return Status.WAITING if claim.left else Status.RUNNING, claim.left or "running"
        if past.refused is not None:
            return Status.BLOCKED, f"{past.refused.code} {past.refused.what}"
        trouble = past.troubles.get(window.start)
        if trouble is not None and not trouble.is_due_again(self.facts.clock):
            status = Status.HELD if trouble.status is BatchStatus.HELD else Status.FAILED
            return status, _first_line(trouble.error)
        if pause := self.facts.snapshot.pause_of(node.table.name):
            return Status.PAUSED, pause.words(node.table.cadence.zone)
        if (held := self.facts.held.get(node.table.name)) and window.start in held.labels:
            return Status.HELD, held.reason
        return None

    def _build_stopped_batch(
        self,
        node: Node,
        window: Window,
        past: TableFacts,
        reads: tuple[BoundRead, ...],
        causes: tuple[Cause, ...],
    ) -> Batch:
        """Build a batch with its causes: blocked if a user must act, otherwise waiting."""
        ordered = tuple(sorted(causes, key=_cause_rank))
        first = ordered[0]
        where = f"{first.table}@{first.window.label}"
        if first.status in STOPS:
            by = first.table if first.status is Status.BLOCKED else f"{where}, {first.status}"
            reason = f"blocked by {by}: {first.detail}{self._older_state_hint(node, window, past)}"
            return self._build_batch(node, window, past, Status.BLOCKED, reason, reads, ordered)
        reason = f"waits for {where}, {first.detail or first.status}"
        return self._build_batch(node, window, past, Status.WAITING, reason, reads, ordered)

    def _older_state_hint(self, node: Node, window: Window, past: TableFacts) -> str:
        """Return a hint about an older state that a user can request meanwhile, or "" if there is none."""
        table, cadence, start = node.table, node.table.cadence, window.start
        if self.is_brief or not node.is_made_if_needed or window.end != cadence.last_due(self.facts.now):
            return ""
        for _ in range(_MAX_WINDOWS_BACK):
            start = cadence.previous(start)
            if start < self.facts.starts[table.name] or past.covered.covers_instant(start):
                return ""
            is_free = start not in past.troubles and _claim_of(past, start) is None
            if is_free and not self._bind_reads(node, cadence.window_of(start), past)[1]:
                return f"; `waterclock backfill {table.name} {label_of(start)}` makes an older state until then"
        return ""

    def _build_batch(
        self,
        node: Node,
        window: Window,
        past: TableFacts,
        status: Status,
        reason: str,
        reads: tuple[BoundRead, ...] = (),
        causes: tuple[Cause, ...] = (),
    ) -> Batch:
        is_revision = past.covered.covers_instant(window.start)
        stands_from = None
        if node.table.is_snapshot:
            stands_from = past.period_starts.get(window.start) if is_revision else find_snapshot_start(past)
        verb, choice = past.requested.get(window.start), node.table.choice_of(window)
        chosen = None if choice is None else str(choice)
        closing = past.closings.get(window.start)
        late = node.table.late_rows
        begins = None if late is None else self.facts.starts[late.of]
        found = Batch(node.table.name, window, status, reason, reads, causes, is_revision, stands_from, verb, chosen)
        return replace(found, begins=begins, closing=closing) if begins or closing else found

    def _find_earlier_batch(self, node: Node, window: Window, past: TableFacts) -> Cause | None:
        """Return the earlier batch of an ordered table that must be finished before this one, as a cause, or None."""
        if not node.is_ordered or past.covered.covers_instant(window.start):
            return None
        name = node.table.name
        missing = next(iter(self.facts.to_do[name].missing), None)
        if missing is None or missing[0] >= window.start:
            return None
        first = self.batch(name, node.table.cadence.window_of(missing[0]))
        if node.groups_in_order and first.status is Status.READY:
            stopped = min((label for label in past.troubles if first.label < label < window.start), default=None)
            if stopped is None or past.troubles[stopped].is_due_again(self.facts.clock):
                return None
            first = self.batch(name, node.table.cadence.window_of(stopped))
        return self._root_cause(first)

    def _bind_reads(
        self, node: Node, window: Window, past: TableFacts
    ) -> tuple[tuple[BoundRead, ...], tuple[Cause, ...]]:
        """Return the batch's references bound to intervals, and a cause for each that is not settled."""
        table, facts = node.table, self.facts
        ticks, causes = self._find_ticks(node, window, past)
        reads = table.reads_for_window(window)
        if causes:
            reads = tuple(read for read in reads if read.kind is not ReadKind.LATEST or read.table in ticks)
        closing = past.closings.get(window.start, _OPEN_CLOSING).tick
        if table.open_of is None:
            bound = bind(table, window, facts.flow, facts.starts, ticks, reads=reads, closing=closing)
        else:
            bound = () if causes else merge_reads(self._find_open_windows(node, window, ticks))
        causes += [it for read in bound if (it := self._gap_cause(read) or self._columns_cause(node, read))]
        return bound, tuple(dict.fromkeys(causes))

    def _find_ticks(self, node: Node, window: Window, past: TableFacts) -> tuple[dict[str, datetime], list[Cause]]:
        """Map tables read by LATEST to the tick to read: stored, or the newest settled one. Return causes if none."""
        ticks = dict(past.latest.get(window.start, {}))
        causes = []
        for read in node.table.reads_for_window(window):
            if read.kind is ReadKind.LATEST and read.table not in ticks:
                read_node = self.facts.graph.nodes[read.table]
                tick = self.facts.settlement.newest_tick(read_node, self.facts.starts[read.table])
                if tick is None:
                    causes.append(self._first_batch_cause(read_node, read))
                else:
                    ticks[read.table] = tick
        return ticks, causes

    def _first_batch_cause(self, node: Node, read: Read) -> Cause:
        first = self.facts.to_do[node.table.name].first()
        if first is None:
            first = self.facts.starts[node.table.name]
        return self._window_cause(node, node.table.cadence.window_of(first), f"{read} waits for a first batch")

    def _columns_cause(self, node: Node, read: BoundRead) -> Cause | None:
        """Return a cause if the columns of a read are unknown: the table has no batch yet and does not declare them.

        Tables in a cycle must declare their columns (E230), since none of their batches could come first.
        """
        name = read.read.table
        read_node = self.facts.graph.nodes[name]
        is_known = read_node.table.columns.are_declared or bool(self.facts.snapshot.of(name).covered)
        if read.low < read.high or is_known or is_circular(node.table, read.read, node.cycle):
            return None
        return self._first_batch_cause(read_node, read.read)

    def _gap_cause(self, read: BoundRead) -> Cause | None:
        """Return a cause for the oldest unsettled window of a reference, or None if all are settled."""
        if read.low >= read.high:
            return None
        name = read.read.table
        if refused := self.facts.snapshot.of(name).refused:
            window = self.facts.graph.nodes[name].table.cadence.window_of(read.low)
            return Cause(name, window, Status.BLOCKED, f"{refused.code} {refused.what}")
        settled = self.facts.settlement.settled[name]
        gap = settled.first_gap(read.low, read.high)
        if gap is None:
            return None
        node = self.facts.graph.nodes[name]
        cadence, instant = node.table.cadence, gap[0]
        if node.table.is_snapshot and not self.facts.snapshot.of(name).covered.covers_instant(instant):
            newest = next(iter(self.facts.to_do[name].missing), None)
            if newest is not None and newest[1] >= read.high:
                return self._window_cause(node, Window(*newest))
            return self._window_cause(node, Window(cadence.previous(read.high), read.high))
        window = cadence.window_of(instant)
        if node.is_ordered and window.start not in self.facts.snapshot.of(name).troubles:
            first = self.facts.to_do[name].first()
            if first is not None and first < window.start:
                window = cadence.window_of(first)
        return self._window_cause(node, window)

    def _window_cause(self, node: Node, window: Window, detail: str = "") -> Cause:
        """Return the cause for which a window of another table cannot be read yet."""
        name, due = node.table.name, node.table.cadence.due_at(window)
        if self.is_brief or self._depth > _MAX_CHAIN:
            return Cause(name, window, Status.WAITING, detail)
        if window.start < self.facts.starts[name] and not node.table.is_snapshot:
            begins = node.table.cadence.window_of(self.facts.starts[name])
            return Cause(name, window, Status.WAITING, f"{name} begins at {begins.label}")
        if due > self.facts.now:
            when = local_text(due, node.table.cadence.zone)
            return Cause(name, window, Status.WAITING, f"due at {when}")
        cause = self._root_cause(self.batch(name, window))
        return replace(cause, detail=detail) if detail and not cause.detail else cause

    def _root_cause(self, batch: Batch) -> Cause:
        if batch.status is Status.BLOCKED and batch.causes:
            return next(cause for cause in batch.causes if cause.status in STOPS)
        if batch.causes and batch.causes[0].status is Status.PAUSED:
            return batch.causes[0]
        if batch.status in STOPS or batch.status is Status.PAUSED:
            return Cause(batch.table, batch.window, batch.status, batch.reason)
        claim = _claim_of(self.facts.snapshot.of(batch.table), batch.label)
        if claim is not None and claim.left:
            return Cause(batch.table, batch.window, batch.status, batch.reason)
        detail = "" if batch.table in self.facts.selected else "not selected"
        return Cause(batch.table, batch.window, batch.status, detail)


_OPEN_CLOSING = Closing()


def _is_open(past: TableFacts, window: Window) -> bool:
    return past.closings.get(window.start, _OPEN_CLOSING).tick is None and not past.covered.covers_instant(window.start)


def _claim_of(past: TableFacts, label: datetime) -> OpenClaim | None:
    return next((claim for claim in past.open_claims if label in claim.labels), None)


def _cause_rank(cause: Cause) -> int:
    """Return the rank of a cause for display: those that need a user's action come first, then pauses."""
    return 0 if cause.status in STOPS else 1 if cause.status is Status.PAUSED else 2


def _first_line(error: str) -> str:
    return error.strip().partition("\n")[0]
