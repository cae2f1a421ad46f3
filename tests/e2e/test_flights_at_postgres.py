"""The flights example with ledger, source and destination in PostgreSQL, configured only by its project file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from examples.flights import make_data, oracle
from tests.flights import put_flights
from tests.postgres import Server, server
from waterclock.cli.app import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

DAYS, NOW = 1, "2013-01-02T05:00Z"
PROD = """
[env.prod]
storage = ".waterclock-prod"
publish = true
ledger = {{ secret = "ledger_url" }}
connections.landing = {{ path = "data/new" }}
connections.out = {{ path = "data/out" }}
connections.ops = {{ type = "postgres", url = "{url}", schema = "{ops}" }}
connections.reports = {{ type = "postgres", url = "{url}", schema = "{reports}" }}
"""
# columns that SQLite stores as text and numbers
KINDS = {
    "is_retired": "boolean", "updated_at": "timestamptz", "year": "int", "seats": "int", "engines": "int",
    "speed": "int", "lat": "double precision", "lon": "double precision", "alt": "int", "tz": "numeric(4,1)",
}  # fmt: skip


@dataclass
class Site:
    """The example and the schemas of its environment `prod`."""

    folder: Path
    server: Server
    ops: str
    reports: str

    def ask(self, command: str, *arguments: str) -> Any:
        """Run a command in the environment `prod` and return its JSON output."""
        done = CliRunner().invoke(app, [command, *arguments, "--json", "--env", "prod", "--project", str(self.folder)])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Site:  # noqa: ARG001 - used indirectly
    folder = put_flights(tmp_path_factory.mktemp("flights"))
    make_data.put_days(folder / "data", make_data.FIRST_DAY, DAYS)
    at = server()
    site = Site(folder, at, at.fresh_schema(), at.fresh_schema())
    at.run(f"CREATE SCHEMA {site.ops}; CREATE SCHEMA {site.reports}")
    with closing(sqlite3.connect(folder / "data" / "ops.sqlite")) as database:
        for table in ("airlines", "airports", "planes"):
            _copy(database, table, at, site.ops)
    with (folder / "waterclock.toml").open("a", encoding="utf-8") as file:
        file.write(PROD.format(url=at.url, ops=site.ops, reports=site.reports))
    (folder / "secrets").mkdir()
    (folder / "secrets" / "ledger_url").write_text(at.ledger_url() + "\n")
    assert site.ask("run", "--now", NOW)["failed"] == []
    return site


def _copy(database: sqlite3.Connection, table: str, at: Server, schema: str) -> None:
    names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    listed = ", ".join(f"{name} {KINDS.get(name, 'text')}" for name in names)
    at.run(f"CREATE TABLE {schema}.{table} ({listed})")
    marks = ", ".join(["%s"] * len(names))
    with closing(at.connect()) as connection:
        for row in database.execute(f"SELECT * FROM {table}"):
            told = [None if value is None else str(value) for value in row]
            connection.execute(f"INSERT INTO {schema}.{table} VALUES ({marks})", told)


@pytest.fixture(scope="module")
def tables(site: Site) -> dict[str, list[dict[str, Any]]]:
    """Return the tables' answers to the oracle's questions."""
    found = {}
    for question in oracle.QUESTIONS:
        told = site.ask("query", question.asked, "--limit", "1000000")
        names = [column["name"] for column in told["columns"]]
        found[question.table] = [dict(zip(names, row, strict=True)) for row in told["rows"]]
    return found


@pytest.mark.parametrize("table", [question.table for question in oracle.QUESTIONS])
def test_a_table_equals_the_result_of_duckdb_over_the_raw_files(
    tables: dict[str, list[dict[str, Any]]], table: str
) -> None:
    wanted = oracle.expected(table, DAYS)
    assert len(tables[table]) == len(wanted)
    for row, right in zip(tables[table], wanted, strict=True):
        assert row == {
            name: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for name, value in right.items()
        }


@pytest.mark.parametrize("name", oracle.PUBLISHED)
def test_a_published_table_equals_the_result_of_duckdb_over_the_raw_files(site: Site, name: str) -> None:
    table, query = oracle.PUBLISHED[name]
    with closing(site.server.connect()) as connection:
        connection.execute(f"SET search_path = {site.reports}; SET TIME ZONE 'UTC'")
        cursor = connection.execute(
            query.replace("last_seen,", "to_char(last_seen, 'YYYY-MM-DD HH24:MI') AS last_seen,")
        )
        names = [column.name for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    wanted = oracle.expected(table, DAYS)
    assert [
        {key: float(value) if isinstance(value, Decimal) else value for key, value in row.items()} for row in rows
    ] == [
        {name: pytest.approx(value) if isinstance(value, float) else value for name, value in row.items()}
        for row in wanted
    ]


def test_the_grid_and_the_audit_come_from_the_shared_ledger(site: Site) -> None:
    grid = site.ask("status", "--now", NOW)
    states = {row["table"]: [cell["state"] for cell in row["cells"]] for row in grid["rows"]}
    assert states.pop("clean.flights") == ["warned"]
    assert all(cells == ["ok"] for cells in states.values())
    story = json.dumps(site.ask("audit", "clean.flights@20130101050000"))
    assert "raw.weather" in story
    assert not (site.folder / ".waterclock-prod" / "ledger.db").exists()


def test_all_that_the_environment_leads_to_answers(site: Site) -> None:
    told = site.ask("check", "--connect")
    assert told["ok"]
    kinds = [each["kind"] for each in told["connections"]]
    assert (kinds[:2], kinds[-1]) == (["ledger", "storage"], "spark")
    assert {"source", "destination"} < set(kinds)


def test_a_second_run_finds_nothing_due(site: Site) -> None:
    assert site.ask("run", "--now", NOW)["done"] == 0


def test_the_ledger_is_rebuilt_from_its_export_and_the_commits(site: Site) -> None:
    before = site.ask("status", "--now", NOW)
    site.ask("ledger", "export")
    told = site.ask("ledger", "rebuild", "--force")
    assert told["aside"].startswith("schema t_")
    assert site.ask("status", "--now", NOW)["rows"] == before["rows"]
    assert site.ask("run", "--now", NOW)["done"] == 0


def test_the_ledger_moves_to_a_file_and_back_with_nothing_lost(site: Site) -> None:
    at_first = site.ask("status", "--now", NOW)["rows"]
    url = (site.folder / "secrets" / "ledger_url").read_text().strip()
    file = f"sqlite:///{site.folder / 'moved' / 'ledger.db'}"

    told = site.ask("ledger", "move", file)
    assert (told["old"], told["new"]) == (url, file)
    for command in ("run", "status"):
        refused = CliRunner().invoke(app, [command, "--now", NOW, "--env", "prod", "--project", str(site.folder)])
        assert refused.exit_code != 0
        assert "E425" in refused.output
        assert f'set ledger = "{file}"' in refused.output

    (site.folder / "secrets" / "ledger_url").write_text(file)
    assert site.ask("status", "--now", NOW)["rows"] == at_first
    assert site.ask("run", "--now", NOW)["done"] == 0
    again = server().ledger_url()
    assert site.ask("ledger", "move", again)["batches"] == told["batches"]
    (site.folder / "secrets" / "ledger_url").write_text(again)
    assert site.ask("status", "--now", NOW)["rows"] == at_first
    assert site.ask("run", "--now", NOW)["done"] == 0
