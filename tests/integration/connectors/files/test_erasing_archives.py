"""A collect reads from a rewritten archive the same rows as before, except those of erased persons."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.stores import fresh_bucket
from tests.systems import setting_of, unit_of
from waterclock.connectors.files.connector import FilesCollector
from waterclock.connectors.original_erasure import Subjects
from waterclock.files.filesystem import entry_path, files_below, open_for_writing, read_bytes
from waterclock.flow.declarations import Column, Columns, Place, Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Place("flows/test.dpl", 1, 1)
DAY = datetime(2013, 1, 1, tzinfo=UTC)
PERSONS = frozenset({"42", "7", "0042", 'o\'hara, "x"', "é"})
NUMBERS = ["42", "042", "+7", "-7", "4", "420", ""]
TEXTS = ["42", "0042", "7 ", 'o\'hara, "x"', "é", "e", "two\nlines", ""]
Write = Callable[[list[tuple[str, str]]], bytes]


def _csv(delimiter: str = ",", quote: str = '"', encoding: str = "utf-8", **how: bool) -> Write:
    def quoted(text: str) -> str:
        if not text or not (set(text) & {delimiter, quote, "\n", '"', " "}):
            return text
        return quote + text.replace(quote, quote * 2) + quote

    def write(rows: list[tuple[str, str]]) -> bytes:
        lines = [
            delimiter.join(map(quoted, row)) for row in [("v", "id"), *rows][0 if how.get("header", True) else 1 :]
        ]
        return ("\n".join(lines) + "\n").encode(encoding)

    return write


def _json_lines(rows: list[tuple[str, str]]) -> bytes:
    return "".join(f"{json.dumps({'v': v, 'id': key or None}, ensure_ascii=False)}\n" for v, key in rows).encode()


def _documents(rows: list[tuple[str, str]]) -> bytes:
    half = len(rows) // 2
    records = [{"id": key or None, "v": v} for v, key in rows]
    documents = [{"at": 1, "data": {"items": part}} for part in (records[:half], records[half:])]
    return "".join(f"{json.dumps(document, ensure_ascii=False)}\n" for document in documents).encode()


def _parquet(rows: list[tuple[str, str]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": [v for v, _ in rows], "id": [key for _, key in rows]}), sink, row_group_size=11)
    return sink.getvalue()


def _fixed(rows: list[tuple[str, str]]) -> bytes:
    return "".join(f"{key:6}{v}\n" for v, key in rows).encode()


FORMS: list[tuple[str, Write, dict[str, Value]]] = [
    ("a.csv", _csv(), {}),
    ("a.csv.gz", lambda rows: gzip.compress(_csv(";", "'")(rows)), {"delimiter": ";", "quote": "'"}),
    ("a.csv", _csv(header=False), {"header": False}),
    ("a.csv", _csv(encoding="utf-16"), {"encoding": "UTF-16"}),
    ("a.csv", _csv(encoding="cp1252"), {"encoding": "windows-1252"}),
    ("a.tsv", _csv("\t"), {}),
    ("a.jsonl", _json_lines, {}),
    ("a.json", lambda rows: b"[" + b",\n".join(_json_lines(rows).split(b"\n")[:-1]) + b"]", {"multiline": True}),
    ("a.json", _documents, {"rows": "data.items"}),
    ("a.parquet", _parquet, {}),
    ("a.txt", _fixed, {"positions": "id 1-6, v 7-"}),
]


def archived(folder: Path, name: str) -> Path:
    (folder / "landing").mkdir(exist_ok=True)
    path = folder / "storage" / "archive" / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["BIGINT", "STRING"])
@pytest.mark.parametrize(("name", "write", "options"), FORMS)
def test_a_collect_reads_the_rows_of_all_others(
    spark: SparkSession, tmp_path: Path, name: str, write: Write, options: dict[str, Value], kind: str
) -> None:
    chance = random.Random(f"{name}{options}{kind}")
    keys = NUMBERS if kind == "BIGINT" else TEXTS
    if name.endswith(".txt") or (kind == "BIGINT" and name.endswith(".parquet")):
        keys = [key for key in keys if "\n" not in key and len(key) < 6 and key]
    rows = [(f"v{at}", chance.choice(keys)) for at in range(200)]
    path = archived(tmp_path, name)
    path.write_bytes(write(rows))
    collector, unit = (
        FilesCollector(setting_of("landing", tmp_path, path="landing")),
        unit_of("landing", name, **options),
    )
    columns = Columns((Column("v", HERE, type="STRING"), Column("id", HERE, type=kind)), is_open=False)

    def read() -> Counter[tuple[Any, Any]]:
        items = {DAY: collector.arrivals(unit).items}
        frame = collector.read_items(spark, unit, items, columns, "UTC").frame
        return Counter((row[0], row[1]) for row in frame.selectExpr("v", "CAST(id AS STRING)").collect())

    before = read()
    assert sum(before.values()) == 200
    found = list(collector.erase_originals(unit, columns, Subjects({"ID": kind}, PERSONS.__contains__)))
    after = read()
    assert after == Counter({row: count for row, count in before.items() if row[1] not in PERSONS})
    assert 0 < len(after) < 200
    assert [(one.removed, one.unread, one.problem) for one in found] == [(200 - len(after), 0, "")]


@pytest.mark.slow
def test_a_file_in_a_bucket_keeps_its_arrival(tmp_path: Path) -> None:
    archive = entry_path(fresh_bucket(), "archive")
    (tmp_path / "landing").mkdir()
    setting = setting_of("landing", tmp_path, path="landing", archive=str(archive))
    with open_for_writing(archive / "in" / "a.csv.gz") as file:
        file.write(gzip.compress(b"id\n42\n1\n"))
    collector, unit = FilesCollector(setting), unit_of("landing", "in/*.csv.gz")
    (before,) = collector.arrivals(unit).items
    (done,) = collector.erase_originals(unit, Columns(), Subjects({"id": None}, {"42"}.__contains__))
    assert (done.removed, done.problem) == (1, "")
    assert gzip.decompress(read_bytes(archive / "in" / "a.csv.gz")) == b"id\n1\n"
    (after,) = collector.find(unit, [before.name])
    assert after.stamp == before.stamp
    assert after.earlier_sizes == frozenset({before.size})
    assert not [each.path for each in files_below(archive) if each.path.endswith(".part")]
