"""Makes the data of bench/scale: a flow of many hourly tables, and a ledger in which years of it are done.

The first three hours are planned, claimed and recorded as a runner does it, an hour at a time, each label under a claim
of its own. Every later hour is a copy of the third one, shifted in the database: its instants, claims, versions and
sequence numbers. Texts and values that depend on content (paths, digests, sums, event data) are not changed. The last
hour is recorded as by a runner again, with failures, an open claim, and old labels that were made again.
`tests/unit/test_scale_history.py` compares shifted hours with hours that a runner recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.batches.records import BatchResult, Claim, ClaimRequest
from waterclock.flow.declarations import Flow
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store.instants import to_micros
from waterclock.ledger.store.schema import metadata
from waterclock.ledger.store.slice_weights import SET_SUMS
from waterclock.planner.plan import Group
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest

if TYPE_CHECKING:
    import sqlalchemy as sa

ORIGIN = datetime(2013, 1, 1, tzinfo=UTC)  # from which versions are counted
HOUR = timedelta(hours=1)
TEMPLATE = 2  # the hour that is copied: the first has no predecessor, and the second finds new tables
RUNNER = "vm:2448:c69e7d583b3d"
HEADER = """\
[project]
name = "scale"

[defaults]
start = "{start:%Y-%m-%dT%H:%MZ}"

[env.dev]
storage = ".waterclock"
{ledger}connections.shop = {{ path = "shop.sqlite" }}
"""
# a tenth of the tables: two sources and the tables made from them, five levels deep; all parts read the table `{hub}`
PART = """\
COLLECT raw.a{n} PARTITIONED (id BIGINT, amount DOUBLE, country STRING, at TIMESTAMP)
  FROM shop.sales EVERY HOUR BY DATA TIME at;
COLLECT raw.b{n} PARTITIONED (id BIGINT, amount DOUBLE, country STRING, at TIMESTAMP)
  FROM shop.sales EVERY HOUR BY DATA TIME at;
TRANSFORM clean.a{n} PARTITIONED AS SELECT id, amount, country, at FROM raw.a{n} WHERE country IS NOT NULL;
TRANSFORM clean.b{n} PARTITIONED AS SELECT id, amount, country, at FROM raw.b{n} WHERE country IS NOT NULL;
TRANSFORM mart.joined{n} PARTITIONED
AS SELECT a.id, a.country, a.amount + b.amount AS amount FROM clean.a{n} a JOIN clean.b{n} b ON b.id = a.id;
TRANSFORM mart.best{n} PARTITIONED AS SELECT id, country, amount FROM mart.joined{n} WHERE amount > 100;
TRANSFORM mart.spread{n} PARTITIONED
AS SELECT j.country, count(*) AS sales FROM mart.joined{n} j JOIN {hub} h ON h.id = j.id GROUP BY j.country;
TRANSFORM mart.total{n} PARTITIONED AS SELECT country, sum(amount) AS amount FROM mart.joined{n} GROUP BY country;
TRANSFORM mart.both{n} PARTITIONED
AS SELECT t.country, t.amount, s.sales FROM mart.total{n} t JOIN mart.spread{n} s ON s.country = t.country;
TRANSFORM mart.now{n} AS SELECT country, amount FROM mart.both{n};
"""
_MILLISECOND = timedelta(milliseconds=1)
_MICROS = {  # the columns with instants
    "label", "end", "low", "high", "now", "at", "stands_from", "recorded_at", "claimed_at", "closed_at", "lease_until",
    "due_again",
}  # fmt: skip
_CLAIMS = {"claim", "number", "current_claim", "prior_claim"}
_COUNTED = {"version", "target_version", "changes", "dropped_by"}
_SEQUENCES = {"claimed_sequence", "recorded_sequence", "requested_sequence"}
_MOVED = ("claims", "claim_labels", "batches", "revisions", "inputs", "versions", "events")
_CHUNK = 24 * 30


class Clock:
    """The ledger's clock: starts at the end of the current hour, and advances by a millisecond at each call."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        self.at += _MILLISECOND
        return self.at


