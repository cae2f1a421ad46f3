"""The pages for users of other tools: their statements pass `check`, and their commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from waterclock.cli.app import COMMANDS
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import check_project

HOWTO = Path(__file__).resolve().parents[2] / "docs" / "howto"
SETTINGS = """\
[project]
name = "shop"

[env.dev]
connections.shop = { path = "shop.sqlite" }
"""
TABLES = """
CREATE CONNECTION shop TYPE sqlite; CREATE CONNECTION crm TYPE sqlite OPTIONS (path 'crm.sqlite');
COLLECT shop.customers (id BIGINT KEY, *) FROM shop.customers EVERY DAY;
"""
STATEMENTS = [  # from the table of words
    "COLLECT seed.a FROM project.`seeds/name.csv` EVERY DAY;",
    "CREATE VIEW stg.a SHARED AS SELECT * FROM shop.customers;",
    "TRANSFORM made.a (id KEY, *) MERGE AS SELECT * FROM shop.customers;",
    "TRANSFORM made.a PARTITIONED EVERY DAY START '2026-01-01' AS SELECT * FROM shop.customers;",
    "TRANSFORM made.a (c REFERENCES shop.customers ELSE WARN, *) AS SELECT id AS c FROM shop.customers;",
    "TRANSFORM made.a (s EXPECT (s IN ('new', 'paid')), *) AS SELECT 'new' AS s, * FROM shop.customers;",
    "TRANSFORM made.a EXPECT id > 0 ELSE WARN AT MOST 1 PERCENT AS SELECT * FROM shop.customers;",
    "TRANSFORM made.a DEADLINE 8 HOURS AS SELECT * FROM shop.customers; PUBLISH made.a TO crm.orders;",
]


def errors_in(root: Path, statements: str) -> list[str]:
    (root / "flows").mkdir()
    (root / "waterclock.toml").write_text(SETTINGS, encoding="utf-8")
    (root / "flows" / "all.dpl").write_text(statements, encoding="utf-8")
    _, errors = check_project(root, capabilities=capabilities())
    return [error.render() for error in errors]


@pytest.mark.parametrize("at", [0, 1])
def test_the_statements_of_coming_from_dbt_pass_check(tmp_path: Path, at: int) -> None:
    text = (HOWTO / "coming-from-dbt.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    assert errors_in(tmp_path, blocks[at]) == []


@pytest.mark.parametrize("statement", STATEMENTS)
def test_each_word_of_coming_from_dbt_passes_check(tmp_path: Path, statement: str) -> None:
    assert errors_in(tmp_path, TABLES + statement) == []


@pytest.mark.parametrize("page", ["coming-from-dbt.md", "coming-from-airflow.md"])
def test_each_command_on_the_page_exists(page: str) -> None:
    known = {function.__name__ for functions in COMMANDS.values() for function in functions}
    said = set(re.findall(r"\bwaterclock ([a-z]+)", (HOWTO / page).read_text(encoding="utf-8")))
    assert said
    assert said <= known
