"""The peers in bench/connect: code that a good engineer writes by hand, and dlt if it supports the source.

The hand-written code only reads the rows and writes a Delta table, or reads Parquet and writes to the destination. It
uses Spark if that has a reader, or else the system's client library, Arrow and delta-rs.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from connect_rows import DAY, DDL, NAMES, PAGE, START, TYPES, WIDTHS, as_text
from deltalake import DeltaTable, write_deltalake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ARROW = {"BIGINT": pa.int64(), "INT": pa.int32(), "DOUBLE": pa.float64(), "STRING": pa.string()}
SCHEMA = pa.schema([(name, _ARROW.get(kind, pa.timestamp("us", "UTC"))) for name, kind in TYPES.items()])
_TOLD = pa.schema([field if field.name != "at" else pa.field("at", pa.string()) for field in SCHEMA])


def label_of(day: int) -> str:
    return f"{START + day * DAY:%Y%m%d%H%M%S}"


def timed(batch: pa.RecordBatch | pa.Table) -> Any:
    """Convert the times in rows from texts to instants."""
    at = batch.schema.get_field_index("at")
    parsed = pc.strptime(batch["at"], format="%Y-%m-%dT%H:%M:%SZ", unit="us")
    return batch.set_column(at, "at", pc.assume_timezone(parsed, "UTC"))


# ---- sources


def files_by_spark(spark: SparkSession, kind: str, paths: list[str], target: Path, day: int) -> None:
    reader = spark.read.schema(DDL)
    if kind == "csv.gz":
        frame = reader.options(header=True).csv(paths)
    elif kind == "json":
        frame = reader.json(paths)
    elif kind == "parquet":
        frame = spark.read.parquet(*paths)
    elif kind == "xml":
        frame = reader.option("rowTag", "row").xml(paths)
    else:
        fields, first = [], 1
        for name, width in WIDTHS.items():
            fields.append(f"CAST(rtrim(substring(value, {first}, {width})) AS {TYPES[name]}) AS {name}")
            first += width
        frame = spark.read.text(paths).selectExpr(*fields)
    labelled = frame.selectExpr("*", f"'{label_of(day)}' AS timelabel")
    labelled.write.format("delta").mode("append").save(str(target))


def avro_by_hand(paths: list[str], target: Path, _: int) -> None:
    import fastavro

    for path in paths:
        with Path(path).open("rb") as file:
            write_deltalake(target, timed(pa.Table.from_pylist(list(fastavro.reader(file)), _TOLD)), mode="append")


def xlsx_by_hand(paths: list[str], target: Path, _: int) -> None:
    from python_calamine import CalamineWorkbook

    for path in paths:
        head, *rows = CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()
        columns = [pa.array(list(values)) for values in zip(*rows, strict=True)]
        told = pa.table(columns, names=[str(name) for name in head]).cast(_TOLD)
        write_deltalake(target, timed(told), mode="append")


def sqlite_by_hand(path: Path, sql: str, target: Path, mode: str) -> None:
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:  # delta-rs reads in another thread
        cursor = connection.execute(sql)

        def batches() -> Iterator[pa.RecordBatch]:
            while rows := cursor.fetchmany(50_000):
                arrays = [pa.array(list(v), f.type) for v, f in zip(zip(*rows, strict=True), _TOLD, strict=True)]
                yield timed(pa.record_batch(arrays, schema=_TOLD))

        write_deltalake(target, pa.RecordBatchReader.from_batches(SCHEMA, batches()), mode=mode)


def postgres_by_hand(connection: Any, sql: str, target: Path, mode: str) -> None:
    read = io.BytesIO()
    with connection.cursor().copy(f"COPY ({sql}) TO STDOUT (FORMAT csv)") as copy:
        for piece in copy:
            read.write(piece)
    read.seek(0)
    options = pcsv.ConvertOptions(column_types=SCHEMA, timestamp_parsers=["%Y-%m-%d %H:%M:%S%z", pcsv.ISO8601])
    table = pcsv.read_csv(read, pcsv.ReadOptions(column_names=list(NAMES)), convert_options=options)
    write_deltalake(target, table, mode=mode)


def duckdb_by_hand(path: Path, target: Path) -> None:
    import duckdb

    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        write_deltalake(target, connection.sql("SELECT * FROM held").to_arrow_reader(100_000), mode="overwrite")


def changes_by_hand(connection: Any, slot: str, target: Path) -> None:
    """Read a replication slot with wal2json, and merge the last row of each key into a Delta table."""
    latest: dict[int, dict[str, Any]] = {}
    sql = "SELECT data FROM pg_logical_slot_get_changes(%s, NULL, NULL, 'format-version', '2')"
    for (data,) in connection.execute(sql, (slot,)):
        change = json.loads(data)
        if change["action"] in {"I", "U"}:
            row = {column["name"]: column["value"] for column in change["columns"]}
            row["at"] = datetime.fromisoformat(row["at"]).astimezone(UTC)
            latest[row["id"]] = row
    rows = pa.Table.from_pylist(list(latest.values()), SCHEMA)
    if not DeltaTable.is_deltatable(str(target)):
        write_deltalake(target, rows)
        return
    merging = DeltaTable(target).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


def api_by_hand(url: str, target: Path, day: int) -> None:
    import httpx2

    rows: list[dict[str, Any]] = []
    page: int | None = 1
    with httpx2.Client() as client:
        while page is not None:
            asked = {"since": f"{START + day * DAY:%Y-%m-%dT%H:%M:%SZ}", "page": page, "limit": PAGE}
            answer = client.get(f"{url}/events", params=asked).raise_for_status().json()
            rows += answer["data"]
            page = answer["next"]
    write_deltalake(target, timed(pa.Table.from_pylist(rows, _TOLD)), mode="append")


class Reader:
    """Reads a topic with the client library, each time from the last position to the end."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._config = {"bootstrap.servers": servers, "group.id": "by-hand", "isolation.level": "read_committed"}
        self._topic = topic
        self._reached = dict.fromkeys(range(partitions), 0)

    def read(self, target: Path, *, is_raw: bool) -> None:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(self._config)
        ends = {
            part: consumer.get_watermark_offsets(TopicPartition(self._topic, part), timeout=10)[1]
            for part in self._reached
        }
        consumer.assign([TopicPartition(self._topic, part, at) for part, at in self._reached.items()])
        left = sum(ends[part] - at for part, at in self._reached.items())
        found: list[Any] = []
        while len(found) < left:
            found += consumer.consume(min(10_000, left - len(found)), 1)
        consumer.close()
        self._reached = ends
        if is_raw:
            told = pa.table(
                {
                    "key": [message.key() for message in found],
                    "value": [message.value() for message in found],
                    "partition": [message.partition() for message in found],
                    "offset": [message.offset() for message in found],
                    "timestamp": [message.timestamp()[1] for message in found],
                }
            )
        else:
            told = timed(pa.Table.from_pylist([json.loads(message.value()) for message in found], _TOLD))
        write_deltalake(target, told, mode="append")


