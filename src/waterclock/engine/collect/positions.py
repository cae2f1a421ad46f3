"""Assigns ranges of a log to labels of a collect. Each range starts at the end of the previous one.

Ranges are recorded with the claim. A label keeps its range even if its claim fails: every retry reads the same range.
The next range goes to the oldest label of a group that is after all labels with a range or with rows. All other labels
are empty, so ranges ascend with labels. If windows were missed, the oldest of them gets all messages since. At every
boundary, all messages that had arrived by then are in earlier labels. An earlier window, such as one of a START that
was moved back, is empty. There is one exception: a range between the ranges of two labels may have no owner, because a
rebuilt ledger does not know a failed or held label. The oldest label between the two gets this range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.connectors.interface import Item, PositionCollector, Positions
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Batching
from waterclock.planner.plan import Group
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

_NAME = "positions {:012d}"
_NAMES = (_NAME.format(0), _NAME.format(10**12 - 1))

Owned = Mapping[datetime, tuple[Item, ...]]


@dataclass(frozen=True, slots=True)
class OpenRanges:
    """The records so far of labels whose batches have not begun (see `find_open_ranges`).

    `owned` maps each label to its ranges, without those that have no records. `names` maps each label to the names of
    the ranges that it owns or will own; other labels get no records. `newest` is the range from the last recorded one
    to the current end of the log, which no label has claimed; None if the source was not asked for it.
    """

    owned: Owned
    names: Mapping[datetime, Collection[str]]
    newest: Positions | None = None


@dataclass(frozen=True, slots=True)
class _RecordedRanges:
    """The ranges that labels own, the newest range of all labels, and the label up to which none gets a new range."""

    owned: dict[datetime, tuple[Item, ...]]
    last: Mapping[str, Any] | None
    behind: datetime


def ranges_of(work: RunContext, table: Table, group: Group) -> Owned:
    """Map each label of a group to its ranges of the log: its recorded one, or the next one. Empty for other tables.

    Cost: a few ledger queries, and a query of the source's end. Raises E851 if the next range does not start at the end
    of the last one.
    """
    collector = None if group.is_made_of_kept else _find_collector(work, table)
    if collector is None:
        return {}
    labels = [batch.label for batch in group.batches]
    recorded = _read_recorded_ranges(work, table, labels)
    owned, behind = recorded.owned, recorded.behind
    # not the first of `labels`: windows before it may be skipped, or not selected for this run
    first = labels[0]
    earlier = [label for label in labels if label <= behind and not owned.get(label)]
    for label, before, after in _find_unowned_gaps(work, table, earlier):
        lost = _read_next_range(work, table, collector, label, before, first)
        if lost is not None and (cut := _cut_before(lost, after)) is not None:
            owned[label] = (cut,)
    free = next((label for label in labels if label > behind), None)
    if free is not None:
        item = _read_next_range(work, table, collector, free, recorded.last, first)
        if item is not None:
            owned[free] = (item,)
    return owned


def find_open_ranges(
    work: RunContext,
    table: Table,
    windows: Sequence[Window],
    known: Collection[datetime],
    start: datetime,
    covered: IntervalSet,
) -> OpenRanges | None:
    """Return the ranges of open windows so far, without claiming them; None for a table that is not read from a log.

    All records after the last recorded range belong to the oldest label after it that is not covered, which is the next
    one to be claimed. So while the batch of an earlier window has not been claimed, an open window has no records yet.
    `covered` are the labels that are done or skipped, and `known` the labels whose ranges were read before.
    Cost: a few ledger queries; a query of the source's end if one of the windows gets the records.
    Errors as for `ranges_of`.
    """
    collector = _find_collector(work, table)
    if collector is None:
        return None
    labels = sorted({*known, *(window.start for window in windows)})
    recorded = _read_recorded_ranges(work, table, labels)
    owned = {window.start: recorded.owned.get(window.start, ()) for window in windows}
    free = _find_next_owner(table, start, recorded.behind, covered, labels)
    if free is None or free not in owned:
        return OpenRanges(owned, _name_ranges(recorded, free))
    item = _read_next_range(work, table, collector, free, recorded.last, start)
    owned[free] = () if item is None or item.positions is None or is_empty(item.positions) else (item,)
    newest = _end_of(recorded.last) if item is None else item.positions
    return OpenRanges(owned, _name_ranges(recorded, free), newest)


def find_oldest_pending_range(work: RunContext, table: Table) -> Positions | None:
    """Return the range of the oldest label that owns one and is neither done nor skipped; None if there is none.

    Cost: two ledger queries at most.
    """
    label = work.ledger.reads.oldest_open_owner(table.name, _NAMES)
    if label is None:
        return None
    owned, _ = work.ledger.reads.owned_items(table.name, [label], _NAMES)
    return next((Positions.of_dict(each["positions"]) for each in owned.get(label, ()) if "positions" in each), None)


def _end_of(kept: Mapping[str, Any] | None) -> Positions | None:
    """Return the empty range at the end of a recorded range."""
    if kept is None:
        return None
    positions = Positions.of_dict(kept["positions"])
    return Positions(positions.of, {part: (end, end) for part, (_, end) in positions.parts.items()})


def find_range_names(
    work: RunContext,
    table: Table,
    windows: Sequence[Window],
    known: Collection[datetime],
    start: datetime,
    covered: IntervalSet,
) -> Mapping[datetime, Collection[str]] | None:
    """Return `names` of `find_open_ranges`, without a query of the source. Cost: a few ledger queries."""
    if _find_collector(work, table) is None:
        return None
    labels = sorted({*known, *(window.start for window in windows)})
    recorded = _read_recorded_ranges(work, table, labels)
    return _name_ranges(recorded, _find_next_owner(table, start, recorded.behind, covered, labels))


def _name_ranges(recorded: _RecordedRanges, free: datetime | None) -> dict[datetime, Collection[str]]:
    """Map labels to the names of their ranges. `free` is the label that will own the next range."""
    names: dict[datetime, Collection[str]] = {
        label: {item.name for item in items} for label, items in recorded.owned.items()
    }
    return names if free is None else names | {free: {_NAME.format(_number_of(recorded.last) + 1)}}


def _find_next_owner(
    table: Table, start: datetime, behind: datetime, covered: IntervalSet, labels: Sequence[datetime]
) -> datetime | None:
    """Return the label that gets the next range, if it is at most the last one of `labels`."""
    low = start if behind < start else table.cadence.next(behind)
    if not labels or low > labels[-1]:
        return None
    gap = covered.first_gap(low, table.cadence.next(labels[-1]))
    return None if gap is None else table.cadence.floor(gap[0])


def _find_collector(work: RunContext, table: Table) -> PositionCollector | None:
    """Return the collector of a table that is read from a log; None for other tables."""
    source = table.source
    if source is None or source.batching is not Batching.ARRIVAL_TIME:
        return None
    collector = work.connections.collector(source.unit.connection)
    return collector if isinstance(collector, PositionCollector) else None


def _read_recorded_ranges(work: RunContext, table: Table, labels: Sequence[datetime]) -> _RecordedRanges:
    newest = work.ledger.reads.newest(table.name)  # read first: the range of a label that is done is then among those
    kept, last = work.ledger.reads.owned_items(table.name, labels, _NAMES)
    owned = {label: tuple(item_of(one) for one in found if "positions" in one) for label, found in kept.items()}
    behind = max(BEGINNING if last is None else last[0], BEGINNING if newest is None else newest.label)
    return _RecordedRanges(owned, None if last is None else last[1], behind)


def _read_next_range(
    work: RunContext,
    table: Table,
    collector: PositionCollector,
    label: datetime,
    before: Mapping[str, Any] | None,
    first: datetime,
) -> Item | None:
    """Return the range of a label after the range `before`; None if the log has nothing new.

    Without `before`, the log is read from START, or from the window `first` if no START is recorded.
    """
    if table.source is None:
        raise AssertionError(f"{table.name} is not collected from a log")
    unit, reached = table.source.unit, None if before is None else Positions.of_dict(before["positions"])
    start = table.cadence.floor(work.ledger.reads.table(table.name).start or first)
    found = collector.next_range(work.connections.resolve_unit(unit), reached, start)
    if found is None:
        return None
    require_contiguous(reached, found, where=f"{table.name}@{label_of(label)}")
    return Item(_NAME.format(_number_of(before) + 1), BEGINNING, 0, str(unit), positions=found)


def _find_unowned_gaps(
    work: RunContext, table: Table, labels: Sequence[datetime]
) -> Iterator[tuple[datetime, Mapping[str, Any] | None, Mapping[str, Any]]]:
    """Yield the gaps between known ranges in which one of `labels` is: that label, and the ranges before and after.

    Cost: one ledger query if there are labels.
    """
    known = work.ledger.reads.items_around(table.name, labels, _NAMES) if labels else []
    for before, after in pairwise([None, *known]):
        low, number = (BEGINNING, 0) if before is None else (before[0], _number_of(before[1]))
        label = next((label for label in labels if low < label < after[0]), None) if after is not None else None
        if label is not None and after is not None and _number_of(after[1]) > number + 1:
            yield label, None if before is None else before[1], after[1]


def _cut_before(item: Item, after: Mapping[str, Any]) -> Item | None:
    """Return a range that ends where the range `after` begins.

    Return None if there is nothing between them, or if the ranges are of different logs.
    """
    following = Positions.of_dict(after["positions"])
    if item.positions is None or item.positions.of != following.of:
        return None
    lows = ((part, low) for part, (low, _) in item.positions.parts.items() if part in following.parts)
    parts = {part: (low, following.parts[part][0]) for part, low in lows}
    if all(low == high for low, high in parts.values()):
        return None
    return replace(item, positions=replace(item.positions, parts=parts))


def is_empty(positions: Positions) -> bool:
    """Return whether a range has no positions."""
    return all(low == high for low, high in positions.parts.values())


def find_rest(positions: Positions, earlier: Positions) -> Positions | None:
    """Return the part of a range after the range `earlier`; None if it does not certainly continue `earlier`.

    It does if both begin at the same positions of one log, and if no end moved back. Positions that are no numbers have
    no known order.
    """
    if positions.of != earlier.of or positions.gone != earlier.gone:
        return None
    if not earlier.parts.keys() <= positions.parts.keys():
        return None
    parts = dict(positions.parts)
    for part, (low, end) in earlier.parts.items():
        first, high = parts[part]
        is_later = isinstance(end, int) and isinstance(high, int) and end <= high
        if first != low or not (end == high or is_later):
            return None
        parts[part] = (end, high)
    return replace(positions, parts=parts)


def find_skipped_end(
    work: RunContext, table: Table, sources: Mapping[datetime, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return an empty range at the end of the ranges that skipped labels own right after those of the done labels.

    `sources` are the source notes of all done labels. A table whose windows change loses its skipped labels. With this
    range in its newest slice, their records are not read again. None if there are none. Cost: two ledger queries.
    """
    if table.source is None or table.source.batching is not Batching.ARRIVAL_TIME:
        return None
    newest = max(sources)
    skipped = [label for label, _ in work.ledger.maintenance.skipped_windows(table.name) if label > newest]
    if not skipped:
        return None
    owned, _ = work.ledger.reads.owned_items(table.name, skipped, _NAMES)
    done = [_number_of(item) for source in sources.values() for item in source.get("items", ()) if "positions" in item]
    reached, number = None, max(done, default=0)
    for item in (item for label in sorted(owned) for item in owned[label] if "positions" in item):
        if _number_of(item) == number + 1:
            reached, number = item, number + 1
    end = _end_of(reached)
    return None if reached is None or end is None else {"name": reached["name"], "positions": end.to_dict()}


