"""Systems under test for the conformance suites: folders and databases."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import sqlite3
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from tests import firebird, mariadb
from tests.postgres import KEEPER, WORD, drop_all_slots, needs_wal2json, server
from waterclock.connectors.duckdb.connector import CONNECTOR as DUCKDB
from waterclock.connectors.files import scanning
from waterclock.connectors.files.connector import CONNECTOR as FILES
from waterclock.connectors.firebird.connector import CONNECTOR as FIREBIRD
from waterclock.connectors.interface import ArrivalCollector, Connector, Setting
from waterclock.connectors.mysql.connector import CONNECTOR as MYSQL
from waterclock.connectors.postgres import collection as postgres_collection
from waterclock.connectors.postgres.connector import CONNECTOR as POSTGRES
from waterclock.connectors.receiver.connector import CONNECTOR as RECEIVER
from waterclock.connectors.receiver.events import events_of
from waterclock.connectors.receiver.segment_sealing import seal
from waterclock.connectors.receiver.segment_writing import SegmentWriter
from waterclock.connectors.sqlite.connector import CONNECTOR as SQLITE
from waterclock.files.filesystem import entry_path
from waterclock.flow.awaits import Awaits
from waterclock.flow.declarations import Place, Unit, Value
from waterclock.flow.enums import WindowSignal
from waterclock.testing.requirements import System
from waterclock.timelabel.instant import EPOCH
from waterclock.timelabel.window import Window

HERE = Place("flows/test.dpl", 1, 1)


def unit_of(connection: str, path: str, **options: Value) -> Unit:
    return Unit(connection, path, None, options, HERE)


def query_of(connection: str, query: str, **options: Value) -> Unit:
    return Unit(connection, "", query, options, HERE)


def setting_of(name: str, folder: Path, **options: Value) -> Setting:
    return Setting(name, options, folder, folder / "storage" / "archive")


def csv_text(rows: Sequence[Mapping[str, object]], names: Sequence[str] | None = None) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, names or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@contextmanager
def newest_cut(system: System, *, to: float = 0.5) -> Iterator[None]:
    """Truncate the newest item of a system for the duration of the block."""
    collector = system.connector.collector(system.setting)
    assert isinstance(collector, ArrivalCollector)
    path = entry_path(collector.arrivals(system.unit).items[-1].path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * to)])
    try:
        yield
    finally:
        path.write_bytes(whole)


@contextmanager
def cut_once_listed(system: System) -> Iterator[None]:
    """Truncate the newest file as soon as a read has listed all files."""
    real = scanning.scan

    def scan(*values: Any, **named: Any) -> Any:
        cut.__enter__()
        return real(*values, **named)

    cut = newest_cut(system)
    scanning.scan = scan
    try:
        yield
    finally:
        scanning.scan = real
        cut.__exit__(None, None, None)


class LandingFolder:
    """A landing folder with `shop/orders`, in gzipped CSV."""

    secrets: Sequence[str] = ()
    zone_of_times: str | None = "UTC"

    def __init__(self, folder: Path, **options: Value) -> None:
        self.folder = folder
        self.connector: Connector = FILES
        self.setting = setting_of("landing", folder, path="new")
        self.unit = unit_of("landing", "shop.orders", **options)
        self.source = folder / "new" / "shop" / "orders"
        self.source.mkdir(parents=True)
        self.count = 0

    def file(self, stamp: datetime, ending: str = "csv.gz") -> Path:
        return self.source / f"shop_orders_{stamp:%Y_%m_%d_%H_%M_%S}.{ending}"

    def put(self, stamp: datetime, rows: Sequence[Mapping[str, object]]) -> Path:
        path = self.file(stamp)
        path.write_bytes(gzip.compress(csv_text(rows).encode()))
        return path

    def put_unfinished(self, stamp: datetime) -> Path:
        path = self.file(stamp)
        whole = gzip.compress(csv_text([{"id": str(at), "note": f"{at * 7919}"} for at in range(500)]).encode())
        path.write_bytes(whole[: len(whole) // 2])
        return path

    def failing_midway(self) -> AbstractContextManager[None] | None:
        return newest_cut(self)

    def awaits(self, sign: WindowSignal) -> Awaits:
        return Awaits(sign, "_DONE_%Y%m%d%H" if sign is WindowSignal.MARKER else "")

    def give(self, sign: WindowSignal, window: Window) -> None:
        if sign is WindowSignal.MARKER:
            self.source.parents[1].joinpath(f"_DONE_{window.start:%Y%m%d%H}").touch()
        else:
            self.put(window.end, [{"id": "1", "note": "n"}])


class JsonFolder(LandingFolder):
    """The same in JSON lines."""

    def put(self, stamp: datetime, rows: Sequence[Mapping[str, object]]) -> Path:
        path = self.file(stamp, "json")
        path.write_text("".join(json.dumps(dict(row)) + "\n" for row in rows))
        return path

    def put_unfinished(self, stamp: datetime) -> Path:
        path = self.file(stamp, "json")
        path.write_text('{"id": "1", "note": "n"}\n{"id": "2", "no')
        return path


class ParquetFolder(LandingFolder):
    """The same in Parquet."""

    def put(self, stamp: datetime, rows: Sequence[Mapping[str, object]]) -> Path:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.file(stamp, "parquet")
        content = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), content)
        path.write_bytes(content.getvalue())
        return path

    def put_unfinished(self, stamp: datetime) -> Path:
        path = self.put(stamp, [{"id": "1", "note": "n"}])
        path.write_bytes(path.read_bytes()[:-9])
        return path


class KindFolder(LandingFolder):
    """The same in a file format that needs a library, or options."""

    def __init__(self, folder: Path, kind: str) -> None:
        said: dict[str, dict[str, Value]] = {
            "json": {"multiline": True, "rows": "data.rows"},
            "xml": {"rows": "row"},
            "txt": {"positions": "id 1-20, note 21-"},
        }
        super().__init__(folder, **said.get(kind, {}))
        self.kind = kind

    def put(self, stamp: datetime, rows: Sequence[Mapping[str, object]]) -> Path:
        path = self.file(stamp, self.kind)
        path.write_bytes(getattr(self, f"_{self.kind}")([dict(row) for row in rows]))
        return path

    def put_unfinished(self, stamp: datetime) -> Path:
        if self.kind == "txt":  # such a file has no recognisable end
            path = self.file(stamp, "txt.part")
            path.write_bytes(b"1")
            return path
        path = self.put(stamp, [{"id": f"{at}", "note": f"{at * 7919}"} for at in range(50)])
        path.write_bytes(path.read_bytes()[:-30])
        return path

    def failing_midway(self) -> AbstractContextManager[None] | None:
        return None if self.kind == "txt" else newest_cut(self)

    @staticmethod
    def _json(rows: Sequence[dict[str, object]]) -> bytes:
        return json.dumps({"data": [{"rows": rows[:1]}, {"rows": rows[1:]}]}, indent=1).encode()

    @staticmethod
    def _xml(rows: Sequence[dict[str, object]]) -> bytes:
        root = ET.Element("rows")
        for row in rows:
            element = ET.SubElement(root, "row")
            for name, value in row.items():
                ET.SubElement(element, name).text = str(value)
        content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
        return content

    @staticmethod
    def _txt(rows: Sequence[dict[str, object]]) -> bytes:
        return "".join(f"{row['id']:20}{row['note']}\n" for row in rows).encode()

    @staticmethod
    def _avro(rows: Sequence[dict[str, object]]) -> bytes:
        import fastavro

        fields = [{"name": name, "type": "string"} for name in ("id", "note")]
        content = io.BytesIO()
        fastavro.writer(content, {"type": "record", "name": "row", "fields": fields}, rows)
        return content.getvalue()

    @staticmethod
    def _xlsx(rows: Sequence[dict[str, object]]) -> bytes:
        import openpyxl

        book = openpyxl.Workbook()
        for line in (["id", "note"], *([row["id"], row["note"]] for row in rows)):
            book.active.append(line)
        content = io.BytesIO()
        book.save(content)
        return content.getvalue()

    @staticmethod
    def _zip(rows: Sequence[dict[str, object]]) -> bytes:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("in/a.csv", csv_text(rows, ["id", "note"]))
        return content.getvalue()


class TimedFolder:
    """A landing folder whose rows have a time: each `put` is a file, stamped with its latest time."""

    def __init__(self, folder: Path, zone: str | None) -> None:
        self.inner = LandingFolder(folder, stamp_zone=zone or "UTC")
        self.connector = self.inner.connector
        self.setting = self.inner.setting
        self.unit = self.inner.unit
        self.secrets = self.inner.secrets
        self.zone_of_times = zone

    def failing_midway(self) -> AbstractContextManager[None] | None:
        return cut_once_listed(self)

    def put(self, rows: Sequence[tuple[str, datetime | None]]) -> None:
        latest = max(time for _, time in rows if time)
        told = [{"id": key, "at": "" if time is None else time.isoformat(sep=" ")} for key, time in rows]
        self.inner.put(latest.replace(microsecond=0, tzinfo=None), told)


class RevisedFolder(TimedFolder):
    """The same with files in succession: rows that are sent again are in a newer file."""

    change_column = None

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, None)
        self.stamp = datetime(2013, 1, 1, tzinfo=UTC)

    def put(self, rows: Sequence[tuple[str, datetime | None]]) -> None:
        self.stamp += timedelta(seconds=1)
        told = [{"id": key, "at": "" if time is None else time.isoformat(sep=" ")} for key, time in rows]
        self.inner.put(self.stamp, told)

    def revise(self, row: tuple[str, datetime]) -> None:
        self.put([row])


class HeldFolder:
    """A landing folder that receives a newer file with all rows each time."""

    def __init__(self, folder: Path) -> None:
        self.inner = LandingFolder(folder)
        self.connector = self.inner.connector
        self.setting = self.inner.setting
        self.unit = self.inner.unit
        self.secrets = self.inner.secrets
        self.count = 0

    def failing_midway(self) -> AbstractContextManager[None] | None:
        return cut_once_listed(self)

    def hold(self, rows: Sequence[Mapping[str, str]]) -> None:
        self.count += 1
        self.inner.put(datetime(2013, 1, self.count), rows)  # noqa: DTZ001 (a name has no zone)

    def remove(self) -> None:
        self.inner.folder.joinpath("new").rename(self.inner.folder / "elsewhere")


class PublishedFolder:
    """A folder as a destination."""

    secrets: Sequence[str] = ()

    def __init__(self, folder: Path, **options: Value) -> None:
        self.folder = folder / "out"
        self.folder.mkdir()
        self.connector: Connector = FILES
        self.setting = setting_of("out", folder, path="out")
        self.unit = unit_of("out", "daily.totals", **options)

    def rows(self) -> list[dict[str, Any]]:
        read: list[dict[str, Any]] = []
        for path in sorted(self.folder.joinpath("daily", "totals").glob("daily_totals*")):
            label = path.name.removeprefix("daily_totals").split(".")[0].removeprefix("_")
            found = self.content(path)
            assert all(row.get("timelabel", "") == label for row in found), path
            read.extend(found)
        return read

    @staticmethod
    def content(path: Path) -> list[dict[str, Any]]:
        if path.name.endswith(".avro"):
            import fastavro

            return [dict(row) for row in fastavro.reader(io.BytesIO(path.read_bytes())) if isinstance(row, dict)]
        if path.name.endswith(".xlsx"):
            import openpyxl

            head, *lines = openpyxl.load_workbook(io.BytesIO(path.read_bytes())).active.iter_rows(values_only=True)
            return [{str(name): value for name, value in zip(head, line, strict=True)} for line in lines]
        if path.name.endswith(".parquet"):
            import pyarrow.parquet as pq

            rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(path.read_bytes())).to_pylist()
            return rows
        text = gzip.decompress(path.read_bytes()).decode() if path.name.endswith(".gz") else path.read_text()
        if ".json" in path.name:
            return [json.loads(line) for line in text.splitlines()]
        return list(csv.DictReader(io.StringIO(text)))


class Tables:
    """Common parts of databases: a table `totals`, which a view can replace."""

    secrets: Sequence[str] = ()
    beside = "note"
    """The table's second column, next to `id`, as SQL."""
    no_row = ""
    """An SQL expression for `id` that raises an error."""

    def run(self, sql: str, *values: Any) -> Any:
        raise NotImplementedError

    @contextmanager
    def failing_midway(self) -> Iterator[None]:
        last = "id = (SELECT max(id) FROM whole)"
        self.run("ALTER TABLE totals RENAME TO whole")
        self.run(
            f"CREATE VIEW totals AS SELECT CASE WHEN {last} THEN {self.no_row} ELSE id END AS id, {self.beside}"
            " FROM whole"
        )
        try:
            yield
        finally:
            self.run("DROP VIEW totals")
            self.run("ALTER TABLE whole RENAME TO totals")

    def awaits(self, sign: WindowSignal) -> Awaits:
        self.run("CREATE TABLE IF NOT EXISTS signs (label TEXT)")
        return Awaits(sign, "SELECT count(*) FROM signs WHERE label = :timelabel")

    def give(self, sign: WindowSignal, window: Window) -> None:
        self.awaits(sign)
        self.run(f"INSERT INTO signs VALUES ('{window.label}')")


