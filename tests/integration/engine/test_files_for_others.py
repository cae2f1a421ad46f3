"""Engines without Delta read a table: by its manifest, by lists of files, or by the folders of its labels."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest
from typer.testing import CliRunner

from tests.tiny import Tiny, day, described, labels
from waterclock.cli.app import app
from waterclock.engine.maintenance.maintain import find_maintenance, maintain_table
from waterclock.storage.file_maintenance import optimize
from waterclock.storage.log.identity import Identity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLLECT = "COLLECT {} (id BIGINT, v BIGINT, at TIMESTAMP) FROM shop.facts {} EVERY DAY BY DATA TIME at {};"
MANIFEST = "OPTIONS (manifest 'symlink')"
FLOW = "\n".join(
    (
        COLLECT.format("raw.parts PARTITIONED", MANIFEST, "RETAIN 30 DAYS"),
        COLLECT.format("raw.appended", MANIFEST, "APPEND"),
        COLLECT.format("raw.merged", MANIFEST, "MERGE ON (id) ORDER BY at"),
        f"TRANSFORM raw.sums {MANIFEST} AS SELECT id, sum(v) AS v FROM raw.appended GROUP BY id;",
    )
)
TABLES = ("raw.parts", "raw.appended", "raw.merged", "raw.sums")


def row(number: int, of_day: int, value: int) -> tuple[int, int, str]:
    return number, value, f"2020-01-{of_day:02d} 12:00:00"


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Tiny:
    """Return four days, of which the first was restated and the second emptied."""
    tiny = Tiny(tmp_path_factory.mktemp("files"), spark)
    tiny.declare(FLOW)
    rows = [row(1, 1, 10), row(2, 1, 10), row(1, 2, 20), row(3, 3, 30)]
    tiny.source("facts", "id INTEGER, v INTEGER, at TEXT", rows)
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    tiny.source("facts", "id INTEGER, v INTEGER, at TEXT", [row(1, 1, 11), row(3, 3, 30), row(4, 4, 40)])
    with tiny.ledger() as ledger:
        for name in TABLES[:3]:
            ledger.decisions.request_restate(name, [day(1), day(2)], "recollect", who="a test")
    outcome = tiny.run(day(5))
    assert not outcome.failed, described(outcome)
    return tiny


def ask(tiny: Tiny, *arguments: str) -> str:
    told = CliRunner().invoke(app, [*arguments, "--project", str(tiny.root)])
    assert told.exit_code == 0, told.output
    return told.stdout


def asked(sql: str, of: object) -> list[Any]:
    found = duckdb.sql(sql, params=[of])
    assert found is not None
    return found.fetchall()


def by_all(paths: list[str]) -> list[tuple[Any, ...]]:
    """Return the rows (id, v) of some files; DuckDB, pyarrow and Polars must agree on them."""
    found = sorted(asked("SELECT id, v FROM read_parquet(?, hive_partitioning = false)", paths))
    arrow = ds.dataset(paths, format="parquet").to_table(columns=["id", "v"]).to_pylist()
    assert sorted((each["id"], each["v"]) for each in arrow) == found
    assert sorted(pl.scan_parquet(paths).select("id", "v").collect().rows()) == found
    return found


def manifest(tiny: Tiny, name: str) -> list[str]:
    folder = tiny.root / ".waterclock" / "tables" / name.replace(".", "/") / "_symlink_format_manifest"
    return [line.removeprefix("file://") for at in folder.rglob("manifest") for line in at.read_text().splitlines()]


def test_the_manifest_and_the_file_list_contain_the_rows_of_a_query(lived: Tiny) -> None:
    for name in TABLES:
        answer = sorted(lived.rows(f"SELECT id, v FROM {name}"))
        assert by_all(ask(lived, "files", name).splitlines()) == answer, name
        assert by_all(manifest(lived, name)) == answer, name
    assert len(lived.rows("SELECT * FROM raw.parts")) == 3
    everything = f"{lived.root}/.waterclock/tables/raw/parts/_stage/**/*.parquet"
    assert len(asked("SELECT * FROM read_parquet(?)", everything)) > 3  # including replaced ones


def test_files_as_of_a_tick_contain_the_rows_of_the_table_at_that_tick(lived: Tiny) -> None:
    from waterclock.engine.query.query import query
    from waterclock.engine.query.ticks import RequestedTick

    told = CliRunner().invoke(app, ["files", "raw.merged", "--as-of", "2020-01-02", "-p", str(lived.root)])
    assert "E435" in told.output  # the second day was restated: no version contains its state until a query makes it
    for name in TABLES:
        for tick in ("2020-01-04", "latest", *(["2020-01-02"] if name != "raw.sums" else [])):
            with lived.opened() as work:
                answer = query(work, f"SELECT id, v FROM {name}", limit=100, as_of=RequestedTick(tick)).rows
            told = json.loads(ask(lived, "files", name, "--as-of", tick, "--json"))
            assert by_all([each["path"] for each in told["files"]]) == sorted(answer), (name, tick)


def test_a_hive_style_catalogue_knows_the_current_place_of_each_label(lived: Tiny, spark: SparkSession) -> None:
    statements = ask(lived, "files", "raw.parts", "--format", "hive").replace("raw.parts", "raw_parts_hive")
    session = spark.newSession()
    parts = ", ".join(f"{name} STRING" for name in "ymdhn")
    session.sql(
        f"CREATE TABLE raw_parts_hive (id BIGINT, v BIGINT, at TIMESTAMP, {parts})"
        f" USING parquet PARTITIONED BY (y, m, d, h, n) LOCATION '{lived.root}/nothing'"
    )
    try:
        for _ in range(2):  # a repetition is harmless
            for statement in statements.splitlines():
                session.sql(statement.rstrip(";"))
        found = session.sql("SELECT concat(y, m, d, h, n, '00'), id, v FROM raw_parts_hive ORDER BY ALL").collect()
    finally:
        session.sql("DROP TABLE raw_parts_hive")
    assert list(map(tuple, found)) == lived.rows("SELECT timelabel, id, v FROM raw.parts ORDER BY ALL")
    assert labels(2)[0][:8] not in re.sub(r"DROP.*", "", statements)  # the second day is empty
    assert CliRunner().invoke(app, ["files", "raw.merged", "--format", "hive", "-p", str(lived.root)]).exit_code == 1


def test_ours_is_the_manifest_that_delta_would_write(lived: Tiny, tmp_path: Path, spark: SparkSession) -> None:
    shutil.copytree(lived.root / ".waterclock" / "tables" / "raw" / "parts", tmp_path / "parts")
    shutil.rmtree(tmp_path / "parts" / "_symlink_format_manifest")
    spark.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{tmp_path}/parts`")
    theirs = {
        str(at.relative_to(tmp_path / "parts")): {line.rpartition("_stage/")[2] for line in at.read_text().split()}
        for at in (tmp_path / "parts" / "_symlink_format_manifest").rglob("manifest")
    }
    root = lived.root / ".waterclock" / "tables" / "raw" / "parts"
    ours = {
        str(at.relative_to(root)): {line.rpartition("_stage/")[2] for line in at.read_text().split()}
        for at in (root / "_symlink_format_manifest").rglob("manifest")
    }
    assert ours == theirs


@pytest.mark.soak
def test_maintain_repairs_manifests_and_removes_undeclared_ones(lived: Tiny, tmp_path: Path) -> None:
    tiny = lived.copied(tmp_path / "copy")  # elsewhere: the paths in its manifests are those of the original
    with tiny.opened() as work:
        folder = work.lake.folder("raw.appended")
        optimize(work.sessions.own(), folder, (), Identity("tiny", "raw.appended", "optimize", (), "", 0, ""))
        found = {each.table: each for each in find_maintenance(work, TABLES, day(6))}
        assert found["raw.parts"].manifests == 3
        for each in found.values():
            maintain_table(work, each, day(6))
            assert not each.failed
        assert not [each.manifests for each in find_maintenance(work, TABLES, day(6)) if each.manifests]
    for name in TABLES:
        assert by_all(manifest(tiny, name)) == sorted(tiny.rows(f"SELECT id, v FROM {name}"))
        assert all(str(tmp_path) in path for path in manifest(tiny, name))
    tiny.declare(FLOW.replace(MANIFEST, ""))
    with tiny.opened() as work:
        for each in find_maintenance(work, TABLES, day(6)):
            maintain_table(work, each, day(6))
    assert manifest(tiny, "raw.parts") == []
