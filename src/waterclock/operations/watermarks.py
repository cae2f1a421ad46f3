"""Reads the progress of tables' watermarks, which the ledger stores with each label of `<table>_mark`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from waterclock.batches.audit_records import MeasuredBatch
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.measures import MeasuredValue, read_measured_values
from waterclock.flow.watermarks import REACHED, SLOWEST, SLOWEST_AT, mark_of
from waterclock.operations.formatting import instant_words, span_words
from waterclock.timelabel.cadence import Cadence

if TYPE_CHECKING:
    from waterclock.ledger.sections.past import PastSection

MOST = 10
"""The number of newest labels of `<table>_mark` from which the pace of the watermark is computed."""
_LEAST = 3
"""The minimum number of labels to compute a pace. With fewer, a single late row could determine it."""
_EARLIEST_INSTANT = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WatermarkPosition:
    """The progress of a table's rows in data time after the window that ends at `end`.

    `watermark` is None before the first row. `slowest`: the part that is furthest behind, as JSON of its columns, or ""
    without parts. `slowest_at`: the newest time of that part.
    """

    end: datetime
    watermark: datetime | None = None
    slowest: str = ""
    slowest_at: datetime | None = None

    @property
    def behind(self) -> timedelta | None:
        """The time by which the slowest part is behind the end of the window, or None before the first row."""
        return None if self.slowest_at is None else max(self.end - self.slowest_at, timedelta(0))

    def is_past(self, instant: datetime) -> bool:
        """Return whether the watermark has reached an instant."""
        return self.watermark is not None and self.watermark >= instant

    def to_json(self) -> dict[str, Any]:
        """Return the position as a dictionary for JSON, with the delay in seconds."""
        from waterclock.json_models.timeliness import WatermarkProgress

        return WatermarkProgress.model_validate(self).to_json()


def reached_words(table: Table, found: WatermarkPosition, per: Sequence[str]) -> str:
    """Describe the progress of a table's rows: `has reached 2026-11-20 08:00Z: device 7 is 3 h behind`."""
    if found.watermark is None or found.behind is None:
        return "has no row with a time yet"
    slowest = json.loads(found.slowest) if found.slowest else {}
    part = ", ".join(f"{name} {slowest.get(name, 'NULL')}" for name in per)
    slow = f": {part} is {span_words(found.behind)} behind" if part else f", {span_words(found.behind)} behind"
    return f"has reached {instant_words(found.watermark, table.cadence.zone)}{slow}"


def parse_watermarks(cadence: Cadence, kept: Sequence[MeasuredBatch]) -> tuple[WatermarkPosition, ...]:
    """Parse the watermarks stored with batches of `<table>_mark`, oldest first. Batches without one are left out."""
    found = []
    for each in kept:
        values = read_measured_values(each.measures)
        if REACHED in values:
            slowest = values.get(SLOWEST)
            found.append(
                WatermarkPosition(
                    cadence.next(each.label),
                    _parse_instant(values[REACHED]),
                    (slowest.value or "") if slowest else "",
                    _parse_instant(values.get(SLOWEST_AT)),
                )
            )
    return tuple(found)


def read_watermarks(
    flow: Flow, past: PastSection, names: Collection[str], most: int = MOST
) -> dict[str, tuple[WatermarkPosition, ...]]:
    """Return the newest watermark positions of tables with a WATERMARK, oldest first. Cost: a query for each."""
    found: Mapping[str, tuple[WatermarkPosition, ...]] = {
        name: parse_watermarks(flow.tables[mark_of(name)].cadence, past.newest_counted(mark_of(name), most))
        for name in names
        if has_watermark(flow, name)
    }
    return {name: each for name, each in found.items() if each}


def has_watermark(flow: Flow, name: str) -> bool:
    """Return whether a table declares a WATERMARK. Its companion table `<table>_mark` stores the watermark then."""
    mark = flow.tables.get(mark_of(name))
    return mark is not None and mark.marks is not None


def parts_of(flow: Flow, table: Table) -> tuple[str, ...]:
    """Return the columns in the PER clause of a table's WATERMARK, which divide it into parts; () without one."""
    watermark = flow.tables[mark_of(table.name)].marks if has_watermark(flow, table.name) else None
    return watermark.per if watermark else ()


def needed_end(found: Sequence[WatermarkPosition], to: datetime, earliest: datetime) -> datetime | None:
    """Return the end of the window in which the watermark will reach `to`, at its pace so far.

    The pace is how far the watermark moved in its newest labels per second of their windows. With too few labels, it
    is assumed to move as fast as the windows. The end is never before `earliest`. None if the watermark does not move.
    """
    known = [each for each in found if each.watermark is not None]
    if not known:
        return None
    first, last = known[0], known[-1]
    moved, over = _measure_progress(first, last), last.end - first.end
    missing = to - (last.watermark or to)
    if len(known) < _LEAST or over <= timedelta(0):
        return max(last.end + missing, earliest)
    if moved <= timedelta(0):
        return None
    try:
        return max(last.end + missing / (moved / over), earliest)
    except OverflowError:
        return None


def _measure_progress(first: WatermarkPosition, last: WatermarkPosition) -> timedelta:
    if first.watermark is None or last.watermark is None:
        return timedelta(0)
    return last.watermark - first.watermark


def _parse_instant(found: MeasuredValue | None) -> datetime | None:
    """Parse a time as Spark writes it in UTC. A time before the year 1, or an invalid one, becomes the earliest."""
    if found is None or found.value is None:
        return None
    try:
        return datetime.fromisoformat(found.value).replace(tzinfo=UTC)
    except ValueError:
        return _EARLIEST_INSTANT