class SqliteDatabase(Tables):
    """A SQLite database."""

    no_row = "json(id || '{')"
    zone_of_times: str | None = "UTC"

    def __init__(self, folder: Path, **options: Value) -> None:
        self.path = folder / "ops.sqlite"
        self.connector: Connector = SQLITE
        self.setting = setting_of("ops", folder, path="ops.sqlite", timeout=0.2)
        self.unit = unit_of("ops", "totals", **options)
        self.run("CREATE TABLE unrelated (x)")

    def run(self, sql: str, rows: Sequence[Sequence[Any]] = ()) -> list[Any]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            if rows:
                connection.executemany(sql, rows)
                return []
            return connection.execute(sql).fetchall()

    def rows(self) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.row_factory = sqlite3.Row
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'totals'").fetchone():
                return []
            return [dict(row) for row in connection.execute("SELECT * FROM totals")]

    def hold(self, rows: Sequence[Mapping[str, str]]) -> None:
        self.run("CREATE TABLE IF NOT EXISTS totals (id TEXT, note TEXT)")
        self.run("DELETE FROM totals")
        self.run("INSERT INTO totals VALUES (?, ?)", [(row["id"], row["note"]) for row in rows])

    def remove(self) -> None:
        self.path.unlink()


class DuckDatabase(Tables):
    """A DuckDB database."""

    no_row = "error(id)"

    zone_of_times: str | None = None

    def __init__(self, folder: Path, **options: Value) -> None:
        self.path = folder / "ops.duckdb"
        self.connector: Connector = DUCKDB
        self.setting = setting_of("ops", folder, path="ops.duckdb", timeout=0.2)
        self.unit = unit_of("ops", "totals", **options)
        self.run("CREATE TABLE unrelated (x INT)")

    def run(self, sql: str, *values: Any) -> list[Any]:
        import duckdb

        with closing(duckdb.connect(str(self.path))) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.execute(sql, values or None).fetchall()

    def rows(self) -> list[dict[str, Any]]:
        if not self.run("SELECT 1 FROM information_schema.tables WHERE table_name = 'totals'"):
            return []
        names = [row[0] for row in self.run("DESCRIBE SELECT * FROM totals")]
        return [dict(zip(names, row, strict=True)) for row in self.run("SELECT * FROM totals")]

    def hold(self, rows: Sequence[Mapping[str, str]]) -> None:
        self.run("CREATE OR REPLACE TABLE totals (id VARCHAR, note VARCHAR)")
        for row in rows:
            self.run("INSERT INTO totals VALUES (?, ?)", row["id"], row["note"])

    def remove(self) -> None:
        self.path.unlink()


