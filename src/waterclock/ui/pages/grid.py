"""The start page: a sentence about the project, and the grid with the states of each table's labels in a row."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import groupby

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.flow.declarations import Table
from waterclock.operations.display_states import LOUDNESS, QUIET, State
from waterclock.operations.formatting import count_words, seconds_words, short_label
from waterclock.operations.freshness import Freshness, count_fresh_tables, freshness
from waterclock.operations.grid import column_cadence, fitting_cadence, newest_span, shortest_cadence
from waterclock.operations.json import instant_text
from waterclock.operations.plan_excerpt import plan_of_due
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.project_summary import VerdictPart, verdict
from waterclock.operations.timeline_bars import BarPiece, TimeAxis, TimelineBar, build_timeline_bars, causes_of
from waterclock.planner.plan import Plan
from waterclock.selection import Labels
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.label import label_of
from waterclock.timelabel.period import TimeUnit
from waterclock.timelabel.zone import nominal_zone
from waterclock.ui.page_query import Content, PageQuery

NEWEST = 60  # columns shown without a label selection
_MOST = 400  # columns of any grid
_MOST_LABELS = 1_000_000  # of any grid, which take some 0.8 s
_MOST_TIMED = 20_000  # labels, the limit for the durations of columns: some 0.1 s
_HIGH = 12  # pixels of the highest bar of the durations
_CELLS = ((90, 15), (200, 6), (_MOST, 3))  # the width of a column in pixels, by the maximum number of columns
_SHORT_SPAN = timedelta(hours=25)  # a span of at most a day gets columns as short as the shortest windows
_COLLAPSED_FROM = 300  # tables, from which on layers are collapsed


def grid(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the content of the grid. Cost: two plans, and four queries of the ledger."""
    tables, labels = parameters.tables(at)
    plan = plan_of_due(at, [table.name for table in tables])
    axis = axis_of(at, tables, labels.values())
    found = freshness(at.flow, [table.name for table in tables], at.snapshot, plan)
    drawn = build_timeline_bars(at, tables, axis, plan.batches)
    summary = verdict(at.flow, found, plan)
    return {
        "title": [sentence_part(part) for part in summary.title],
        "more": [sentence_part(part) for part in summary.more],
        "counts": _count_states(drawn),
        "tables": len(tables),
        "by": str(axis.by),
        "leads_into_columns": len(axis.columns) > 1 and axis.by.period.unit is not TimeUnit.MINUTE,
        "cell": _column_width(axis),
        "columns": list(_describe_columns(axis)),
        "took": _duration_bars(at, tables, axis),
        "layers": [_describe_schema(at, schema, rows, found, plan) for schema, rows in _group_by_schema(drawn)],
        "are_closed": len(tables) > _COLLAPSED_FROM,
        "next_due": instant_text(plan.next_due),
    }


def axis_of(at: OpenedProject, tables: Sequence[Table], labels: Iterable[Labels], newest: int = NEWEST) -> TimeAxis:
    """Return the columns of the grid, for the selected labels or else the newest. Long spans have longer columns."""
    zones = {table.cadence.zone for table in tables}
    by = column_cadence(tables, at.zone if at.zone in zones or not zones else min(zones))
    due = newest_span(tables, by, at.now, newest)
    bounds = [each.bounds(by) for each in labels]
    starts = at.planner.starts(at.snapshot, at.now)
    first = by.floor(min((starts[table.name] for table in tables), default=due[0]))
    if not bounds:
        low = max(due[0], first)
        return TimeAxis.over(by, (low, due[1]) if low < due[1] else due)
    low = min((low or first for low, _ in bounds), default=first)
    high = max((high or due[1] for _, high in bounds), default=due[1])
    span = max(low, BEGINNING), min(high, FOREVER)
    if span[0] >= span[1]:
        return TimeAxis(by, (), span[1])
    if span[1] - span[0] <= _SHORT_SPAN:
        by = shortest_cadence(tables, by)
    by = fitting_cadence(by, (by.floor(span[0]), by.ceil(span[1])), _MOST)
    axis = TimeAxis.over(by, (by.floor(span[0]), by.ceil(span[1])))
    columns = axis.columns[-_MOST:]
    return TimeAxis(by, columns[-_count_fitting_columns(tables, columns[0], axis.end, len(columns)) :], axis.end)


