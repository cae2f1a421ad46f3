"""The last declaration of a removed table is compiled among the statements of its time."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.former_tables import compile_former_flow
from waterclock.dpl.project import Project, load_project
from waterclock.errors import ProjectErrors
from waterclock.flow.declarations import Flow

TOML = """
[project]
name = "web"
[env.dev]
storage = ".waterclock"
connections.shop = { path = "shop.sqlite" }
"""
CONNECTION = "CREATE CONNECTION shop TYPE sqlite;"
OLD = """COLLECT raw.visits PARTITIONED (id INT, who INT SUBJECT person, at TIMESTAMP) FROM shop.visits
  EVERY DAY BY DATA TIME at START '2020-01-01';"""
NEW = OLD.replace("who INT SUBJECT person", "visitor INT SUBJECT person")
GONE = "TRANSFORM marts.pages PARTITIONED AS SELECT who AS reader FROM raw.visits;"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERCLOCK_SECRET_PII", "a key that nobody guesses, of 32 characters")


def project(root: Path, *statements: str) -> Project:
    (root / "flows").mkdir()
    (root / "waterclock.toml").write_text(TOML)
    (root / "flows" / "flow.dpl").write_text("\n".join([CONNECTION, *statements]))
    return load_project(root, capabilities=capabilities())


def result(of: Project, table: str, **texts: str) -> Flow | str:
    known = {name.replace("_", ".", 1): text for name, text in texts.items()}
    return compile_former_flow(of, table, known, capabilities())


def compiled(of: Project, table: str, **texts: str) -> Flow:
    flow = result(of, table, **texts)
    assert isinstance(flow, Flow), flow
    return flow


def test_the_inputs_are_those_of_its_time(tmp_path: Path) -> None:
    flow = compiled(project(tmp_path, NEW), "marts.pages", raw_visits=OLD, marts_pages=GONE)
    assert [column.name for column in flow.tables["raw.visits"].columns.named] == ["id", "who", "at"]
    assert flow.tables["marts.pages"].is_partitioned


def test_other_statements_with_errors_are_left_out(tmp_path: Path) -> None:
    view = "CREATE VIEW raw.new AS SELECT visitor FROM raw.visits;"
    broken = "TRANSFORM marts.broken AS SELECT who FROM raw.gone;"
    flow = compiled(
        project(tmp_path, NEW, view, "TRANSFORM marts.new AS SELECT visitor FROM raw.new;"),
        "marts.pages",
        raw_visits=OLD,
        marts_pages=GONE,
        marts_broken=broken,
    )
    assert set(flow.tables) == {"raw.visits", "marts.pages"}


def test_a_table_that_another_clause_declared_is_found_by_the_statement_of_its_time(tmp_path: Path) -> None:
    """The flow declares web.visits without APART now."""
    keys = "CREATE CONNECTION pii TYPE keys OPTIONS (key.1 SECRET 'pii', current '1');"
    now = "TRANSFORM web.visits PARTITIONED (id INT, who INT SUBJECT person) AS SELECT id, who FROM raw.visits;"
    then = now.replace("person) AS", "person, page STRING) APART (page) AS").replace(
        "who FROM", "who, 'a' AS page FROM"
    )
    of = project(tmp_path, OLD, keys, now)
    flow = compiled(of, "web.visits_apart", raw_visits=OLD, web_visits=now, web_visits_apart=then)
    assert [column.name for column in flow.tables["web.visits_apart"].columns.named][:2] == ["who", "page"]


def test_errors_of_its_own_statement_are_a_reason(tmp_path: Path) -> None:
    of = project(tmp_path, OLD)
    wrong = GONE.replace("raw.visits", "raw.some")
    why = "its last declaration has errors: E213 unknown table raw.some"
    assert result(of, "marts.pages", raw_visits=OLD, marts_pages=wrong) == why
    python = "@transform('marts.pages')\ndef pages(visits): ..."
    assert result(of, "marts.pages", marts_pages=python) == "its last declaration is no COLLECT or TRANSFORM in SQL"
    assert result(of, "marts.pages", marts_pages=OLD) == "its last statement does not declare it"


def test_an_invalid_project_file_is_an_error(tmp_path: Path) -> None:
    of = project(tmp_path, OLD)
    (tmp_path / "waterclock.toml").write_text("[project]\nname = 1\n")
    with pytest.raises(ProjectErrors):
        compiled(of, "marts.pages", marts_pages=GONE)
