"""Which offsets of a topic come next: behind those that were read, up to the end of what is committed. Pure.

Offsets count no records: markers of transactions, aborted records and compacted ones leave gaps between them. What
ends a range is the last stable offset, so that no open transaction lies within.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from waterclock.connectors.interface import Positions
from waterclock.errors import WaterclockError

WITHOUT = "without"


@dataclass(frozen=True, slots=True)
class Log:
    """A topic at one moment: its identity, and by partition the first offset it holds and the last stable one."""

    name: str
    id: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def identity(self) -> str:
        """What tells the topic from another one of its name."""
        return f"{self.name} {self.id}"


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets `[low, high)` of one partition."""

    partition: int
    low: int
    high: int

    def __str__(self) -> str:
        """Write it as errors and the option `without` do: 2:120-180."""
        return f"{self.partition}:{self.low}-{self.high}"


def first_range(log: Log, begins: Mapping[int, int]) -> Positions:
    """Return the first range of a topic: from given offsets, which may be its end, to its end."""
    parts = {str(part): (min(begins[part], end), end) for part, end in sorted(log.ends.items())}
    return Positions(log.identity, parts)


def next_range(log: Log, reached: Positions, *, where: str, without: str = "") -> Positions | None:
    """Return what came behind `reached`; None where nothing did. A partition that is new is taken from offset 0.

    What is gone is told, and passed over only where `without` names exactly that.
    Raises  E852 where records are gone that were never read, with their offsets
            E853 where the topic is another one, or lost what was read already
    """
    if log.identity != reached.of:
        if without.strip() != f"topic {reached.of.split()[-1]}":
            raise _another(log, reached, where)
        return first_range(log, log.starts)
    ends = {int(part): int(end) for part, (_, end) in reached.parts.items()}
    cut = [
        f"{part}: {log.ends.get(part, 'gone')} < {end}" for part, end in ends.items() if log.ends.get(part, -1) < end
    ]
    if cut:
        raise _cut_back(log, cut, where)
    lows = {part: ends.get(part, 0) for part in sorted(log.ends)}
    gone = [Span(part, low, log.starts[part]) for part, low in lows.items() if log.starts[part] > low]
    if gone and without.replace(" ", "") != ",".join(map(str, gone)):
        raise gone_error(log.name, gone, where=where)
    parts = {str(part): (low, log.ends[part]) for part, low in lows.items()}
    if all(low == high for low, high in parts.values()) and ends.keys() == lows.keys():
        return None
    return Positions(log.identity, parts, {str(span.partition): (span.low, span.high) for span in gone})


def spans_of(positions: Positions) -> tuple[Span, ...]:
    """Return what is to be read of a range, by partition: without what was gone when it was taken."""
    found = []
    for part, (low, high) in positions.parts.items():
        begins = positions.gone.get(part, (low, low))[1]
        if begins < high:
            found.append(Span(int(part), begins, high))
    return tuple(sorted(found, key=lambda span: span.partition))


def require_there(log: Log, positions: Positions, *, where: str) -> None:
    """See that a range that a label owns can be read.

    Raises  E852 where records of it are gone since, E853 where the topic is another one
    """
    if log.identity != positions.of:
        raise _another(log, positions, where)
    spans = spans_of(positions)
    gone = [
        Span(span.partition, span.low, min(span.high, log.starts[span.partition]))
        for span in spans
        if log.starts.get(span.partition, span.high) > span.low
    ]
    if gone:
        raise gone_error(log.name, gone, where=where, is_owned=True)


def gone_error(topic: str, gone: list[Span], *, where: str, is_owned: bool = False) -> WaterclockError:
    """Make the error for records that the brokers dropped."""
    named = ",".join(map(str, gone))
    fix = (
        "if it was made before, the label keeps its rows; else waterclock skip leaves it out"
        if is_owned
        else f"keep them longer (retention.ms); to go on without them: OPTIONS ({WITHOUT} '{named}') on the collect"
    )
    return WaterclockError(
        "E852",
        f"records of {topic} are gone",
        where=where,
        why=f"the brokers dropped these offsets: {named} (partition:from-to)"
        + (", which the label is made of" if is_owned else " before they were read"),
        fix=fix,
    )


def _another(log: Log, reached: Positions, where: str) -> WaterclockError:
    old = reached.of.split()[-1]
    read = ", ".join(f"{part}:{end}" for part, (_, end) in reached.parts.items())
    return WaterclockError(
        "E853",
        f"{log.name} is not the topic that was read",
        where=where,
        why=f"it was deleted and made anew: its id is {log.id}, and was {old}; that one was read up to {read}",
        fix=f"to go on with the new one, from its beginning: OPTIONS ({WITHOUT} 'topic {old}') on the collect",
    )


def _cut_back(log: Log, cut: list[str], where: str) -> WaterclockError:
    return WaterclockError(
        "E853",
        f"{log.name} ends before what was read of it",
        where=where,
        why=f"by partition, its end and how far it was read: {', '.join(cut)}; the brokers lost records, or partitions",
        fix="it is tried again, for a broker that has just taken over may not know all yet; what was read stays. If the"
        " records are lost for good, collect what comes now into a table of another name",
        transient=True,
    )