# ---- destinations


def origin(paths: list[str], day: int) -> pa.Table:
    rows = pa.concat_tables(pq.read_table(path) for path in paths)
    return rows.append_column("timelabel", pa.repeat(pa.scalar(label_of(day)), rows.num_rows))


def csv_out(paths: list[str], target: Path, day: int) -> None:
    pcsv.write_csv(as_text(origin(paths, day)), target / f"{day}.csv")


def json_out(spark: SparkSession, paths: list[str], target: Path, day: int) -> None:
    frame = spark.read.parquet(*paths).selectExpr("*", f"'{label_of(day)}' AS timelabel")
    frame.write.json(str(target / f"{day}.json"))


def sqlite_out(path: Path, paths: list[str], day: int) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS by_hand ({', '.join(NAMES)}, timelabel)")
        for batch in as_text(origin(paths, day)).to_batches():
            values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            connection.executemany(f"INSERT INTO by_hand VALUES ({', '.join('?' * (len(NAMES) + 1))})", values)


def duckdb_out(path: Path, paths: list[str], day: int) -> None:
    import duckdb

    with closing(duckdb.connect(str(path))) as connection:
        rows = f"SELECT *, '{label_of(day)}' AS timelabel FROM read_parquet({paths})"
        connection.execute(f"CREATE TABLE IF NOT EXISTS by_hand AS {rows} LIMIT 0")
        connection.execute(f"INSERT INTO by_hand {rows}")


