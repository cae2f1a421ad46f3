"""Finds the items of open windows before they are read: ranges of a log, or files, each with its label (CONTINUOUS)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from waterclock.connectors.interface import ArrivalCollector, Item, Positions
from waterclock.engine.collect.collect import assign_arrivals, item_to_dict
from waterclock.engine.collect.log_lag import update_log_lag
from waterclock.engine.collect.positions import (
    Owned,
    find_open_ranges,
    find_range_names,
    find_rest,
    is_empty,
    range_to_dict,
)
from waterclock.engine.run_context import RunContext
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Batching
from waterclock.timelabel.intervals import IntervalSet
from waterclock.timelabel.window import Window


@dataclass(frozen=True, slots=True)
class OpenItems:
    """The items so far of open windows, by label.

    `names` maps each label to the names of the ranges of a log that it owns or will own; None for a source of files.
    """

    by_label: Owned
    names: Mapping[datetime, Collection[str]] | None = None

    def to_dicts(self, label: datetime) -> list[dict[str, Any]]:
        """Return the items of a label as they are recorded with its slice."""
        convert = item_to_dict if self.names is None else range_to_dict
        return [convert(item) for item in self.by_label[label]]

    def after(self, label: datetime, read: Sequence[Mapping[str, Any]]) -> tuple[Item, ...] | None:
        """Return the items of a label, or the parts of its ranges, that came after those that were `read` for it.

        None if what was read is not certainly among the items any more, or has changed.
        """
        new = {item.name: item for item in self.by_label[label]}
        for each in read:
            item = new.pop(str(each.get("name")), None)
            if item is None:
                return None
            if item.positions is None:
                if item_to_dict(item) == each:
                    continue
                size = int(each["size"])
                if item.bytes_read is None or item.size < size or item_to_dict(item) != {**each, "size": item.size}:
                    return None
                new[item.name] = replace(item, bytes_read=size)
                continue
            rest = find_rest(item.positions, Positions.of_dict(each["positions"]))
            if rest is None:
                return None
            if not is_empty(rest):
                new[item.name] = replace(item, positions=rest)
        return tuple(new.values())

    def can_keep(self, label: datetime, items: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether rows of these items, which were read for a label before, still belong to that label."""
        return self.names is None or all(item.get("name") in self.names.get(label, ()) for item in items)


def find_open_items(
    work: RunContext,
    table: Table,
    windows: Sequence[Window],
    known: Collection[datetime],
    start: datetime,
    covered: IntervalSet,
    now: datetime,
) -> OpenItems | None:
    """Return the items so far of open windows; None for a source whose items are not known before it is read.

    `known` are the labels whose items were read before; START, and the labels `covered` that are done or skipped.
    The lag of a log is recorded. Cost: for a log, that of `find_open_ranges` and `update_log_lag`; else a
    listing and a few ledger queries.
    """
    ranges = find_open_ranges(work, table, windows, known, start, covered)
    if ranges is not None:
        update_log_lag(work, table, ranges)
        return OpenItems(ranges.owned, ranges.names)
    source = table.source
    if source is None or source.batching is not Batching.ARRIVAL_TIME or not windows:
        return None
    unit = work.connections.resolve_unit(source.unit)
    collector = work.connections.collector(unit.connection)
    if not isinstance(collector, ArrivalCollector):
        return None
    return OpenItems(assign_arrivals(work, table, windows, now, unit, collector, is_open=True).by_label)


def find_labels_to_keep(
    work: RunContext,
    table: Table,
    windows: Sequence[Window],
    known: Mapping[datetime, Sequence[Mapping[str, Any]]],
    start: datetime,
    covered: IntervalSet,
) -> set[datetime]:
    """Return the labels whose rows can be kept although the source is not read: no other label took their items.

    `known` maps labels that are not done to the items that were read for them before. Cost: a few ledger queries.
    """
    names = find_range_names(work, table, windows, known, start, covered)
    if names is not None:
        return {label for label, items in known.items() if OpenItems({}, names).can_keep(label, items)}
    read = {str(item.get("name")) for items in known.values() for item in items}
    taken = work.ledger.reads.find_collected_items(table.name, sorted(read)) if read else {}
    return {label for label, items in known.items() if not any(str(item.get("name")) in taken for item in items)}
