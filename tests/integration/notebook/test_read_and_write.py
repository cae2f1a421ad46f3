"""Python code reads sources and writes destinations, with a project's connections and options."""

from __future__ import annotations

import io
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import waterclock as wc
from waterclock.errors import ProjectErrors, WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SETTINGS = """
[project]
name = "shop"
[env.dev]
publish = true
connections.landing = { path = "new" }
connections.out = { path = "out" }
connections.ops = { path = "ops.sqlite" }
[env.quiet]
connections.landing = { path = "new" }
connections.out = { path = "out" }
connections.ops = { path = "ops.sqlite" }
"""
FLOW = """
CREATE CONNECTION landing TYPE files;
CREATE CONNECTION out TYPE files;
CREATE CONNECTION ops TYPE sqlite;
COLLECT shop.orders PARTITIONED FROM landing.acme.orders EVERY DAY START '2026-01-01' BY ARRIVAL TIME;
PUBLISH shop.orders TO out.orders;
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(SETTINGS)
    (tmp_path / "flows" / "shop.dpl").write_text(FLOW)
    landed = tmp_path / "new" / "acme" / "orders"
    landed.mkdir(parents=True)
    (landed / "acme_orders_2026_01_01_12_00_00.csv").write_text("id;at\n1;2026-01-01 08:00:00\n")
    (landed / "acme_orders_2026_01_02_12_00_00.csv").write_text("id;at\n2;2026-01-02 08:00:00\n3;\n")
    return tmp_path


@pytest.mark.usefixtures("spark")
def test_files_are_read_as_a_collect_reads_them(project: Path) -> None:
    columns = "id INT, at TIMESTAMP, file AS (_source.file), line AS (_source.row)"
    options = {"delimiter": ";"}
    frame = wc.read("landing.acme.orders", columns=columns, options=options, zone="Asia/Tokyo", project=project)
    assert frame.columns == ["id", "at", "file", "line"]
    found = [(row.id, row.at and row.at.isoformat(), row.file, row.line) for row in frame.orderBy("id").collect()]
    name = "acme_orders_2026_01_02_12_00_00.csv"
    assert found == [(2, "2026-01-01T23:00:00", name, 2), (3, None, name, 3)]
    assert not list(project.rglob("*_delta_log")), "nothing of it is kept"


@pytest.mark.usefixtures("spark")
def test_a_zip_is_read_and_nothing_is_left_open(project: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("a.csv", "id\n1\n")
    (project / "new" / "a.zip").write_bytes(content.getvalue())
    frame = wc.read("landing.`*.zip`", project=project)
    assert not list(project.rglob("_unpacked/*"))
    assert [row.id for row in frame.where("id > 0").collect()] == ["1"]


def test_a_database_is_read_by_a_query_and_written_in_each_mode(project: Path, spark: SparkSession) -> None:
    with closing(sqlite3.connect(project / "ops.sqlite")) as base, base:
        base.execute("CREATE TABLE items (id INTEGER, n INTEGER)")
        base.executemany("INSERT INTO items VALUES (?, ?)", [(1, 10), (2, 20)])
    frame = wc.read("ops QUERY 'SELECT id, n FROM items WHERE n > 10'", project=project)
    assert [tuple(row) for row in frame.collect()] == [(2, 20)]
    for mode, key, rows, expected in (
        ("replace", (), "(1, 'a'), (2, 'b')", [(1, "a"), (2, "b")]),
        ("replace", (), "(3, 'c')", [(3, "c")]),
    ):
        told = wc.write(_frame(spark, rows), "ops.totals", mode=mode, key=key, project=project)
        assert (told.rows, "outside of the ledger" in repr(told)) == (len(expected), True)
        assert _rows(project, "SELECT id, note FROM totals") == expected
    wc.write(_frame(spark, "(1, 'a'), (2, 'b')"), "ops.merged", mode="merge", key="id", project=project)
    wc.write(_frame(spark, "(2, 'c'), (3, 'd')"), "ops.merged", mode="merge", key="id", project=project)
    assert _rows(project, "SELECT id, note FROM merged") == [(1, "a"), (2, "c"), (3, "d")]
    for _ in range(2):
        wc.write(_frame(spark, "(1, 'a')"), "ops.added", mode="append", project=project)
    assert len(set(_rows(project, "SELECT id, note, timelabel FROM added"))) == 2
    assert not list((project / ".").rglob("notebook/*/*.parquet"))


def test_files_are_written_with_the_options_of_a_publish(project: Path, spark: SparkSession) -> None:
    wc.write(_frame(spark, "(1, 'é')"), "out.daily.notes", options={"format": "json"}, project=project)
    assert (project / "out" / "daily" / "notes" / "daily_notes.json").read_text() == '{"id": 1, "note": "é"}\n'
    wc.write(_frame(spark, "(1, 'é')"), "out.daily.sheet", options={"format": "excel"}, project=project)
    assert wc.read("out.`daily/sheet/*.xlsx`", project=project).collect()[0].note == "é"


def test_unsupported_reads_and_writes_of_a_notebook_are_refused(project: Path, spark: SparkSession) -> None:
    frame = _frame(spark, "(1, 'a')")
    refused: list[tuple[str, dict[str, Any]]] = [
        ("out.orders", {}),
        ("out.other", {"env": "quiet"}),
        ("out.other", {"mode": "merge", "key": "id"}),
        ("ops.other", {"mode": "merge"}),
    ]
    for destination, said in refused:
        with pytest.raises(WaterclockError) as caught:
            wc.write(frame, destination, project=project, **said)
        assert caught.value.code == "E339", destination
    for source, options in (("lnding.x.y", {}), ("landing.x.y", {"delimter": ";"}), ("landing", {})):
        with pytest.raises(ProjectErrors):
            wc.read(source, options=options, project=project)


@pytest.mark.usefixtures("spark")
def test_a_broken_file_is_reported_with_the_same_error_as_in_a_batch(project: Path) -> None:
    (project / "new" / "a.xml").write_text('<!DOCTYPE r [<!ENTITY a "b">]><r><i/></r>')
    with pytest.raises(WaterclockError) as caught:
        wc.read("landing.`a.xml`", options={"rows": "i"}, project=project)
    assert caught.value.code == "E880"


def _frame(spark: SparkSession, rows: str) -> DataFrame:
    return spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, note)")


def _rows(project: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(project / "ops.sqlite")) as base:
        return sorted(base.execute(query).fetchall())