def _count_fitting_columns(tables: Iterable[Table], low: datetime, high: datetime, columns: int) -> int:
    """Return how many of the newest columns have few enough labels to be counted within a second."""
    labels = _labels_within(tables, low, high)
    return columns if labels <= _MOST_LABELS else max(1, columns * _MOST_LABELS // labels)


def _labels_within(tables: Iterable[Table], low: datetime, high: datetime) -> int:
    cadences = Counter(table.cadence for table in tables)
    return sum(count * cadence.count(cadence.ceil(low), cadence.ceil(high)) for cadence, count in cadences.items())


def _duration_bars(at: OpenedProject, tables: Sequence[Table], axis: TimeAxis) -> list[Content]:
    """Return a bar for each column, in proportion to the durations of its batches. Empty for too many labels."""
    if at.ledger is None or not axis.columns or _labels_within(tables, *axis.span) > _MOST_TIMED:
        return []
    found = at.ledger.past.durations([table.name for table in tables], *axis.span)
    spent: defaultdict[int, float] = defaultdict(float)
    for label, took in found.items():
        spent[bisect_right(axis.columns, label) - 1] += took.total_seconds()
    most, width = max(spent.values(), default=0.0), _column_width(axis)
    return [
        {
            "labels": column_text(axis.by, axis.columns[index]),
            "seconds": round(seconds, 3),
            "words": seconds_words(seconds),
            "x": index * width,
            "height": max(1, round(_HIGH * seconds / most)),
        }
        for index, seconds in sorted(spent.items())
    ]


def column_text(by: Cadence, start: datetime) -> str:
    """Format the labels of a column in the syntax of selections."""
    local = start.astimezone(nominal_zone(by.zone))
    unit = by.period.unit
    if unit is TimeUnit.MINUTE:
        return f"{start:%Y-%m-%dT%H:%MZ}..{by.next(start) - timedelta(minutes=1):%Y-%m-%dT%H:%MZ}"
    if unit is TimeUnit.MONTH and by.period.count == 1:
        return f"{local:%Y-%m}"
    if unit is TimeUnit.YEAR and by.period.count == 1:
        return f"{local:%Y}"
    low, high = local.date(), _last_day(by, start)
    return f"{low}" if low == high else f"{low}..{high}"


def _last_day(by: Cadence, start: datetime) -> date:
    return by.next(start).astimezone(nominal_zone(by.zone)).date() - timedelta(days=1)


def _column_width(axis: TimeAxis) -> int:
    """Return the width of a column in pixels."""
    return next((width for most, width in _CELLS if len(axis.columns) <= most), 2)


def _describe_columns(axis: TimeAxis) -> Iterator[Content]:
    """Yield each column: its labels, and the heading above it at the start of a period."""
    zone = nominal_zone(axis.by.zone)
    unit = axis.by.period.unit
    before: datetime | None = None
    last, width = len(axis.columns) - 1, _column_width(axis)
    for index, start in enumerate(axis.columns):
        local = start.astimezone(zone)
        yield {
            "labels": column_text(axis.by, start),
            "starts": label_of(start),
            "above": _heading(local, before, unit),
            "number": _column_number(local, before, unit, is_last=index == last),
            "begins": _is_period_start(local, before, unit),
            "x": index * width,
            "is_last": index == last,
        }
        before = local


def _heading(local: datetime, before: datetime | None, unit: TimeUnit) -> str:
    if unit is TimeUnit.MINUTE:
        return f"{local.day} {local:%b %Y}" if before is None or before.date() != local.date() else ""
    if unit in {TimeUnit.DAY, TimeUnit.WEEK}:
        is_new = before is None or (before.year, before.month) != (local.year, local.month)
        return f"{local:%b %Y}" if is_new and (before is not None or local.day <= 20) else ""
    return f"{local:%Y}" if before is None or before.year != local.year else ""


def _column_number(local: datetime, before: datetime | None, unit: TimeUnit, *, is_last: bool) -> str:
    """Format the number of a column that starts a period or is the newest, or ""."""
    if unit is TimeUnit.MINUTE:
        return f"{local:%H}" if is_last or (local.minute == 0 and local.hour % 6 == 0) else ""
    if unit is TimeUnit.DAY:
        return str(local.day) if is_last or local.weekday() == 0 else ""
    if unit is TimeUnit.WEEK:
        return str(local.day) if is_last or before is None or before.month != local.month else ""
    return f"{local.month}" if is_last or local.month in {1, 7} else ""


def _is_period_start(local: datetime, before: datetime | None, unit: TimeUnit) -> bool:
    """Return whether a line is drawn before the column: at the start of a week, a day, a month or a year."""
    if before is None:
        return False
    if unit is TimeUnit.DAY:
        return local.weekday() == 0
    if unit is TimeUnit.MINUTE:
        return local.date() != before.date()
    return (local.month != before.month) if unit is TimeUnit.WEEK else (local.year != before.year)


def _group_by_schema(drawn: Iterable[TimelineBar]) -> Iterator[tuple[str, list[TimelineBar]]]:
    for schema, of_schema in groupby(drawn, key=lambda ribbon: ribbon.table.rpartition(".")[0]):
        yield schema, list(of_schema)


def _describe_schema(
    at: OpenedProject, schema: str, rows: Sequence[TimelineBar], found: Mapping[str, Freshness], plan: Plan
) -> Content:
    names = [row.table for row in rows]
    roots = {cause[0] for cause in causes_of(plan.batches).values()}
    return {
        "schema": schema,
        "tables": len(names),
        "fresh": count_fresh_tables(found, names),
        "worst": str(min((found[name].state for name in names), key=LOUDNESS.__getitem__)),
        "rows": [_describe_table(at, row, found[row.table], is_root=row.table in roots) for row in rows],
    }


def _describe_table(at: OpenedProject, row: TimelineBar, fresh: Freshness, *, is_root: bool) -> Content:
    table = at.flow.tables[row.table]
    return {
        "table": row.table,
        "name": row.table.rpartition(".")[2],
        "purpose": table.about.comment or "",
        "cadence": cadence_words(table.cadence),
        "state": str(fresh.state),
        "is_fresh": fresh.is_fresh,
        "is_root": is_root,
        "fresh_to": fresh_words(table, fresh, at.now),
        "pieces": [describe_piece(table, piece, at.now) for piece in row.pieces],
    }


def fresh_words(table: Table, fresh: Freshness, now: datetime) -> str:
    """Format the freshness of a table: `20 Nov`, `19 Nov · 1 late`, `20 Nov · 1 gap`."""
    if fresh.label is None:
        return "nothing yet"
    described = short_label(fresh.label, table.cadence, now)
    if fresh.gaps:
        described += f" · {count_words(fresh.gaps, 'gap')}"
    elif fresh.late is not None and fresh.behind:
        described += f" · {fresh.behind} late"
    return described


def cadence_words(cadence: Cadence) -> str:
    """Format a cadence, unless it is daily: `1 h`, `15 min`, `month`."""
    period = cadence.period
    if period.unit is TimeUnit.MINUTE:
        hours, minutes = divmod(period.count, 60)
        return f"{period.count} min" if minutes else f"{hours} h"
    if period.unit is TimeUnit.DAY and period.count == 1:
        return ""
    unit = str(period.unit).lower()
    return unit if period.count == 1 else f"{period.count} {unit}s"


def describe_piece(table: Table, piece: BarPiece, now: datetime) -> Content:
    """Return the fields of one piece of a timeline bar for the page."""
    last = table.cadence.previous(piece.high) if piece.high > piece.low else piece.low
    first = table.cadence.ceil(piece.low)
    content: Content = {"column": piece.column, "columns": piece.columns, "state": str(piece.state), "of": piece.of}
    if piece.count != piece.of:
        content["count"] = piece.count
    if piece.part < 1:
        content["part"] = round(piece.part, 2)
    if piece.cause is not None:
        content["cause"] = f"{piece.cause[0]}@{label_of(piece.cause[1])}"
    if first < last:
        content["labels"] = f"{label_of(first)}..{label_of(last)}"
    else:
        content["labels"] = label_of(first)
    content["words"] = short_label(first, table.cadence, now)
    return content


def _count_states(drawn: Iterable[TimelineBar]) -> dict[str, int]:
    """Count the labels by displayed state, most severe first, without the quiet states."""
    counts: Counter[State] = Counter()
    for row in drawn:
        for piece in row.pieces:
            counts[piece.state] += piece.count
    return {str(state): counts[state] for state in sorted(counts, key=LOUDNESS.__getitem__) if state not in QUIET}


def sentence_part(part: VerdictPart) -> Content:
    """Return a part of a sentence for the page, with its state."""
    return {"text": part.text, "mark": None if part.mark is None else str(part.mark)}
