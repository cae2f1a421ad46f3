"""Makes the data for bench/connect: the same rows as files of each kind, in databases, in an API and in a topic."""

from __future__ import annotations

import gzip
import io
import json
import os
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

START = datetime(2013, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
TYPES = {
    "id": "BIGINT", "customer": "BIGINT", "amount": "DOUBLE", "page": "STRING", "country": "STRING",
    "at": "TIMESTAMP", "kind": "INT", "token": "STRING",
}  # fmt: skip
NAMES = tuple(TYPES)
DDL = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
WIDTHS = {"id": 10, "customer": 8, "amount": 12, "page": 10, "country": 3, "at": 20, "kind": 2, "token": 16}
PARTS = 4
PAGE = 1000


def table_of(rows: int, day: int = 0) -> pa.Table:
    """Return this many rows of a day, numbered continuously from day to day."""
    ids = pa.array(range(day * rows, (day + 1) * rows), pa.int64())
    number = ids.to_numpy()
    begin = int((START + day * DAY).timestamp()) * 1_000_000
    texts = [f"{(one * 2654435761) % (1 << 64):016x}" for one in number.tolist()]
    columns = [
        ids,
        pa.array(number % 100_003, pa.int64()),
        pa.array((number * 7919 % 1_000_000) / 100.0),
        pc.binary_join_element_wise("page-", pa.array(number % 5000).cast(pa.string()), ""),
        pa.array(["de", "fr", "us", "in", "br"]).take(pa.array(number % 5)),
        pa.array(begin + number % 86_400 * 1_000_000, pa.timestamp("us", "UTC")),
        pa.array((number % 7).astype("int32")),
        pa.array(texts),
    ]
    return pa.table(columns, names=list(NAMES))


def as_text(table: pa.Table) -> pa.Table:
    """Return the rows with their times as ISO 8601, in UTC."""
    at = table.schema.get_field_index("at")
    told = pc.strftime(table["at"].cast(pa.timestamp("s", "UTC")), format="%Y-%m-%dT%H:%M:%SZ")
    return table.set_column(at, "at", told)


def content_of(kind: str, table: pa.Table) -> bytes:
    """Return the rows as the content of a file with this ending."""
    told = as_text(table)
    made = io.BytesIO()
    if kind == "csv.gz":
        pcsv.write_csv(told, made)
        return gzip.compress(made.getvalue(), 6)
    if kind == "json":
        return "".join(f"{json.dumps(row)}\n" for row in told.to_pylist()).encode()
    if kind == "parquet":
        pq.write_table(table, made)
    elif kind == "xml":
        rows = ("".join(f"<{k}>{escape(str(v))}</{k}>" for k, v in row.items()) for row in told.to_pylist())
        return f"<rows>{''.join(f'<row>{row}</row>' for row in rows)}</rows>".encode()
    elif kind == "txt":
        rows = ("".join(str(row[k]).ljust(w) for k, w in WIDTHS.items()) for row in told.to_pylist())
        return "".join(f"{row}\n" for row in rows).encode()
    elif kind == "avro":
        import fastavro

        kinds = {"BIGINT": "long", "INT": "int", "DOUBLE": "double"}
        fields = [{"name": name, "type": kinds.get(TYPES[name], "string")} for name in NAMES]
        fastavro.writer(made, {"type": "record", "name": "row", "fields": fields}, told.to_pylist(), codec="deflate")
    else:
        import openpyxl

        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet()
        sheet.append(list(NAMES))
        for row in told.to_pylist():
            sheet.append(list(row.values()))
        book.save(made)
    return made.getvalue()


def positions() -> str:
    """Return the fields of fixed-width lines, in the format of the option `positions`."""
    told, first = [], 1
    for name, width in WIDTHS.items():
        told.append(f"{name} {first}-{first + width - 1}")
        first += width
    return ", ".join(told)


class Landing:
    """Writes a file of one kind into the landing folder for each day, with the same content each day."""

    def __init__(self, folder: Path, kind: str, rows: int) -> None:
        self.kind = kind
        self.name = f"as_{kind.replace('.', '_')}"  # a name with a file's ending would be a file
        self.kept, self.landing = folder / "kept" / self.name, folder / "new" / "web" / self.name
        self.kept.mkdir(parents=True)
        self.landing.mkdir(parents=True)
        table = table_of(rows)
        for part in range(PARTS):
            low, high = (rows * at // PARTS for at in (part, part + 1))
            (self.kept / f"{part}.{kind}").write_bytes(content_of(kind, table.slice(low, high - low)))

    @property
    def paths(self) -> list[str]:
        return [str(path) for path in sorted(self.kept.iterdir())]

    def land(self, day: int) -> None:
        for part, path in enumerate(self.paths):
            stamp = START + (day + 1) * DAY - timedelta(seconds=PARTS - part)
            os.link(path, self.landing / f"web_{self.name}_{stamp:%Y_%m_%d_%H_%M_%S}.{self.kind}")


def fill_sqlite(path: Path, rows: int, days: int) -> None:
    """Create `held` with the rows of one day, and `events` with the rows of some days and an index on their time."""
    with closing(sqlite3.connect(path)) as connection, connection:
        listed = "id INTEGER, customer INTEGER, amount REAL, page TEXT, country TEXT, at TEXT, kind INTEGER, token TEXT"
        for name, count in (("held", 1), ("events", days)):
            connection.execute(f"CREATE TABLE {name} ({listed})")
            for day in range(count):
                values = [tuple(row.values()) for row in as_text(table_of(rows, day)).to_pylist()]
                connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        connection.execute("CREATE INDEX events_at ON events (at)")


def fill_duckdb(path: Path, rows: int) -> None:
    import duckdb

    with closing(duckdb.connect(str(path))) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("given", table_of(rows))
        connection.execute("CREATE TABLE held AS SELECT * FROM given")


POSTGRES = "id bigint, customer bigint, amount float8, page text, country text, at timestamptz, kind int, token text"


def fill_postgres(connection: Any, schema: str, rows: int, days: int) -> None:
    """Create `held` and `events` as in SQLite, and an empty table `followed` with a key."""
    connection.execute(f"CREATE SCHEMA {schema}")
    for name, count in (("held", 1), ("events", days), ("followed", 0)):
        connection.execute(f"CREATE TABLE {schema}.{name} ({POSTGRES})")
        for day in range(count):
            copy_in(connection, f"{schema}.{name}", table_of(rows, day))
    connection.execute(f"CREATE INDEX ON {schema}.events (at); ALTER TABLE {schema}.followed ADD PRIMARY KEY (id)")
    connection.execute(f"ANALYZE {schema}.held; ANALYZE {schema}.events")


def copy_in(connection: Any, table: str, rows: pa.Table) -> None:
    made = io.BytesIO()
    pcsv.write_csv(as_text(rows), made, pcsv.WriteOptions(include_header=False))
    with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy:
        copy.write(made.getvalue())


@contextmanager
def api() -> Iterator[tuple[str, int]]:
    """Start the API of `connect_api.py`, and return its address and process."""
    command = [sys.executable, str(Path(__file__).with_name("connect_api.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.terminate()


def serve_day(url: str, rows: int, day: int) -> None:
    """Store the rows of a day in the API."""
    told = as_text(table_of(rows, day)).to_pylist()
    pages = [told[at : at + PAGE] for at in range(0, len(told), PAGE)]
    body = json.dumps({"day": f"{START + day * DAY:%Y-%m-%d}", "pages": pages}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{url}/hold", body, method="POST"), timeout=60).close()


def send_day(producer: Any, topic: str, rows: int, day: int, partitions: int) -> None:
    """Send the rows of a day to a topic, as JSON."""
    for number, row in enumerate(as_text(table_of(rows, day)).to_pylist()):
        while True:
            try:
                producer.produce(topic, json.dumps(row).encode(), str(row["id"]).encode(), number % partitions)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    producer.flush(60)


Step = Callable[[int], None]