def postgres_out(connection: Any, table: str, paths: list[str], day: int) -> None:
    made = io.BytesIO()
    pcsv.write_csv(as_text(origin(paths, day)), made, pcsv.WriteOptions(include_header=False))
    with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy:
        copy.write(made.getvalue())


def api_out(url: str, paths: list[str], day: int) -> None:
    import httpx2

    rows = as_text(origin(paths, day)).to_pylist()
    with httpx2.Client() as client:
        for at in range(0, len(rows), PAGE):
            client.post(f"{url}/take", json=rows[at : at + PAGE]).raise_for_status()


def kafka_out(servers: str, topic: str, paths: list[str], day: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "transactional.id": "by-hand", "linger.ms": 20})
    producer.init_transactions(30)
    producer.begin_transaction()
    for row in as_text(origin(paths, day)).to_pylist():
        value, key = json.dumps(row).encode(), str(row["id"]).encode()
        while True:
            try:
                producer.produce(topic, value, key)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    producer.flush(60)
    producer.commit_transaction(30)


# ---- dlt


class Dlt:
    """Runs pipelines of dlt, which write Delta tables below a folder. dlt is optional and not a dependency."""

    def __init__(self, folder: Path) -> None:
        os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
        os.environ["RUNTIME__LOG_LEVEL"] = "ERROR"
        import dlt

        self._dlt = dlt
        self._folder = folder
        self._pipelines: dict[str, Any] = {}

    def run(self, name: str, resource: Any, disposition: str) -> None:
        if name not in self._pipelines:
            self._pipelines[name] = self._dlt.pipeline(
                name,
                pipelines_dir=str(self._folder / "pipelines"),
                destination=self._dlt.destinations.filesystem((self._folder / "tables").as_uri()),
                dataset_name=name,
            )
        told = {"table_name": "rows", "write_disposition": disposition, "table_format": "delta"}
        self._pipelines[name].run(resource, **told).raise_on_failed_jobs()

    def files(self, kind: str, folder: str, _: int) -> None:
        from dlt.sources.filesystem import filesystem, read_csv, read_jsonl, read_parquet

        readers = {"csv.gz": read_csv, "json": read_jsonl, "parquet": read_parquet}
        listed = filesystem(bucket_url=Path(folder).as_uri(), file_glob=f"*.{kind}")
        more = {"parse_dates": ["at"]} if kind == "csv.gz" else {}
        self.run(f"files_{kind.replace('.', '_')}", listed | readers[kind](**more), "append")

    def database(self, name: str, url: str, table: str, schema: str | None, day: int | None) -> None:
        from dlt.sources.sql_database import sql_table

        more: dict[str, Any] = {}
        if day is not None:
            low, high = START + day * DAY, START + (day + 1) * DAY
            told = [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in (low, high)] if url.startswith("sqlite") else [low, high]
            more["incremental"] = self._dlt.sources.incremental("at", initial_value=told[0], end_value=told[1])
        resource = sql_table(credentials=url, table=table, schema=schema, backend="pyarrow", **more)
        self.run(name, resource, "replace" if day is None else "append")

    def api(self, url: str, day: int) -> None:
        from dlt.sources.rest_api import rest_api_resources

        endpoint = {
            "path": "events",
            "params": {"since": f"{START + day * DAY:%Y-%m-%dT%H:%M:%SZ}", "limit": PAGE},
            "data_selector": "data",
            "paginator": {"type": "page_number", "base_page": 1, "total_path": None, "stop_after_empty_page": True},
        }
        asked = {"client": {"base_url": url}, "resources": [{"name": "events", "endpoint": endpoint}]}
        self.run("api", rest_api_resources(asked), "append")