def find_label_to_read(work: RunContext, table: Table, newest: datetime) -> datetime | None:
    """Return the oldest label before `newest` that owns a range which is neither collected nor skipped, or None.

    Cost: one ledger query.
    """
    label = work.ledger.reads.oldest_open_owner(table.name, _NAMES)
    return label if label is not None and label < newest else None


def _number_of(item: Mapping[str, Any] | None) -> int:
    """Return the number of a range; 0 for None, before the first range."""
    return 0 if item is None else int(str(item["name"]).split()[-1])


def require_contiguous(reached: Positions | None, next_range: Positions, *, where: str) -> None:
    """Raise E851 if `next_range` leaves a gap after `reached` or overlaps it. Ranges of two logs may differ."""
    if reached is None or reached.of != next_range.of:
        return
    for part, (_, end) in reached.parts.items():
        low = next_range.parts.get(part, (None, None))[0]
        if part not in next_range.parts or low != end:
            raise WaterclockError(
                "E851",
                f"the next range of {next_range.of} does not start where the last label ended",
                where=where,
                why=f"part {part} was read up to {end}, and "
                + (f"would continue at {low}" if part in next_range.parts else "no longer exists"),
                fix=(
                    "report this as a bug of the connector: it must continue at the end of the last range, or "
                    "raise an error"
                ),
            )


def owned_by_labels(owned: Owned) -> dict[datetime, tuple[Mapping[str, Any], ...]]:
    """Convert the ranges of labels to the dictionaries that the ledger stores. Labels without a range are left out."""
    return {label: tuple(range_to_dict(item) for item in items) for label, items in owned.items() if items}


def range_to_dict(item: Item) -> dict[str, Any]:
    """Convert a range to the dictionary that the ledger or a manifest stores."""
    if item.positions is None:
        raise AssertionError(f"{item.name} is no range of a log")
    return {"name": item.name, "positions": item.positions.to_dict()}


def item_of(kept: Mapping[str, Any]) -> Item:
    """Build a range from the dictionary that a manifest or the ledger stores."""
    return Item(str(kept["name"]), BEGINNING, 0, "", positions=Positions.of_dict(kept["positions"]))


def items_of(sources: Mapping[datetime, Mapping[str, Any]]) -> dict[datetime, Sequence[Item]]:
    """Map done labels to their ranges, given the source notes of their manifests."""
    return {
        label: [item_of(one) for one in source.get("items", ()) if "positions" in one]
        for label, source in sources.items()
    }
