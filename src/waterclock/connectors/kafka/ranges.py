"""Computes the next range of a topic's offsets: from the end of the last range to the end of committed records.

Pure functions. A range may have fewer records than offsets, as transaction markers, aborted records and compacted ones
leave gaps. A range ends at the last stable offset, so that it contains no open transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from waterclock.connectors.interface import Positions
from waterclock.errors import WaterclockError

WITHOUT = "without"
_KEPT = "if the label was done before, it keeps its rows; if not, "
_SKIP_FIX = f"{_KEPT}leave it out with waterclock skip, with all its records"


@dataclass(frozen=True, slots=True)
class Log:
    """A topic at one moment: its name and id, and for each partition the first available and the last stable offset."""

    name: str
    id: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def identity(self) -> str:
        """The name and the id, which distinguishes the topic from a later topic of the same name."""
        return f"{self.name} {self.id}"


@dataclass(frozen=True, slots=True)
class OffsetSpan:
    """Offsets `[low, high)` of one partition."""

    partition: int
    low: int
    high: int

    def __str__(self) -> str:
        """Format the span as errors and the option `without` do: 2:120-180."""
        return f"{self.partition}:{self.low}-{self.high}"


def first_range(log: Log, begins: Mapping[int, int]) -> Positions:
    """Return the first range of a topic, from the offsets `begins` (limited to the topic's end) to its end."""
    parts = {str(part): (min(begins[part], end), end) for part, end in sorted(log.ends.items())}
    return Positions(log.identity, parts)


def next_range(log: Log, reached: Positions, *, where: str, without: str = "") -> Positions | None:
    """Return the range after `reached`; None if the topic has no new records. A new partition is read from offset 0.

    `without` has the lost offsets, or the replaced topic, that the collect may skip, exactly as the error writes them.
    Raises E852 for records that were never read and no longer exist, and E853 if the topic was replaced by another one,
    or ends before records that were already read.
    """
    if log.identity != reached.of:
        if without.strip() != f"topic {reached.of.split()[-1]}":
            raise _replaced_topic_error(log, reached, where)
        return first_range(log, log.starts)
    ends = {int(part): int(end) for part, (_, end) in reached.parts.items()}
    cut = [
        f"{part}: {log.ends.get(part, 'gone')} < {end}" for part, end in ends.items() if log.ends.get(part, -1) < end
    ]
    if cut:
        raise _shortened_log_error(log, cut, where)
    lows = {part: ends.get(part, 0) for part in sorted(log.ends)}
    gone = [OffsetSpan(part, low, log.starts[part]) for part, low in lows.items() if log.starts[part] > low]
    _require_named(log, gone, without, where=where)
    parts = {str(part): (low, log.ends[part]) for part, low in lows.items()}
    if all(low == high for low, high in parts.values()) and ends.keys() == lows.keys():
        return None
    return Positions(log.identity, parts, {str(span.partition): (span.low, span.high) for span in gone})


def spans_of(positions: Positions) -> tuple[OffsetSpan, ...]:
    """Return the span of each partition in a range, without the lost offsets in `Positions.gone`."""
    found = []
    for part, (low, high) in positions.parts.items():
        begins = positions.gone.get(part, (low, low))[1]
        if begins < high:
            found.append(OffsetSpan(int(part), begins, high))
    return tuple(sorted(found, key=lambda span: span.partition))


def readable_range(log: Log, positions: Positions, *, where: str, without: str = "") -> Positions:
    """Return a label's range with the offsets in `gone` that no longer exist and that `without` names.

    Raises E852 if other records of it no longer exist, E853 if the topic was replaced by another one or ends within the
    range.
    """
    if log.identity != positions.of:
        raise _replaced_topic_error(log, positions, where, is_owned=True)
    spans = spans_of(positions)
    gone = [
        OffsetSpan(span.partition, span.low, min(span.high, log.starts[span.partition]))
        for span in spans
        if log.starts.get(span.partition, 0) > span.low
    ]
    _require_named(log, gone, without, where=where, is_owned=True)
    cut = [
        f"{it.partition}: {log.ends.get(it.partition, 'gone')} < {it.high}"
        for it in spans
        if log.ends.get(it.partition, -1) < it.high
    ]
    if cut:
        raise _shortened_log_error(log, cut, where, is_owned=True)
    lost = {str(span.partition): (positions.parts[str(span.partition)][0], span.high) for span in gone}
    return replace(positions, gone={**positions.gone, **lost})


def require_same_topic(topic: str, found: str, positions: Positions, *, where: str) -> None:
    """Raise E853 if the topic has another id (`found`) after a label's range was read than before."""
    if (log := Log(topic, found, {}, {})).identity != positions.of:
        raise _replaced_topic_error(log, positions, where, is_owned=True)


def _require_named(log: Log, gone: list[OffsetSpan], without: str, *, where: str, is_owned: bool = False) -> None:
    """Raise E852 for lost offsets that the option `without` does not name."""
    if not {str(span) for span in gone} <= set(without.replace(" ", "").split(",")):
        raise dropped_records_error(log.name, gone, where=where, is_owned=is_owned)


def dropped_records_error(topic: str, gone: list[OffsetSpan], *, where: str, is_owned: bool = False) -> WaterclockError:
    """Build the error for records that the brokers dropped."""
    named = ",".join(map(str, gone))
    fix = _KEPT if is_owned else "keep them longer (retention.ms); "
    fix += f"to continue without them: OPTIONS ({WITHOUT} '{named}') on the collect"
    return WaterclockError(
        "E852",
        f"records of {topic} are gone",
        where=where,
        why=f"the brokers dropped these offsets: {named} (partition:from-to)"
        + (", which the label contains" if is_owned else " before they were read"),
        fix=fix,
    )


def _replaced_topic_error(log: Log, reached: Positions, where: str, *, is_owned: bool = False) -> WaterclockError:
    """Build the error for a topic that was created again. `is_owned`: the range of a label is in the old topic."""
    old = reached.of.split()[-1]
    read = ", ".join(f"{part}:{end}" for part, (_, end) in reached.parts.items())
    return WaterclockError(
        "E853",
        f"{log.name} is not the topic that was read before",
        where=where,
        why=f"it was deleted and created again: its id is {log.id}, and was {old}; the old one was read up to {read}",
        fix=_SKIP_FIX
        if is_owned
        else f"to continue with the new one, from its beginning: OPTIONS ({WITHOUT} 'topic {old}') on the collect",
    )


def _shortened_log_error(log: Log, cut: list[str], where: str, *, is_owned: bool = False) -> WaterclockError:
    return WaterclockError(
        "E853",
        f"{log.name} ends before the offsets of its last label",
        where=where,
        why=f"by partition, end < offset of the label: {', '.join(cut)}; the brokers lost records or partitions",
        fix="it is tried again, as a new leader may still be catching up; collected rows are kept. If the"
        f" records are lost for good: {_SKIP_FIX if is_owned else 'collect the topic into a table of another name'}",
        transient=True,
    )
