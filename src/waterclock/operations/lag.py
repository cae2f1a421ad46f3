"""Computes how far tables are behind: in labels, time and rows, and the delays of their newest labels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.batches.progress_records import MadeLabel
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Mode, ReadKind
from waterclock.flow.watermarks import mark_of
from waterclock.operations.freshness import fresh_to, freshness
from waterclock.operations.watermarks import WatermarkPosition, has_watermark, parts_of, reached_words, read_watermarks
from waterclock.planner.request import PlanRequest

if TYPE_CHECKING:
    from waterclock.operations.project_opening import OpenedProject

MOST = 100
"""The number of newest labels of each table that are read."""
_NOT_FOLLOWED = frozenset({ReadKind.LATEST, ReadKind.PREVIOUS})


@dataclass(frozen=True, slots=True)
class Delays:
    """Statistics of the delays from window ends to first completion. `late` is how many missed their deadline."""

    labels: int
    p50: timedelta
    p95: timedelta
    most: timedelta
    late: int | None = None


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of one table.

    `labels`: the count of due and needed labels that are not done. `fresh_to`: the end of its newest done window;
    `behind`: how long ago that was. `inputs_to`: the instant up to which all inputs are done; None for a collect.
    `rows`: the rows of its inputs from `fresh_to` on; None if it has no inputs or the count is unknown. `is_more`:
    whether there may be more rows. `reached`: for a table with a WATERMARK, how far its rows have come by their own
    time. `late`: the due instant of the oldest label that is no longer in time.
    """

    table: str
    labels: int
    fresh_to: datetime | None = None
    behind: timedelta | None = None
    inputs_to: datetime | None = None
    rows: int | None = None
    is_more: bool = False
    delays: Delays | None = None
    reached: WatermarkPosition | None = None
    reached_words: str = ""
    late: datetime | None = None

    @property
    def ahead(self) -> timedelta | None:
        """The time by which the inputs are ahead of the table; None if it has no inputs or nothing is done."""
        if self.inputs_to is None or self.fresh_to is None:
            return None
        return max(self.inputs_to - self.fresh_to, timedelta(0))

    def to_json(self) -> dict[str, Any]:
        """Return the lag as a dictionary for JSON, with durations in seconds."""
        from waterclock.json_models.timeliness import LagOfTable

        return LagOfTable.model_validate(self).to_json()


def lags(at: OpenedProject, names: Collection[str]) -> list[Lag]:
    """Return how far some tables are behind. Cost: a plan, a ledger query, and one for each table with a WATERMARK."""
    plan = at.planner.plan(at.snapshot, at.now, PlanRequest(only=names))
    found = freshness(at.flow, names, at.snapshot, plan)
    missing = {name: found[name].gaps + found[name].behind for name in names}
    made: Mapping[str, Sequence[MadeLabel]] = {}
    reached: Mapping[str, Sequence[WatermarkPosition]] = {}
    if at.ledger is not None:
        marks = [mark_of(name) for name in names if has_watermark(at.flow, name)]
        tables_to_read = {*names, *marks, *(name for each in names for name in inputs_of(at.flow.tables[each]))}
        made = at.ledger.past.list_newest_labels(sorted(tables_to_read), MOST)
        reached = read_watermarks(at.flow, at.ledger.past, names, MOST)
    return [
        replace(
            lag_of(at.flow, name, at.snapshot, at.now, made, missing[name], reached.get(name, ())),
            late=found[name].late,
        )
        for name in names
    ]


def lag_of(
    flow: Flow,
    name: str,
    snapshot: LedgerSnapshot,
    now: datetime,
    made: Mapping[str, Sequence[MadeLabel]],
    missing: int,
    reached: Sequence[WatermarkPosition] = (),
) -> Lag:
    """Return how far a table is behind, by the newest labels of it and its inputs. Pure."""
    table = flow.tables[name]
    to = fresh_to(table, snapshot)
    inputs = [flow.tables[each] for each in inputs_of(table) if each in flow.tables]
    ends = [fresh_to(each, snapshot) for each in inputs]
    rows, is_more = rows_ahead(inputs, made, to)
    return Lag(
        table=name,
        labels=missing,
        fresh_to=to,
        behind=None if to is None else now - to,
        inputs_to=None if None in ends or not ends else min(end for end in ends if end is not None),
        rows=rows if inputs else None,
        is_more=is_more,
        delays=delays_of(table, made.get(name, ()), _build_reach_time(flow, name, now, made, reached)),
        reached=reached[-1] if reached else None,
        reached_words=reached_words(table, reached[-1], parts_of(flow, table)) if reached else "",
    )


def _build_reach_time(
    flow: Flow, name: str, now: datetime, made: Mapping[str, Sequence[MadeLabel]], reached: Sequence[WatermarkPosition]
) -> Callable[[datetime], datetime] | None:
    """Return a function that maps an instant to the time at which the watermark reached it, or to `now` if it has not.

    Return None without a deadline BY WATERMARK or without a watermark.
    """
    if not flow.tables[name].is_by_watermark or not reached:
        return None
    done = {it.end: it.done for it in made.get(mark_of(name), ())}

    def reach_time(to: datetime) -> datetime:
        first = next((each for each in reached if each.is_past(to)), None)
        return now if first is None else done.get(first.end, to)

    return reach_time


def inputs_of(table: Table) -> list[str]:
    """Return the inputs that a table follows: neither itself nor inputs read by LATEST or PREVIOUS."""
    names = (read.table for read in table.reads if read.kind not in _NOT_FOLLOWED and read.table != table.name)
    return list(dict.fromkeys(names))


def rows_ahead(
    inputs: Iterable[Table], made: Mapping[str, Sequence[MadeLabel]], to: datetime | None
) -> tuple[int, bool]:
    """Count the rows of inputs from an instant on. Return the count, and whether there may be more.

    For a table whose states replace each other, only the newest state counts.
    """
    rows, is_more = 0, False
    for table in inputs:
        newer = [it for it in made.get(table.name, ()) if to is None or it.label >= to]
        if table.mode is Mode.REPLACE:
            rows += newer[-1].rows if newer else 0
        else:
            rows += sum(it.rows for it in newer)
            is_more = is_more or len(newer) >= MOST
    return rows, is_more


def delays_of(
    table: Table, made: Sequence[MadeLabel], passed: Callable[[datetime], datetime] | None = None
) -> Delays | None:
    """Return the delays of labels after their windows, or None if none are known.

    `passed`: for a deadline BY WATERMARK, maps an instant to the time at which the table's watermark reached it. If it
    is None, `late` is None for such a deadline. Windows that ended before the first label was done are left out: their
    delays do not show whether the table keeps up.
    """
    if not made:
        return None
    first = min(it.done for it in made)
    counted = [it for it in made if it.end > first]
    if not counted:
        return None
    spans = sorted(max(it.done - it.end, timedelta(0)) for it in counted)
    late = None
    if table.deadline is not None:
        zone = table.cadence.zone
        by = {it.end: table.deadline.add_to(it.end, zone) for it in counted}
        if not table.is_by_watermark:
            late = sum(1 for it in counted if it.done > by[it.end])
        elif passed is not None:
            late = sum(1 for end, latest in by.items() if passed(end) > latest)
    return Delays(len(spans), percentile(spans, 50), percentile(spans, 95), spans[-1], late)


def percentile(spans: Sequence[timedelta], percent: int) -> timedelta:
    """Return a percentile of sorted spans by the nearest-rank method."""
    return spans[max(ceil(len(spans) * percent / 100), 1) - 1]
