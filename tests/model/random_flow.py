"""Builds random flows: mixed cadences and zones, all types, modes and reads, within the rules of `check`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random

from tests.model.bookkeeping import closing
from tests.model.flows import PLACE, cadence, choosing, collect, flow, publish, snapshot, transform
from tests.model.oracle import CONDITIONS, ERA, windows_of
from waterclock.flow.declarations import Column, Columns, Flow, Read, Table
from waterclock.flow.enums import Batching, Kind, Mode, ReadKind
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.fitting import consists_of_windows
from waterclock.timelabel.period import TimeUnit

# The start of a simulation: just before midnight in Berlin and London, and before Berlin's clocks go forward at 01:00
# UTC.
EVE = datetime(2013, 3, 30, 22, 20, tzinfo=UTC)
_PERIODS = (
    ("5 MINUTES", "UTC"),
    ("15 MINUTES", "UTC"),
    ("30 MINUTES", "Europe/Berlin"),
    ("HOUR", "UTC"),
    ("4 HOURS", "UTC"),
    ("DAY", "UTC"),
    ("DAY", "Europe/Berlin"),
    ("DAY", "Asia/Kolkata"),
)
_SPANS = (
    Duration(30, "MINUTE"),
    Duration(2, "HOUR"),
    Duration(12, "HOUR"),
    Duration(1, "DAY"),
    Duration(2, "DAY"),
)


@dataclass(frozen=True, slots=True)
class RandomFlow:
    """A flow, how coarse its queries are, and how many windows of each collect lie before the eve."""

    flow: Flow
    grains: dict[str, int]


def random_flow(random: Random, *, closes: bool = False, keeps_versions: bool = False) -> RandomFlow:
    """Build one flow of three to nine tables.

    `closes`: tables that read UNTIL may close the books of their windows. `keeps_versions`: snapshots are TEMPORAL.
    """
    palette = random.sample(_PERIODS, random.choice((1, 2, 3)))
    tables: dict[str, Table] = {}
    for number in range(random.choice((1, 2, 3))):
        table = _collect(random, f"c{number}", *random.choice(palette))
        is_of_versions = keeps_versions and table.is_snapshot
        tables[table.name] = replace(table, mode=Mode.TEMPORAL) if is_of_versions else table
    for number in range(random.choice((1, 2, 3, 4))):
        made = _transform(random, f"t{number}", tables, random.choice(palette))
        tables |= {table.name: table for table in made}
    tables = _impatient(random, tables)
    tables = _closing(random, tables) if closes else tables
    for number in range(random.choice((0, 0, 1, 2))):
        of = random.choice(list(tables.values()))
        if of.kind is not Kind.PUBLISH:
            tables[f"p{number}"] = _publish(random, f"p{number}", of, palette)
    grains = {name: random.choice((2, 3, 1 << 20, 1 << 20)) for name in tables}
    return RandomFlow(flow(*tables.values()), grains)


def _impatient(random: Random, tables: dict[str, Table]) -> dict[str, Table]:
    """Make some transforms PARTIAL AFTER the time when all inputs are due."""
    if random.random() < 0.7:
        return tables
    made = dict(tables)
    for name, table in tables.items():
        in_circle = any(table.name in {read.table for read in tables[it.table].reads} for it in table.reads) and any(
            read.table != name and name in {it.table for it in tables[read.table].reads} for read in table.reads
        )
        if table.kind is Kind.TRANSFORM and not in_circle and random.random() < 0.5:
            late = sum((each.cadence.delay for each in tables.values()), timedelta(0))
            made[name] = replace(table, partial_after=Duration(int(late / timedelta(minutes=1)), "MINUTE"))
    return made


def _closing(random: Random, tables: dict[str, Table]) -> dict[str, Table]:
    """Close the books of tables that allow it; if there is none, add one."""
    made: dict[str, Table] = {}
    for name, table in tables.items():
        found = closing(random, tables, table, random.choice(_SPANS)) if random.random() < 0.8 else None
        # a table that runs without a window with open books may never be made whole
        made[name] = found or replace(table, partial_after=None)
    parents = [it for it in tables.values() if it.is_partitioned and it.kind is not Kind.PUBLISH]
    if any(table.closes for table in made.values()) or not parents:
        return made
    u = random.choice(parents)
    wider = [
        each
        for each in (cadence(*each[:1], zone=each[1]) for each in _PERIODS)
        if consists_of_windows(each, _bare(u.cadence))
    ]
    of = random.choice(wider or [_bare(u.cadence)])
    bare = transform("books", [], is_partitioned=True)
    bare = replace(bare, cadence=of, start=_start(random, of) if of.period.minutes <= 30 else None)
    spans = [span for span in _SPANS if _is_whole(of, _bare(u.cadence), span)]
    if not spans:
        return made
    more = [_read(random, bare, random.choice(list(tables.values())), (ReadKind.LATEST, ReadKind.HISTORY))]
    reads = [Read(u.name, ReadKind.UNTIL, random.choice(spans)), *more * (random.random() < 0.3)]
    own = [Read(bare.name, ReadKind.PREVIOUS)] * (random.random() < 0.2)
    table = replace(bare, reads=(*reads, *own))
    found = closing(random, tables | {"books": table}, table, random.choice(_SPANS))
    made["books"] = found or table
    reader = transform("reader", [Read("books")], is_partitioned=True)
    return made | {"reader": replace(reader, cadence=of, start=made["books"].start)}


def _publish(random: Random, name: str, of: Table, palette: list[tuple[str, str]]) -> Table:
    """Publish a table in any legal mode, at its cadence or at a coarser one."""
    legal = [Mode.MERGE, *([Mode.APPEND] if of.mode is Mode.APPEND else [])]
    legal += [] if of.is_partitioned else [Mode.REPLACE]
    coarser = [each for each in (cadence(period, zone=zone) for period, zone in palette) if _is_coarser(each, of)]
    chosen = random.choice(coarser) if coarser and random.random() < 0.3 else of.cadence
    return publish(name, of, mode=random.choice(legal), cadence=chosen)


def _is_coarser(of_publish: Cadence, of: Table) -> bool:
    """Return whether a publish has longer windows that consist of whole windows of the table, as `check` requires."""
    return of_publish.period.minutes > of.cadence.period.minutes and consists_of_windows(of_publish, _bare(of.cadence))


def _collect(random: Random, name: str, period: str, zone: str) -> Table:
    delay = random.choice((0, 0, 5, 90))
    if random.random() < 0.3:
        declared = random.random() < 0.5
        table = snapshot(name, period, zone=zone, delay=delay, start=None)
        return replace(table, start=_start(random, table.cadence)) if declared else table
    mode, is_partitioned = random.choice(
        ((Mode.APPEND, True), (Mode.APPEND, True), (Mode.APPEND, False), (Mode.MERGE, False))
    )
    batching = random.choice((Batching.DATA_TIME, Batching.DATA_TIME, Batching.ARRIVAL_TIME))
    table = collect(name, period, mode=mode, is_partitioned=is_partitioned, batching=batching, zone=zone, delay=delay)
    retain = _retain(random, table.cadence) if mode is Mode.APPEND and random.random() < 0.3 else None
    is_sequential = random.random() < 0.1
    is_undeclared = batching is Batching.ARRIVAL_TIME and random.random() < 0.4
    start = None if is_undeclared else _start(random, table.cadence)
    return replace(table, start=start, retain=retain, is_sequential=is_sequential)


def _retain(random: Random, cadence: Cadence) -> Duration:
    """Retain some windows, with a span that keeps the oldest one whole."""
    windows = random.choice((2, 3, 8))
    is_short = cadence.period.unit is TimeUnit.MINUTE
    return Duration(windows * cadence.period.count, "MINUTE") if is_short else Duration(windows, "DAY")


def _start(random: Random, cadence: Cadence) -> datetime:
    """Start some windows before the eve, so that tables of short windows do not have too many."""
    before = [window.start for window in windows_of(cadence) if window.end <= EVE]
    return before[-random.randint(1, 5)]


def _transform(random: Random, name: str, tables: dict[str, Table], palette: tuple[str, str]) -> list[Table]:
    period, zone = palette
    mode, is_partitioned = random.choice(
        (
            (Mode.APPEND, True),
            (Mode.APPEND, True),
            (Mode.APPEND, False),
            (Mode.REPLACE, False),
            (Mode.REPLACE, False),
            (Mode.MERGE, False),
        )
    )
    bare = transform(
        name, [], period, mode=mode, is_partitioned=is_partitioned, zone=zone, delay=random.choice((0, 0, 0, 10))
    )
    columns = random.choice((Columns(), Columns((Column("k", PLACE, "STRING"),), is_open=False)))
    bare = replace(bare, is_sequential=random.random() < 0.1, columns=columns)
    if mode is Mode.APPEND and random.random() < 0.15:
        bare = replace(bare, retain=_retain(random, bare.cadence))
    if bare.cadence.period.minutes <= 30 or random.random() < 0.1:
        bare = replace(bare, start=_start(random, bare.cadence))  # else it may have a thousand windows
    reads: list[Read] = []
    for _ in range(random.choice((1, 1, 2, 3))):
        u = random.choice([table for table in tables.values() if table.kind is not Kind.PUBLISH])
        read = _read(random, bare, u)
        if read not in reads:
            reads.append(read)
    if random.random() < 0.25:
        reads.append(Read(name, ReadKind.PREVIOUS))
    if not any(read.table != name for read in reads):
        u = next(table for table in tables.values() if table.kind is not Kind.PUBLISH)
        reads.insert(0, Read(u.name, ReadKind.HISTORY))
    made = _delayed(replace(bare, reads=tuple(reads)))
    if random.random() < 0.1:
        return _circle(random, made, tables)
    return [_choosing(random, made, tables) if random.random() < 0.25 else made]


def _choosing(random: Random, table: Table, tables: dict[str, Table]) -> Table:
    """Make the windows of a table choose between queries, one of which has the original reads."""
    others = [each for each in tables.values() if each.kind is not Kind.PUBLISH]
    queries: list[tuple[Read, ...]] = [table.reads]
    for _ in range(random.choice((1, 1, 2))):
        reads = [_read(random, table, random.choice(others)) for _ in range(random.choice((1, 1, 2)))]
        reads += [Read(table.name, ReadKind.PREVIOUS)] * (random.random() < 0.15)
        queries.append(tuple(dict.fromkeys(reads)))
    random.shuffle(queries)
    texts = random.sample(sorted(CONDITIONS), len(queries) - 1)
    return _delayed(choosing(table, *zip(texts, queries, strict=False), other=queries[-1]))


def _delayed(table: Table) -> Table:
    """Delay a table's windows by the longest span of its UNTIL reads."""
    spans = [read.span.to_timedelta() for read in table.reads if read.kind is ReadKind.UNTIL and read.span is not None]
    return replace(table, cadence=replace(table.cadence, delay=max([table.cadence.delay, *spans])))