class TimedDuck(DuckDatabase):
    """A database whose rows have a time, of one of the types of `times`: timestamptz, timestamp or bigint."""

    beside = '"at"'

    def __init__(self, folder: Path, times: str) -> None:
        super().__init__(folder)
        self.times = times
        self.zone_of_times = "America/New_York" if times == "timestamp" else None
        self.run(f"CREATE TABLE totals (id VARCHAR, at {times})".replace(" at ", ' "at" '))

    def put(self, rows: Sequence[tuple[str, datetime | None]]) -> None:
        for key, time in rows:
            told: object = time
            if time is not None and self.times == "bigint":
                told = int(time.timestamp())
            self.run("INSERT INTO totals VALUES (?, ?)", key, told)


class PostgresDatabase(Tables):
    """A schema of a PostgreSQL database, with `totals` in it, and a password."""

    secrets = ("password",)
    no_row = "pg_terminate_backend(pg_backend_pid())::text"

    zone_of_times: str | None = None

    def __init__(self, folder: Path, **options: Value) -> None:
        self.server = server()
        self.schema = self.server.fresh_schema()
        self.server.run(f"CREATE SCHEMA {self.schema}; CREATE TABLE {self.schema}.unrelated (x int)")
        self.connector: Connector = POSTGRES
        self.setting = setting_of(
            "ops", folder, url=self.server.url_of(KEEPER), password=WORD, schema=self.schema, timeout=0.2
        )
        self.unit = unit_of("ops", "totals", **options)

    def run(self, sql: str, *values: Any) -> list[Any]:
        with closing(self.server.connect()) as connection:
            connection.execute(f"SET search_path = {self.schema}")
            cursor = connection.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    def rows(self) -> list[dict[str, Any]]:
        [(found,)] = self.run("SELECT to_regclass('totals')")
        if found is None:
            return []
        with closing(self.server.connect()) as connection:
            cursor = connection.execute(f"SELECT * FROM {self.schema}.totals")
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def hold(self, rows: Sequence[Mapping[str, str]]) -> None:
        self.run("DROP TABLE IF EXISTS totals; CREATE TABLE totals (id TEXT, note TEXT)")
        self.run(
            "INSERT INTO totals SELECT * FROM unnest(%s::text[], %s::text[])",
            [row["id"] for row in rows],
            [row["note"] for row in rows],
        )

    def remove(self) -> None:
        self.run(f"DROP SCHEMA {self.schema} CASCADE")


