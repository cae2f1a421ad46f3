"""Parts of a destination: rows of a condition, versions, and labels in separate tables behind a view."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tests.tiny import Tiny, day, described, labels
from waterclock.cli.app import app
from waterclock.engine.maintenance.maintain import find_maintenance, maintain_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT raw.parts PARTITIONED (id BIGINT, v BIGINT, land STRING, at TIMESTAMP) FROM shop.facts
  EVERY DAY BY DATA TIME at RETAIN 2 DAYS KEEP VERSIONS 7 DAYS;
TRANSFORM raw.lands AS SELECT land, sum(v) AS v FROM HISTORY(raw.parts) GROUP BY land;
TRANSFORM raw.own AS SELECT * FROM raw.lands WHERE land IN ('DE', 'FR');
PUBLISH raw.own TO out.lands REPLACE WHERE land IN ('DE', 'FR');
PUBLISH raw.lands TO out.versions OPTIONS (behind 'view');
PUBLISH raw.parts TO out.labels OPTIONS (behind 'view');
PUBLISH raw.lands TO out.refused REPLACE WHERE land = 'DE';
"""
COLUMNS = "id INTEGER, v INTEGER, land TEXT, at TEXT"


def at(number: int) -> str:
    return f"2020-01-{number:02d} 12:00:00"


def test_rows_that_are_not_of_the_condition_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(FLOW)
    tiny.source("facts", COLUMNS, [(1, 10, "DE", at(1)), (2, 20, "US", at(1)), (3, 30, "FR", at(1))])
    outcome = tiny.run(day(2))
    assert [report.group.table for report in outcome.failed] == ["out.refused"], described(outcome)
    error = outcome.failed[0].error
    assert error is not None
    assert (error.code, "REPLACE WHERE: 2 of 3 rows violate (land = 'DE')" in error.what) == ("E740", True)
    assert sorted(tiny.delivered("SELECT land, v FROM lands")) == [("DE", 10), ("FR", 30)]
    assert not tiny.delivered("SELECT 1 FROM sqlite_master WHERE name = 'refused'")


def test_versions_and_labels_are_published_as_views_and_dropped_windows_are_removed(
    tmp_path: Path, spark: SparkSession
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare("\n".join(line for line in FLOW.splitlines() if "WHERE" not in line))
    tiny.source("facts", COLUMNS, [(number, 10, "DE", at(number)) for number in range(1, 6)])
    for number in (3, 6):
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)
    assert sorted(tiny.delivered("SELECT id, timelabel FROM labels")) == list(enumerate(labels(1, 2, 3, 4, 5), 1))
    assert tiny.delivered("SELECT * FROM versions") == [("DE", 20)]  # of the days within RETAIN
    versions = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name LIKE '\\_versions\\_v%' ESCAPE '\\'"
    assert tiny.delivered(versions) == [(2,)]
    much_later = datetime.now(UTC) + timedelta(days=60)
    for _ in range(2):  # first the windows of the table, then their published rows
        with tiny.opened() as work:
            for each in find_maintenance(work, ["raw.parts", "out.labels"], much_later):
                maintain_table(work, each, much_later)
                assert not each.failed
    kept = labels(4, 5)
    assert [row[0] for row in tiny.delivered("SELECT timelabel FROM labels ORDER BY 1")] == kept
    assert [row[0] for row in tiny.rows("SELECT timelabel FROM raw.parts ORDER BY 1")] == kept
    tiny.source("facts", COLUMNS, [(6, 10, "DE", at(6))])
    outcome = tiny.run(day(7))
    assert not outcome.failed, described(outcome)
    assert [row[0] for row in tiny.delivered("SELECT timelabel FROM labels ORDER BY 1")] == [*kept, *labels(6)]


def ask(tiny: Tiny, *arguments: str) -> tuple[int, str]:
    now = ["--now", "2020-01-06", "--yes", "--why", "a test"]
    told = CliRunner().invoke(app, ["drop", *arguments, *now, "-p", str(tiny.root)], env={"COLUMNS": "200"})
    return told.exit_code, told.output


def test_windows_are_dropped_by_hand_as_retain_does(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.declare(
        "COLLECT raw.parts PARTITIONED (id BIGINT, v BIGINT, land STRING, at TIMESTAMP) FROM shop.facts"
        " OPTIONS (manifest 'symlink') EVERY DAY BY DATA TIME at;"
        "TRANSFORM raw.sums PARTITIONED AS SELECT sum(v) AS v FROM PAST(raw.parts, '1 day');"
        "COLLECT raw.kept (id BIGINT, at TIMESTAMP) FROM shop.facts EVERY DAY BY DATA TIME at APPEND;"
        "TRANSFORM raw.all AS SELECT count(*) AS n FROM raw.kept;"
        "PUBLISH raw.parts TO out.labels OPTIONS (behind 'view');"
    )
    tiny.source("facts", COLUMNS, [(number, 10, "DE", at(number)) for number in range(1, 6)])
    outcome = tiny.run(day(6))
    assert not outcome.failed, described(outcome)
    for which, said in (
        ("raw.parts", "no labels"),
        ("raw.parts@2020-01-02..2020-01-03", "from its oldest label on"),
        ("raw.parts@..2020-01-05", "keeps its newest label"),
        ("raw.kept@..2020-01-02", "is still read from"),
        ("raw.all@..2020-01-02", "has no windows to drop"),
    ):
        code, output = ask(tiny, which)
        assert (code, "E436" in output, said in output) == (1, True, True), output
    before = sorted(tiny.rows("SELECT timelabel, v FROM raw.sums"))
    code, output = ask(tiny, "raw.parts@..2020-01-03")
    assert (code, "3 labels" in output, "3 tables behind views" in output) == (0, True, True), output
    kept = labels(4, 5)
    assert [row[0] for row in tiny.rows("SELECT timelabel FROM raw.parts ORDER BY 1")] == kept
    assert [row[0] for row in tiny.delivered("SELECT timelabel FROM labels ORDER BY 1")] == kept
    manifests = (tiny.root / ".waterclock/tables/raw/parts/_symlink_format_manifest").glob("timelabel=*")
    assert sorted(each.name for each in manifests) == [f"timelabel={label}" for label in kept]
    with tiny.ledger() as ledger:
        events = [row for row in ledger.past.rows("events") if row["kind"] == "dropped"]
    assert len(events) == 1
    assert "a test" in str(events[0])
    assert tiny.run(day(6)).done == 0  # batches made from them stay
    assert sorted(tiny.rows("SELECT timelabel, v FROM raw.sums")) == before
