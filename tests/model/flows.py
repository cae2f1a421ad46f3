"""Builds small flows for tests, one line per table: `daily('raw.a')`, `transform('b', reads=[past('raw.a', 7)])`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from waterclock.dpl.resolve.conditions import condition_of
from waterclock.dpl.syntax.clause_parsing import parse_clause
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError
from waterclock.flow.about import About
from waterclock.flow.conditions import Condition
from waterclock.flow.declarations import Choice, Flow, Place, Query, Read, Source, Table, Unit
from waterclock.flow.enums import Batching, Kind, Mode, ReadKind, TableType
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration, parse_duration
from waterclock.timelabel.period import parse_period
from waterclock.timelabel.window import Window

PLACE = Place("test.dpl", 1, 1)
START = datetime(2013, 1, 1, tzinfo=UTC)


def at(text: str) -> datetime:
    """Parse `2013-01-05` or `2013-01-05 06:00` as UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cadence(period: str = "DAY", *, zone: str = "UTC", delay: int = 0) -> Cadence:
    """Build a cadence; the delay is in minutes."""
    return Cadence(parse_period(period), timedelta(minutes=delay), zone)


def unit(name: str) -> Unit:
    return Unit("landing", name, None, {}, PLACE)


def collect(
    name: str,
    period: str = "DAY",
    *,
    mode: Mode = Mode.APPEND,
    batching: Batching = Batching.DATA_TIME,
    is_partitioned: bool = True,
    start: datetime | None = START,
    zone: str = "UTC",
    delay: int = 0,
    **more: Any,
) -> Table:
    """Build a collect; by default partitioned and by data time."""
    return Table(
        name=name,
        kind=Kind.COLLECT,
        type=TableType.PARTITIONED if is_partitioned else TableType.REGULAR,
        mode=mode,
        cadence=cadence(period, zone=zone, delay=delay),
        place=PLACE,
        start=start,
        source=Source(unit(name), batching, "t" if batching is Batching.DATA_TIME else None),
        fingerprint=name,
        **more,
    )


def snapshot(name: str, period: str = "DAY", *, start: datetime | None = START, **more: Any) -> Table:
    """Build a REPLACE collect: its source can only return its current content."""
    return collect(
        name, period, mode=Mode.REPLACE, batching=Batching.SNAPSHOT, is_partitioned=False, start=start, **more
    )


def transform(
    name: str,
    reads: Iterable[Read | str],
    period: str = "DAY",
    *,
    mode: Mode = Mode.APPEND,
    is_partitioned: bool = True,
    zone: str = "UTC",
    delay: int = 0,
    **more: Any,
) -> Table:
    """Build a transform, partitioned by default; a bare name is a plain read."""
    return Table(
        name=name,
        kind=Kind.TRANSFORM,
        type=TableType.PARTITIONED if is_partitioned else TableType.REGULAR,
        mode=mode,
        cadence=cadence(period, zone=zone, delay=delay),
        place=PLACE,
        reads=tuple(Read(read) if isinstance(read, str) else read for read in reads),
        fingerprint=name,
        **more,
    )


def replace_transform(name: str, reads: Iterable[Read | str], period: str = "DAY", **more: Any) -> Table:
    return transform(name, reads, period, mode=Mode.REPLACE, is_partitioned=False, **more)


def merge_transform(name: str, reads: Iterable[Read | str], period: str = "DAY", **more: Any) -> Table:
    return transform(name, reads, period, mode=Mode.MERGE, is_partitioned=False, **more)


def condition(text: str, zone: str = "UTC") -> Condition:
    """Parse a condition as it is written after WHEN."""
    errors: list[WaterclockError] = []
    said = parse_clause("WHEN", text, SourceText("test.dpl", text), variables={})
    found = condition_of(said, {}, zone, errors)
    assert found is not None, errors
    return found


def choosing(table: Table, *whens: tuple[str, Iterable[Read | str]], other: Iterable[Read | str]) -> Table:
    """Return a table whose windows choose their reads by the first true condition, else `other`."""
    found = [(condition(text, table.cadence.zone), reads) for text, reads in whens]
    choices = tuple(
        Choice(when, Query("", PLACE), tuple(Read(read) if isinstance(read, str) else read for read in reads))
        for when, reads in [*found, (None, other)]
    )
    reads = dict.fromkeys(read for choice in choices for read in choice.reads)
    return replace(table, reads=tuple(reads), choices=choices)


def publish(name: str, of: Table, **more: Any) -> Table:
    """Build a publish with the type of its table, and by default its cadence and mode."""
    made = Table(
        name=name,
        kind=Kind.PUBLISH,
        type=of.type,
        mode=of.mode,
        cadence=of.cadence,
        place=PLACE,
        reads=(Read(of.name),),
        destination=unit(name),
        fingerprint=name,
    )
    return replace(made, **more)


def flow(*tables: Table) -> Flow:
    """Build a flow of tables listed in upstream order."""
    return Flow(project="test", tables={table.name: table for table in tables}, order=tuple(t.name for t in tables))


def past(table: str, span: str) -> Read:
    return Read(table, ReadKind.PAST, parse_duration(span))


def until(table: str, span: str) -> Read:
    return Read(table, ReadKind.UNTIL, parse_duration(span))


def history(table: str) -> Read:
    return Read(table, ReadKind.HISTORY)


def previous(table: str) -> Read:
    return Read(table, ReadKind.PREVIOUS)


def latest(table: str) -> Read:
    return Read(table, ReadKind.LATEST)


def days(amount: int) -> Duration:
    return Duration(amount, "DAY")


def tagged(*tags: str) -> About:
    return About(tags=tags)


def day(text: str) -> Window:
    """Return the UTC day that starts at a date."""
    return Window(at(text), at(text) + timedelta(days=1))