class FollowedPostgres(PostgresDatabase):
    """A database whose table is followed by its log; `decoder` is the output plugin."""

    def __init__(self, folder: Path, decoder: str) -> None:
        needs_wal2json()
        super().__init__(folder, decoder=decoder)
        self.run("CREATE TABLE totals (id TEXT PRIMARY KEY, note TEXT)")
        self._names = (f"waterclock_{self.schema}_{number}" for number in itertools.count())

    def put(self, rows: Mapping[str, str]) -> None:
        values = ", ".join(f"('{key}', '{note}')" for key, note in rows.items())
        self.run(f"INSERT INTO totals VALUES {values} ON CONFLICT (id) DO UPDATE SET note = excluded.note")

    def delete(self, *ids: str) -> None:
        self.run("DELETE FROM totals WHERE id = ANY(%s)", list(ids))

    @contextmanager
    def failing_midway(self) -> Iterator[None]:
        """Terminate the connection that reads rows, once there is a slot."""
        real = vars(postgres_collection)["batches"]

        def batches(connection: Any, *values: Any, **named: Any) -> Any:
            self.server.run(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
            return real(connection, *values, **named)

        vars(postgres_collection)["batches"] = batches
        try:
            yield
        finally:
            vars(postgres_collection)["batches"] = real

    def lose(self) -> None:
        drop_all_slots()

    def name(self) -> str:
        return next(self._names)


class TimedPostgres(PostgresDatabase):
    """A database whose rows have a time, of one of the types of `times`: timestamptz, timestamp or bigint."""

    beside = "at"

    def __init__(self, folder: Path, times: str) -> None:
        super().__init__(folder)
        self.times = times
        self.zone_of_times = "America/New_York" if times == "timestamp" else None
        self.run(f"CREATE TABLE totals (id TEXT, at {times})")

    def put(self, rows: Sequence[tuple[str, datetime | None]]) -> None:
        for key, time in rows:
            told: object = time
            if time is not None and self.times == "bigint":
                told = int(time.timestamp())
            self.run("INSERT INTO totals VALUES (%s, %s)", key, told)


class MysqlDatabase(Tables):
    """A database of a MariaDB server, with `totals` in it, and a password."""

    secrets = ("password",)
    no_row = "(SELECT one.id FROM whole AS one WHERE one.id IS NOT NULL OR one.id = whole.id)"  # more than one row

    zone_of_times: str | None = None

    def __init__(self, folder: Path, **options: Value) -> None:
        self.server = mariadb.server()
        self.name = self.server.fresh_database()
        self.run("CREATE TABLE unrelated (x int)")
        self.connector: Connector = MYSQL
        url = self.server.url(self.name, mariadb.KEEPER)
        self.setting = setting_of("ops", folder, url=url, password=mariadb.WORD, timeout=10)
        self.unit = unit_of("ops", "totals", **options)

    def run(self, sql: str, *values: Any) -> list[Any]:
        return self.server.run(sql, *values, database=self.name)

    def rows(self) -> list[dict[str, Any]]:
        if not self.run("SHOW TABLES LIKE 'totals'"):
            return []
        with closing(self.server.connect(self.name)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT * FROM totals")
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def hold(self, rows: Sequence[Mapping[str, str]]) -> None:
        self.run("CREATE OR REPLACE TABLE totals (id TEXT, note TEXT)")
        for row in rows:
            self.run("INSERT INTO totals VALUES (%s, %s)", row["id"], row["note"])

    def remove(self) -> None:
        self.run(f"DROP DATABASE {self.name}")


class TimedMysql(MysqlDatabase):
    """A database whose rows have a time, of one of the types of `times`: timestamp, datetime or bigint."""

    beside = "at"

    def __init__(self, folder: Path, times: str) -> None:
        super().__init__(folder)
        self.times = times
        self.zone_of_times = "America/New_York" if times == "datetime" else None
        self.run(f"CREATE TABLE totals (id TEXT, at {times} NULL)")

    def put(self, rows: Sequence[tuple[str, datetime | None]]) -> None:
        for key, time in rows:
            told: object = time
            if time is not None and self.times == "bigint":
                told = int(time.timestamp())
            self.run("INSERT INTO totals VALUES (%s, %s)", key, told)


class FirebirdDatabase(Tables):
    """A database of a Firebird server, with `totals` in it, and a password."""

    secrets = ("password",)
    zone_of_times: str | None = None

    def __init__(self, folder: Path, **options: Value) -> None:
        self.server = firebird.server()
        self.name = self.server.fresh_database()
        self.run("CREATE TABLE unrelated (x integer)")
        self.connector: Connector = FIREBIRD
        url = self.server.url(self.name)
        self.setting = setting_of("ops", folder, url=url, password=firebird.WORD, timeout=10)
        self.unit = unit_of("ops", "totals", **options)

    def run(self, sql: str, *values: Any) -> list[Any]:
        return self.server.run(sql, *values, database=self.name)

    def rows(self) -> list[dict[str, Any]]:
        names = self.run("SELECT TRIM(RDB$FIELD_NAME) FROM RDB$RELATION_FIELDS WHERE RDB$RELATION_NAME = 'TOTALS'")
        if not names:
            return []
        listed = [name for (name,) in names]
        quoted = ", ".join(f'"{name}"' for name in listed)
        found = self.run(f"SELECT {quoted} FROM totals")
        return [dict(zip(map(str.lower, listed), row, strict=True)) for row in found]

    def hold(self, rows: Sequence[Mapping[str, str]]) -> None:
        self.run("RECREATE TABLE totals (id VARCHAR(40), note VARCHAR(40))")
        for row in rows:
            self.run("INSERT INTO totals VALUES (?, ?)", row["id"], row["note"])

    def remove(self) -> None:
        self.server.path(self.name).rename(self.server.path(f"{self.name}_gone"))

    @contextmanager
    def failing_midway(self) -> Iterator[None]:
        """Add a text that is not UTF-8 to the table's newest row: this is noticed only when it is read."""
        self.run("ALTER TABLE totals ADD broken VARCHAR(9) CHARACTER SET NONE")
        self.run("UPDATE totals SET broken = CAST(x'FF' AS VARCHAR(9) CHARACTER SET NONE)")
        try:
            yield
        finally:
            self.run("ALTER TABLE totals DROP broken")

    def awaits(self, sign: WindowSignal) -> Awaits:
        if not self.run("SELECT 1 FROM RDB$RELATIONS WHERE RDB$RELATION_NAME = 'SIGNS'"):
            self.run("CREATE TABLE signs (label VARCHAR(20))")
        return Awaits(sign, "SELECT count(*) FROM signs WHERE label = :timelabel")


class TimedFirebird(FirebirdDatabase):
    """A database whose rows have a time, of one of the types of `times`: timestamp or bigint."""

    def __init__(self, folder: Path, times: str = "timestamp") -> None:
        super().__init__(folder)
        self.times = times
        self.zone_of_times = "America/New_York" if times == "timestamp" else None
        self.run(f'CREATE TABLE totals (id VARCHAR(40), "AT" {times})')

    def put(self, rows: Sequence[tuple[str, datetime | None]]) -> None:
        for key, time in rows:
            told: object = time
            if time is not None and self.times == "bigint":
                told = int(time.timestamp())
            self.run("INSERT INTO totals VALUES (?, ?)", key, told)


class RevisedFirebird(FirebirdDatabase):
    """The same with the time of the last change in each row."""

    change_column: str | None = "changed"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stamp = datetime(2013, 2, 1)  # noqa: DTZ001 - as the database stores it
        self.run('CREATE TABLE totals (id VARCHAR(40), "AT" TIMESTAMP, changed TIMESTAMP)')

    def put(self, rows: Sequence[tuple[str, datetime]]) -> None:
        self.stamp += timedelta(seconds=1)
        for key, time in rows:
            self.run("INSERT INTO totals VALUES (?, ?, ?)", key, time.replace(tzinfo=None), self.stamp)

    def revise(self, row: tuple[str, datetime]) -> None:
        self.stamp += timedelta(seconds=1)
        self.run("UPDATE totals SET changed = ? WHERE id = ?", self.stamp, row[0])


class TimedDatabase(SqliteDatabase):
    """A database whose rows have a time, in one of the formats of `times`: text, zoned or epoch."""

    beside = "at"

    def __init__(self, folder: Path, times: str) -> None:
        super().__init__(folder)
        self.times = times
        self.zone_of_times = "America/New_York" if times == "text" else None
        self.run("CREATE TABLE totals (id TEXT, at)")

    def put(self, rows: Sequence[tuple[str, datetime | None]]) -> None:
        told = [(key, None if time is None else self._told(time)) for key, time in rows]
        self.run("INSERT INTO totals VALUES (?, ?)", told)

    def _told(self, time: datetime) -> object:
        return int(time.timestamp()) if self.times == "epoch" else time.isoformat(sep=" ")


class RevisedDatabase(SqliteDatabase):
    """A database whose rows have the time of their last change."""

    change_column = "changed"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.run("CREATE TABLE totals (id TEXT, at TEXT, changed TEXT)")
        self.changed = datetime(2013, 1, 2, tzinfo=UTC)

    def put(self, rows: Sequence[tuple[str, datetime]]) -> None:
        for key, time in rows:
            self.run(f"INSERT INTO totals VALUES ('{key}', '{time.isoformat(sep=' ')}', '{self._now()}')")

    def revise(self, row: tuple[str, datetime]) -> None:
        self.run(f"UPDATE totals SET changed = '{self._now()}' WHERE id = '{row[0]}'")

    def _now(self) -> str:
        self.changed += timedelta(seconds=1)
        return self.changed.isoformat(sep=" ")


class RevisedPostgres(PostgresDatabase):
    """A database whose rows have an old time of their last change: one of the current second is read twice."""

    change_column = "changed"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.run("CREATE TABLE totals (id TEXT, at timestamptz, changed timestamptz)")
        self.changed = datetime(2013, 1, 2, tzinfo=UTC)

    def put(self, rows: Sequence[tuple[str, datetime]]) -> None:
        for key, time in rows:
            self.run("INSERT INTO totals VALUES (%s, %s, %s)", key, time, self._now())

    def revise(self, row: tuple[str, datetime]) -> None:
        self.run("UPDATE totals SET changed = %s WHERE id = %s", self._now(), row[0])

    def _now(self) -> datetime:
        self.changed += timedelta(seconds=1)
        return self.changed


class Endpoint:
    """A folder of events with the stream `orders`, written to as the receiver does."""

    secrets: Sequence[str] = ()  # its token is required from senders, not from a collect

    def __init__(self, folder: Path) -> None:
        self.connector: Connector = RECEIVER
        self.setting = setting_of("door", folder, path="door")
        self.unit = unit_of("door", "orders")
        self.folder = folder / "door" / "orders"

    def put(self, stamp: datetime, rows: Sequence[Mapping[str, object]]) -> None:
        self.write(stamp, rows)
        seal(self.folder, EPOCH)

    def put_unfinished(self, stamp: datetime) -> None:
        self.write(stamp, [{"id": "9", "note": "n"}])
        (path,) = self.folder.glob("closed-*")
        path.write_bytes(path.read_bytes()[:-4])
        seal(self.folder, EPOCH)

    def write(self, stamp: datetime, rows: Sequence[Mapping[str, object]]) -> None:
        writer = SegmentWriter(self.folder, lambda at: at + timedelta(hours=1), lambda: stamp)
        kept = events_of(json.dumps(list(rows)).encode())
        writer.append([kept.body(None, None, has_raw=False)])
        writer.end()

    def failing_midway(self) -> AbstractContextManager[None] | None:
        return newest_cut(self)
