from __future__ import annotations

import csv
import gzip
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from examples.flights import make_data, oracle
from tests.flights import put_flights
from tests.terminals import terminal
from waterclock.cli.app import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def waterclock(project: Path, command: str, *arguments: str) -> str:
    """Run one command in a process of its own and return its output; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "waterclock", command, *arguments, "--project", str(project)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"COLUMNS": "160", "NO_COLOR": "1"},
    )
    assert done.returncode == 0, f"waterclock {command} gave {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def ask(project: Path, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query by `waterclock query --json`, on the existing Spark session."""
    done = CliRunner().invoke(app, ["query", query, "--json", "--limit", "1000000", "--project", str(project)])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    return [dict(zip((column["name"] for column in told["columns"]), row, strict=True)) for row in told["rows"]]


def published(project: Path, query: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(project / "data" / "reports.sqlite")) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(query)]


def assert_same(rows: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Assert that rows are equal and in the same order, except for the last digits of sums of fractions."""
    assert len(rows) == len(wanted)
    for row, right in zip(rows, wanted, strict=True):
        assert row == {
            name: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for name, value in right.items()
        }


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.soak)])
def days(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def now(days: int) -> str:
    """Return the end of the last day in New York."""
    return f"2013-01-{1 + days:02d}T05:00Z"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, days: int, now: str, *, is_long: bool) -> Path:
    """Return the example after some days, run as in the demo on a terminal; `now` steps through every due instant.

    In the tests of every day it starts four hours before the end of the last day, and has to catch up with all days.
    """
    folder = put_flights(tmp_path_factory.mktemp("flights"))
    make_data.put_days(folder / "data", make_data.FIRST_DAY, days)
    first = "2013-01-01T05:00Z" if is_long else f"2013-01-{1 + days:02d}T01:00Z"
    run = ["run", "--now", first, "--until", now, "--project", str(folder)]
    with terminal([sys.executable, "-m", "waterclock", *run]) as window:
        said = window.ends(timeout=900)
    assert window.process.returncode == 0, said
    return folder


@pytest.fixture(scope="module")
def answers(project: Path, spark: SparkSession) -> dict[str, list[dict[str, Any]]]:  # noqa: ARG001 - used indirectly
    """Return the tables' answers to the oracle's questions, and the counts of batches."""
    asked = {question.table: question.asked for question in oracle.QUESTIONS}
    asked["batches"] = "SELECT table, status, count(*) AS n FROM waterclock.batches GROUP BY table, status"
    return {name: ask(project, query) for name, query in asked.items()}


@pytest.mark.parametrize("table", [question.table for question in oracle.QUESTIONS])
def test_a_table_equals_the_result_of_duckdb_over_the_raw_files(
    answers: dict[str, list[dict[str, Any]]], days: int, table: str
) -> None:
    assert_same(answers[table], oracle.expected(table, days))


@pytest.mark.parametrize("name", oracle.PUBLISHED)
def test_a_published_table_equals_the_result_of_duckdb_over_the_raw_files(project: Path, days: int, name: str) -> None:
    table, query = oracle.PUBLISHED[name]

    rows = published(project, query)

    for row in rows:
        if "last_seen" in row:
            row["last_seen"] = row["last_seen"][:16].replace("T", " ")
    assert_same(rows, oracle.expected(table, days))


def test_published_files_hold_the_delays_of_the_day_that_their_name_and_their_rows_say(
    project: Path, days: int
) -> None:
    published_days = {}
    for file in sorted((project / "data" / "out" / "delays").glob("delays_*.csv.gz")):
        with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
            label = file.name.removeprefix("delays_").removesuffix(".csv.gz")
            rows = list(csv.DictReader(text))
            assert {row["timelabel"] for row in rows} == {label}
            published_days[label] = sorted((row["carrier"], int(row["late"])) for row in rows)

    wanted: dict[str, list[tuple[str, int]]] = {}
    for row in oracle.expected("marts.delays", days):
        wanted.setdefault(row["timelabel"], []).append((row["carrier"], row["late"]))
    assert published_days == wanted


def test_every_due_batch_is_done(answers: dict[str, list[dict[str, Any]]], days: int) -> None:
    tables = {table.table for table in oracle.QUESTIONS} | {f"reports.{name}" for name in oracle.PUBLISHED}

    assert {(row["table"], row["status"], row["n"]) for row in answers["batches"]} == {
        (table, "done", 24 * days if table == "raw.weather" else days) for table in tables | {"out.delays"}
    }


def test_the_grid_shows_every_cell_as_ok_but_a_warning_where_weather_was_missing(
    project: Path, days: int, now: str
) -> None:
    grid = json.loads(waterclock(project, "status", "--now", now, "--json"))

    states = {row["table"]: [cell["state"] for cell in row["cells"]] for row in grid["rows"]}
    assert [column["local"] for column in grid["columns"]] == [f"2013-01-{day:02d}" for day in range(1, 1 + days)]
    assert states.pop("clean.flights") == ["warned", *["ok"] * (days - 1)]
    assert all(cells == ["ok"] * days for cells in states.values())


def test_a_second_run_finds_nothing_due(project: Path, now: str) -> None:
    said = waterclock(project, "run", "--now", now)

    assert "nothing is due" in said
    assert "✓" not in said


def test_the_audit_of_a_day_names_all_that_it_was_made_from(project: Path) -> None:
    story = waterclock(project, "audit", "clean.flights@20130102050000", "--json")

    assert json.loads(story)
    for part in ("raw.flights", "raw.weather", "943"):
        assert part in story