def _circle(random: Random, first: Table, tables: dict[str, Table]) -> list[Table]:
    """Build two tables that read each other, one of them by PREVIOUS; LATEST is not allowed there."""
    reads = tuple(read for read in first.reads if read.kind not in {ReadKind.LATEST, ReadKind.UNTIL})
    if not any(read.table != first.name for read in reads):
        reads = (Read(next(iter(tables)), ReadKind.HISTORY), *reads)
    name = f"{first.name}b"
    second = replace(first, name=name, fingerprint=name, reads=(), mode=random.choice((Mode.APPEND, first.mode)))
    second = replace(second, reads=(_read(random, second, first, (ReadKind.PLAIN, ReadKind.HISTORY)),))
    return [replace(first, reads=(*reads, Read(name, ReadKind.PREVIOUS))), second]


def _read(random: Random, reader: Table, u: Table, kinds: tuple[ReadKind, ...] = tuple(ReadKind)) -> Read:
    """Pick a reference that `check` accepts: its span starts and ends at boundaries of u."""
    kept = _hours(u.retain) if u.retain is not None else 1e9
    spans = [
        span for span in _SPANS if _is_whole(_bare(reader.cadence), _bare(u.cadence), span) and _hours(span) <= kept
    ]
    legal = [kind for kind in kinds if kind in {ReadKind.HISTORY, ReadKind.LATEST} or not u.is_partitioned]
    if u.is_partitioned and consists_of_windows(reader.cadence, u.cadence) and kept >= _hours_of(reader.cadence):
        legal += [kind for kind in kinds if kind in {ReadKind.PLAIN, ReadKind.PREVIOUS}]
    legal = [kind for kind in legal if kind not in {ReadKind.PAST, ReadKind.UNTIL}]
    if u.is_partitioned and spans and ReadKind.PAST in kinds:
        legal += [ReadKind.PAST, ReadKind.PAST]
    both = [span for span in spans if kept >= 2 * _hours(span) + _hours_of(reader.cadence) + 2]
    if both and ReadKind.UNTIL in kinds and consists_of_windows(reader.cadence, u.cadence):
        legal += [ReadKind.UNTIL, ReadKind.UNTIL] if u.is_partitioned else []
    kind = random.choice(legal)
    if kind is ReadKind.UNTIL:
        return Read(u.name, kind, random.choice(both))
    return Read(u.name, kind, random.choice(spans) if kind is ReadKind.PAST else None)


@cache
def _is_whole(reader: Cadence, u: Cadence, span: Duration) -> bool:
    """Return whether both ends of `[e - span, e)` are boundaries of u, for every window of the reader."""
    boundaries = {window.start for window in windows_of(u)}
    middle = [w.end for w in windows_of(reader) if ERA[0] + timedelta(days=4) < w.end < ERA[1] - timedelta(days=2)]
    return all(e in boundaries and span.subtract_from(e, reader.zone) in boundaries for e in middle)


def _bare(cadence: Cadence) -> Cadence:
    return replace(cadence, delay=timedelta(0))


def _hours_of(cadence: Cadence) -> float:
    """Return an upper bound of a window's length: a day may have 25 hours."""
    return cadence.period.minutes / 60 + (cadence.period.unit is not TimeUnit.MINUTE)


def _hours(span: Duration) -> float:
    return span.to_timedelta() / timedelta(hours=1)
