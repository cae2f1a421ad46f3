"""The examples in docstrings of public functions: declarations pass `check`, and commands return the results shown."""

from __future__ import annotations

import doctest
import inspect
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import waterclock as wc
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.dpl.python import decorators

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOML = """
[project]
name = "shop"
[vars]
least = 10
[roles]
analyst = ["query"]
[users.anna]
roles = ["analyst"]
attributes.customer = "Anna"
[env.dev]
storage = ".waterclock"
publish = true
connections.shop = { path = "shop.sqlite" }
connections.reports = { path = "reports.sqlite", create = true }
"""
FLOW = """
CREATE CONNECTION shop TYPE sqlite;
CREATE CONNECTION reports TYPE sqlite;
COLLECT raw.orders PARTITIONED (id BIGINT KEY, at TIMESTAMP, customer STRING, amount INT) FROM shop.orders
  EVERY DAY START '2026-01-01' BY DATA TIME at;
"""
CUSTOMERS = "COLLECT raw.customers (name STRING KEY, city STRING) FROM shop.customers EVERY DAY REPLACE;"
MODEL = FLOW.replace("customer STRING", "customer STRING REFERENCES raw.customers") + CUSTOMERS
SUMS = "TRANSFORM marts.sums PARTITIONED AS SELECT sum(amount) AS total FROM raw.orders WHERE timelabel = TIMELABEL();"
SPECIFICATION = """
Feature: Sums
  Scenario: two orders of a day
    Given the table raw.orders at 2026-01-01
      | id | customer | amount |
      | 1  | Anna     | 3      |
      | 2  | Ben      | 4      |
    When marts.sums runs at 2026-01-01
    Then marts.sums is
      | total |
      | 7     |
"""
ORDERS = [(1, "2026-01-01 08:00:00", "Anna", 10), (2, "2026-01-02 08:00:00", "Ben", 20),
          (3, "2026-01-03 08:00:00", "Anna", 30)]  # fmt: skip
PUBLIC = [name for name in wc.__all__ if name not in {"DataFrame", "__version__"}]
DECLARATIONS = [name for name in PUBLIC if getattr(wc, name).__module__ == decorators.__name__]
COMMANDS = (
    "check", "plan", "run", "status", "query", "diff", "resolve", "read", "write", "spec", "mask_text", "key_of",
    "Window",
)  # fmt: skip


def examples_of(name: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.getdoc(getattr(wc, name)) or "", name)


def project(root: Path, flow: str) -> Path:
    (root / "flows").mkdir(parents=True)
    (root / "waterclock.toml").write_text(TOML)
    (root / "flows" / "flow.dpl").write_text(flow)
    return root


def test_every_public_name_has_examples_and_describes_its_arguments() -> None:
    assert sorted([*DECLARATIONS, *COMMANDS]) == sorted(PUBLIC)
    for name in PUBLIC:
        text = inspect.getdoc(getattr(wc, name)) or ""
        assert examples_of(name), name
        described = "Attributes:" if inspect.isclass(getattr(wc, name)) else "Args:"
        assert described in text, name
        if not inspect.isclass(getattr(wc, name)):
            arguments = text[text.index("Args:") :]
            names = inspect.signature(getattr(wc, name)).parameters
            assert [one for one in names if f"    {one}: " not in arguments.replace("*", "")] == [], name


@pytest.mark.parametrize("name", DECLARATIONS)
def test_the_example_of_a_declaration_passes_check(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_BANK_TOKEN", "a token")
    root = project(tmp_path, MODEL)
    text = "import waterclock as wc\n\n\n" + "".join(example.source for example in examples_of(name))
    (root / "flows" / "example.py").write_text(text)
    before = load_project(project(tmp_path / "before", MODEL), env=None, capabilities=capabilities()).flow
    after = load_project(root, env=None, capabilities=capabilities()).flow
    assert (after.tables, after.views, after.functions, after.connections, after.grants) != (
        before.tables, before.views, before.functions, before.connections, before.grants,
    )  # fmt: skip


@pytest.mark.spark
def test_commands_return_the_results_in_their_docstring_examples(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "shop", FLOW + SUMS)
    (root / "specs").mkdir()
    (root / "specs" / "sums.feature").write_text(SPECIFICATION)
    with closing(sqlite3.connect(root / "shop.sqlite")) as database, database:
        database.execute("CREATE TABLE orders (id INT, at TEXT, customer TEXT, amount INT)")
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)
    monkeypatch.chdir(root)
    known: dict[str, Any] = {"wc": wc, "spark": spark}
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    for name in COMMANDS:
        test = doctest.DocTest(examples_of(name), dict(known), f"wc.{name}", None, 0, None)
        runner.run(test, out=said.append)
    assert not said, "\n".join(said)
    assert runner.summarize(verbose=False).attempted >= len(COMMANDS)