def make(folder: Path, tables: int, start: datetime, ledger: str | None = None) -> Path:
    """Write a project with this many tables, a hundred in a file, and its source."""
    import sqlite3
    from contextlib import closing

    (folder / "flows").mkdir(parents=True)
    (folder / ".waterclock").mkdir()
    said = "" if ledger is None else f'ledger = "{ledger}"\n'
    (folder / "waterclock.toml").write_text(HEADER.format(ledger=said, start=start), encoding="utf-8")
    parts = [PART.format(n=n, hub="clean.a0") for n in range(tables // 10)]
    for first in range(0, len(parts), 10):
        text = "CREATE CONNECTION shop TYPE sqlite;\n\n" if first == 0 else ""
        text += "\n".join(parts[first : first + 10])
        (folder / "flows" / f"part_{first:04}.dpl").write_text(text, encoding="utf-8")
    with closing(sqlite3.connect(folder / "shop.sqlite")) as shop, shop:
        shop.execute("CREATE TABLE sales (id INTEGER, amount REAL, country TEXT, at TIMESTAMP)")
    return folder


def fill(url: str, flow: Flow, start: datetime, hours: int) -> None:
    """Write a ledger in which this many hours of a flow are done: three recorded as by a runner, the others copied."""
    done, clock = min(hours, TEMPLATE + 1), Clock(start)
    with Ledger.open(url, clock=clock) as ledger:
        ledger.declared.apply(flow, who="bench", now=start, runner=RUNNER)
        for hour in range(done):
            clock.at = now = start + (hour + 1) * HOUR
            run(ledger, flow, now)
        if hours > done:
            move(ledger, start + TEMPLATE * HOUR, hours - done)


def scatter(ledger: Ledger, flow: Flow, clock: Clock, start: datetime, hours: int) -> None:
    """Record one more hour, in which some batches warn, some fail and one still runs. Make ten old labels again."""

    def end(ledger: Ledger, claim: Claim) -> None:
        table = claim.request.table
        if table in {"mart.now1", "mart.now2"}:
            ledger.claims.record_failed(claim, error="E610 division by zero", is_transient=False)
        elif table != "mart.now3":
            record(ledger, claim, warnings=("few_sales: 3 of 1,000 rows",) if table.startswith("mart.best1") else ())

    clock.at = now = start + (hours + 1) * HOUR
    for n in range(1, len(flow.tables) // 10)[:10]:
        label = start + hours * n // 11 * HOUR
        ledger.decisions.request_restate(f"raw.b{n}", [label], "recompute", who="bench")
        [group] = Planner(flow).ready(ledger.reads.snapshot(flow), now - HOUR, PlanRequest(clock=ledger.now()))
        record(ledger, take(ledger, flow, group, now), rows=1001)
        run(ledger, flow, now - HOUR)
    run(ledger, flow, now, end)


def run(ledger: Ledger, flow: Flow, now: datetime, end: Callable[[Ledger, Claim], None] | None = None) -> int:
    """Record all batches that are due at `now`, as a runner does but without Spark. Return their number."""
    planner, count = Planner(flow), 0
    while groups := planner.ready(ledger.reads.snapshot(flow), now, PlanRequest(clock=ledger.now())):
        for group in groups:
            (end or record)(ledger, take(ledger, flow, group, now))
            count += len(group.batches)
    return count


def take(ledger: Ledger, flow: Flow, group: Group, now: datetime) -> Claim:
    """Claim a group of batches, with their current inputs."""
    inputs = {}
    for batch in group.batches:
        pins = ledger.reads.pins([(bound.read.table, bound.low, bound.high) for bound in batch.reads])
        inputs[batch.label] = tuple(
            pin.input(str(bound.read), bound.scope.value) for bound, pin in zip(batch.reads, pins, strict=True)
        )
    labels = tuple(batch.label for batch in group.batches)
    code, head = flow.tables[group.table].fingerprint, _version(labels[0]) - 1
    return ledger.claims.take(
        ClaimRequest(group.table, labels, code, flow.fingerprint, RUNNER, "bench", now, 60, head, inputs, run="b" * 12)
    )


def record(ledger: Ledger, claim: Claim, *, warnings: tuple[str, ...] = (), rows: int = 1000) -> None:
    """Record a claim as done. Another number of `rows` means changed content."""
    results = [
        BatchResult(
            label,
            label + HOUR,
            _version(label),
            rows,
            50_000,
            f"{rows}:{hash(claim.request.table) & 0xFFFFFFFF}:210987654321",
            f"_stage/{label:y=%Y/m=%m/d=%d/h=%H/n=%M}/c={claim.number}",
            measures={"warnings": list(warnings)},
            timings={"make": 0.81, "seal": 0.22, "audit": 0.01, "commit": 0.06},
        )
        for label in claim.request.labels
    ]
    ledger.claims.record_done(claim, results)


def _version(label: datetime) -> int:
    return (label - ORIGIN) // HOUR + 1


@dataclass(frozen=True, slots=True)
class _Step:
    """The differences between the database rows of an hour and those of the hour before, by column."""

    sequences: int
    events: int

    def of(self, column: str) -> int:
        if column in _MICROS:
            return HOUR // timedelta(microseconds=1)
        if column in _CLAIMS:
            return HOUR // _MILLISECOND
        if column in _SEQUENCES:
            return self.sequences
        return {"id": self.events}.get(column, int(column in _COUNTED))


def move(ledger: Ledger, last: datetime, hours: int) -> None:
    """Add this many hours, each a copy of the last hour of the ledger, shifted by one hour more."""
    label = to_micros(last)
    with _bulk(ledger) as (connection, is_sqlite):
        step = _Step(*_widths(connection, label))
        for name in _MOVED:
            table = metadata.tables[name]
            connection.exec_driver_sql(f"CREATE TEMPORARY TABLE template AS {_template(name, label)}")
            values = ", ".join(_moved(column.name, step) for column in table.columns)
            columns = ", ".join(f'"{column.name}"' for column in table.columns)
            by_table = is_sqlite and next(iter(table.primary_key)).name == "table_name"
            for first in range(1, hours + 1, hours if by_table else _CHUNK):
                end = hours if by_table else min(first + _CHUNK - 1, hours)
                series = _series(first, end, is_sqlite=is_sqlite)
                # in physical order: by key in SQLite, by insertion in PostgreSQL
                both = f"template CROSS JOIN {series}" if by_table else f"{series} CROSS JOIN template"
                order = "" if is_sqlite else " ORDER BY n"
                connection.exec_driver_sql(f"INSERT INTO {name} ({columns}) SELECT {values} FROM {both}{order}")
            connection.exec_driver_sql("DROP TABLE template")
        _advance(connection, step, hours)
        ledger._database.backend.count_on(connection)  # noqa: SLF001


def _template(name: str, label: int) -> str:
    if name == "claims":
        return f"SELECT * FROM claims WHERE number IN (SELECT claim FROM claim_labels WHERE label = {label})"
    return f"SELECT * FROM {name} WHERE label = {label}"


def _moved(column: str, step: _Step) -> str:
    by = step.of(column)
    return f'template."{column}" + {by} * n' if by else f'template."{column}"'


def _series(first: int, last: int, *, is_sqlite: bool) -> str:
    if not is_sqlite:
        return f"generate_series({first}, {last}::bigint) AS hours(n)"
    numbers = f"WITH RECURSIVE c(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM c WHERE n < {last}) SELECT n FROM c"
    return f"({numbers}) AS hours"


def _widths(connection: sa.Connection, label: int) -> tuple[int, int]:
    """Return by how much the sequence and the event ids grow in an hour."""
    sequences = "SELECT max(recorded_sequence) FROM revisions WHERE label ="
    before = label - HOUR // timedelta(microseconds=1)
    newest, older = (connection.exec_driver_sql(f"{sequences} {at}").scalar_one() for at in (label, before))
    events = connection.exec_driver_sql(f"SELECT count(*) FROM events WHERE label = {label}").scalar_one()
    return int(newest - older), int(events)


def _advance(connection: sa.Connection, step: _Step, hours: int) -> None:
    """Update the current state: table heads, coverage, codes, and the next claim and sequence numbers."""
    micros, millis = (hours * step.of(column) for column in ("label", "claim"))
    for statement in (
        f"UPDATE tables SET head_version = head_version + {hours}, head_label = head_label + {micros}",
        f"UPDATE tables SET changes = changes + {hours}",
        f"UPDATE coverage SET high = high + {micros}",
        f"UPDATE codes SET labels = labels + {hours}",
        f"UPDATE ledger SET last_claim = last_claim + {millis}, sequence = sequence + {hours * step.sequences}",
        f"UPDATE ledger SET last_recorded = last_recorded + {micros}",
    ):
        connection.exec_driver_sql(statement)
    connection.execute(SET_SUMS)


@contextmanager
def _bulk(ledger: Ledger) -> Iterator[tuple[sa.Connection, bool]]:
    """Open a transaction without durability. Secondary indexes are dropped, and created again at its end."""
    database = ledger._database  # noqa: SLF001
    with database._engine.connect() as connection:  # noqa: SLF001
        is_sqlite = connection.dialect.name == "sqlite"
        if is_sqlite:
            for setting in ("synchronous = OFF", "journal_mode = OFF", "cache_size = -1000000"):
                connection.exec_driver_sql(f"PRAGMA {setting}")
            connection.commit()
        connection.begin()
        database.backend.begin(connection, database.url, writes=True, first=None)
        indexes = [index for name in _MOVED for index in metadata.tables[name].indexes]
        said = [_definition(connection, str(index.name), is_sqlite=is_sqlite) for index in indexes]
        for index in indexes:
            connection.exec_driver_sql(f"DROP INDEX {index.name}")
        yield connection, is_sqlite
        for text in said:
            connection.exec_driver_sql(text)
        if not is_sqlite:
            connection.exec_driver_sql("ANALYZE")
        connection.commit()
        if is_sqlite:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            connection.commit()


def _definition(connection: sa.Connection, index: str, *, is_sqlite: bool) -> str:
    asked = (
        f"SELECT sql FROM sqlite_master WHERE name = '{index}'"
        if is_sqlite
        else f"SELECT indexdef FROM pg_indexes WHERE indexname = '{index}' AND schemaname = current_schema()"
    )
    return str(connection.exec_driver_sql(asked).scalar_one())
