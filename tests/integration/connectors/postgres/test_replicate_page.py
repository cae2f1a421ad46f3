"""The page on replicating a database: its statements and commands run against a real server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs.console import Shell, commands_of, differences
from tests.postgres import drop_all_slots, needs_wal2json, server
from tests.replicas import past_all_windows
from tests.tiny import Tiny
from waterclock.cli.actions import run
from waterclock.connectors.postgres.connector import PostgresCollector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAGE = Path(__file__).parents[4] / "docs" / "howto" / "replicate-a-database.md"
TOML = """
[project]
name = "{{name}}"
[defaults]
start = "2030-01-01"
[env.dev]
storage = "{{storage}}"
connections.shop = {{{{ url = "{url}" }}}}
"""


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(PostgresCollector, "clock", past_all_windows)
    monkeypatch.setattr(run, "_check_times", lambda *_: None)  # windows of changes made now are in the future
    yield
    drop_all_slots()


class Page:
    """Runs the page's commands in a project's folder, and reports output that differs from the page."""

    def __init__(self, folder: Path) -> None:
        page = PAGE.read_text(encoding="utf-8")
        self.folder = folder
        self.flows = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        self.printed = {command.text: command.printed for command in commands_of(page)}
        self.wrong: list[str] = []

    def declare(self, flow: str) -> None:
        (self.folder / "flows" / "flow.dpl").write_text(flow, encoding="utf-8")

    def run(self, text: str, more: str = "") -> tuple[str, ...]:
        with Shell({}, is_warm=True) as shell:
            shell.run(f"cd {self.folder}")
            printed = tuple(re.sub(r"_[0-9a-f]{12}\b", "_…", line) for line in shell.run(f"{text}{more}"))
        if missing := differences(self.printed.get(text) or ("...",), printed):
            self.wrong.append("\n".join([f"$ {text}", *(f"- {line}" for line in missing), *printed]))
        return printed


def test_the_statements_and_commands_of_the_page_work_as_documented(tmp_path: Path, spark: SparkSession) -> None:
    needs_wal2json()
    at = server()
    at.run("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    at.run("CREATE TABLE prices (sku text PRIMARY KEY, price int)")
    at.run("INSERT INTO orders SELECT n, 'first' FROM generate_series(1, 3) AS n")
    at.run("INSERT INTO prices VALUES ('pen', 2)")
    tiny = Tiny(tmp_path, spark, toml=TOML.format(url=at.url))
    page = Page(tiny.root)
    first, versions, again = page.flows
    try:
        page.declare(first + versions)
        page.run("waterclock run", " --now 2030-01-01T00:05Z")
        for change in (
            "UPDATE orders SET name = 'second' WHERE id = 2",
            "DELETE FROM orders WHERE id = 3",
            "UPDATE prices SET price = 3",
            "UPDATE prices SET price = 4",
        ):
            at.run(change)
        page.run("waterclock run", " --now 2030-01-01T00:10Z")
        assert tiny.rows("SELECT id, name FROM shop.orders ORDER BY ALL") == [(1, "first"), (2, "second")]
        assert tiny.rows("SELECT price FROM shop.prices ORDER BY rec_eff_time") == [(2,), (3,), (4,)]
        assert any("holds back" in line for line in page.run("waterclock show shop.orders --rows 0"))
        drop_all_slots()
        at.run("DELETE FROM orders WHERE id = 1")
        page.declare(first)
        assert any("E860" in line for line in page.run("waterclock run", " --now 2030-01-01T00:15Z"))
        page.declare(f"CREATE CONNECTION shop TYPE postgres;\n{again}")
        page.run("waterclock retry shop.orders", " --now 2030-01-01T00:15Z")
        assert tiny.rows("SELECT id, name FROM shop.orders") == [(2, "second")]
        page.declare("CREATE CONNECTION shop TYPE postgres;")
        assert len(at.run("SELECT slot_name FROM pg_replication_slots")) == 1
        kept = json.loads("".join(page.run("waterclock status --json")))["kept_at_sources"]
        assert {(each["table"], each["is_needed"]) for each in kept} >= {("shop.orders", False)}
        page.run("waterclock maintain")
        assert at.run("SELECT slot_name FROM pg_replication_slots") == []
        assert not page.wrong, "\n\n".join(page.wrong)
    finally:
        at.run("DROP TABLE orders, prices")
