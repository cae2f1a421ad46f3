"""Small flows for tests, written in one line a table: `daily('raw.a')`, `transform('b', reads=[past('raw.a', 7)])`."""

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
    """Read `2013-01-05` or `2013-01-05 06:00` as UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def cadence(period: str = "DAY", *, zone: str = "UTC", delay: int = 0) -> Cadence:
    """Make a cadence; the delay is in minutes."""
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
    """Make a partitioned data-time collect, or what else is asked for."""
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
    """Make a REPLACE collect: it can only say what its source holds now."""
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
    """Make a partitioned transform, or what else is asked for; a bare name is a plain read."""
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
    """Read a condition as a WHEN says it."""
    errors: list[WaterclockError] = []
    said = parse_clause("WHEN", text, SourceText("test.dpl", text), variables={})
    found = condition_of(said, {}, zone, errors)
    assert found is not None, errors
    return found


def choosing(table: Table, *whens: tuple[str, Iterable[Read | str]], other: Iterable[Read | str]) -> Table:
    """Make windows of a table choose what they read: by each condition, else `other`."""
    found = [(condition(text, table.cadence.zone), reads) for text, reads in whens]
    choices = tuple(
        Choice(when, Query("", PLACE), tuple(Read(read) if isinstance(read, str) else read for read in reads))
        for when, reads in [*found, (None, other)]
    )
    reads = dict.fromkeys(read for choice in choices for read in choice.reads)
    return replace(table, reads=tuple(reads), choices=choices)


def publish(name: str, of: Table, **more: Any) -> Table:
    """Make a publish with the type of its table, and its cadence and mode where no others are given."""
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
    """Make a flow of tables written upstream first."""
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
