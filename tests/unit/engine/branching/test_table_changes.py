"""A branch owns only tables with changed code, and tables made from them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.tiny import CONNECTIONS
from waterclock.batches.former_names import FormerNames
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.dpl.statement_texts import statement_texts
from waterclock.engine.branching.branch_state import BranchState
from waterclock.engine.branching.table_changes import TableChanges, find_table_changes
from waterclock.flow.enums import OnRestate
from waterclock.operations.code_differences import describe_change, find_reworded

TOML = '[project]\nname = "mine"\n[defaults]\nstart = "2020-01-01"\n[env.dev]\nconnections.shop = { path = "x" }\n'
FLOW = """
COLLECT raw.a PARTITIONED (id BIGINT, x BIGINT, at TIMESTAMP) FROM shop.a EVERY DAY BY DATA TIME at;
COLLECT raw.b PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.b EVERY DAY BY DATA TIME at;
CREATE VIEW v.used AS SELECT id, x FROM raw.a;
CREATE VIEW v.unused AS SELECT id FROM raw.a;
TRANSFORM core.c PARTITIONED (id KEY, *) EXPECT id > 0 AS SELECT id, x FROM v.used;
TRANSFORM core.d PARTITIONED AS SELECT id FROM raw.b;
TRANSFORM mart.e PARTITIONED AS SELECT id FROM core.c;
PUBLISH mart.e TO out.e;
"""


def load(tmp_path: Path, flow: str) -> Project:
    (tmp_path / "flows").mkdir(exist_ok=True)
    toml = TOML + "".join(f'connections.{name} = {{ path = "x" }}\n' for name in ("out", "land", "files"))
    (tmp_path / "waterclock.toml").write_text(toml)
    (tmp_path / "flows" / "a.dpl").write_text(CONNECTIONS + flow)
    return load_project(tmp_path, capabilities=capabilities())


def state_of(project: Project) -> BranchState:
    at = datetime(2020, 1, 4, tzinfo=UTC)
    codes = {name: table.fingerprint for name, table in project.flow.tables.items()}
    return BranchState("try", "prod", at, at, at, codes, statement_texts(project.flow, project.sources))


def changes(tmp_path: Path, *replacements: tuple[str, str]) -> tuple[TableChanges, dict[str, tuple[str, ...]]]:
    state, flow = state_of(load(tmp_path, FLOW)), FLOW
    for old, new in replacements:
        assert old in flow
        flow = flow.replace(old, new)
    project = load(tmp_path, flow)
    found = find_table_changes(project.flow, state, FormerNames())
    texts = statement_texts(project.flow, project.sources)
    names = {*project.flow.tables, *project.flow.views}
    return found, {name: describe_change(state.statements[name], texts[name], {}, names) for name in found.changed}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SELECT id, x FROM v.used", "SELECT  id,\n  x -- a remark\nFROM v.used"),
        ("CREATE VIEW v.unused AS SELECT id FROM raw.a", "CREATE VIEW v.unused AS SELECT id, x FROM raw.a"),
        ("CREATE VIEW v.unused AS SELECT id FROM raw.a;", ""),
        ("SELECT id FROM core.c", "select id from core.c"),
    ],
)
def test_a_change_that_cannot_change_rows_makes_nothing(tmp_path: Path, old: str, new: str) -> None:
    found, _ = changes(tmp_path, (old, new))
    assert found.own == ()
    assert set(found.borrowed) == {"raw.a", "raw.b", "core.c", "core.d", "mart.e"}
    assert found.publishes == ()


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("SELECT id, x FROM v.used", "SELECT id, x + 1 AS x FROM v.used", ("query",)),
        ("EXPECT id > 0", "EXPECT id > 1", ("rules",)),
        ("(id KEY, *)", "(id BIGINT KEY, x)", ("columns", "types")),
        ("(id KEY, *)", "(id BIGINT KEY, *)", ("types",)),
        ("(id KEY, *)", "(id KEY NOT NULL EXPECT (id > 2), *)", ("columns",)),
        ("SELECT id, x FROM v.used", "SELECT id, x FROM raw.a", ("query", "upstream")),
        ("SELECT id, x FROM v.used", "SELECT b.id, x FROM v.used u JOIN raw.b b USING (id)", ("query", "upstream")),
        ("SELECT id, x FROM raw.a", "SELECT id, x * 2 AS x FROM raw.a", None),
    ],
)
def test_a_changed_table_and_its_readers_are_made(
    tmp_path: Path, old: str, new: str, parts: tuple[str, ...] | None
) -> None:
    found, how = changes(tmp_path, (old, new))
    assert (found.changed, found.affected, found.publishes) == (("core.c",), ("mart.e",), ("out.e",))
    assert found.reasons["mart.e"] == "core.c"
    assert set(found.borrowed) == {"raw.a", "raw.b", "core.d"}
    assert how["core.c"] == (parts or ("a view, function, variable or input that it uses",))


def test_statements_that_are_written_in_another_way_are_listed(tmp_path: Path) -> None:
    state = state_of(load(tmp_path, FLOW))
    flow = FLOW.replace("SELECT id FROM raw.b;", "select id -- all\n  from raw.b;").replace("id > 0", "id > 1")
    project = load(tmp_path, flow)
    found = find_table_changes(project.flow, state, FormerNames())
    texts = statement_texts(project.flow, project.sources)
    assert found.changed == ("core.c",)
    assert find_reworded(project.flow, found.borrowed, state.statements, texts) == ("core.d",)


def test_a_new_table_is_made_and_a_changed_collect_is_not(tmp_path: Path) -> None:
    found, _ = changes(
        tmp_path,
        ("x BIGINT, at", "x BIGINT, at"),
        ("(id BIGINT, at TIMESTAMP) FROM shop.b", "(id BIGINT, at TIMESTAMP, more STRING) FROM shop.b"),
        ("PUBLISH mart.e", "TRANSFORM mart.f PARTITIONED AS SELECT count(*) AS n FROM core.d;\nPUBLISH mart.e"),
    )
    assert found.new == ("mart.f",)
    assert found.collects == ("raw.b",)
    assert found.affected == ()


def test_a_new_collect_is_not_borrowed_and_a_changed_one_is(tmp_path: Path) -> None:
    new = "COLLECT raw.n PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.n EVERY DAY BY DATA TIME at;\nPUBLISH mart.e"
    changed = "(id BIGINT, at TIMESTAMP, more STRING) FROM shop.b"
    found, _ = changes(tmp_path, ("PUBLISH mart.e", new), ("(id BIGINT, at TIMESTAMP) FROM shop.b", changed))
    assert set(found.collects) == {"raw.b", "raw.n"}
    assert set(found.borrowed) == {"raw.a", "raw.b", "core.c", "core.d", "mart.e"}


def test_a_changed_publish_without_a_sandbox_is_listed(tmp_path: Path) -> None:
    found, _ = changes(tmp_path, ("PUBLISH mart.e TO out.e", "PUBLISH mart.e (id) TO out.e"))
    assert (found.own, found.publishes, found.delivered) == ((), ("out.e",), ())


def test_a_renamed_table_is_not_a_changed_one(tmp_path: Path) -> None:
    project = load(tmp_path, FLOW)
    state = state_of(project)
    table = replace(project.flow.tables["core.d"], name="core.renamed", was="core.d")
    tables = {("core.renamed" if name == "core.d" else name): it for name, it in project.flow.tables.items()}
    order = tuple("core.renamed" if name == "core.d" else name for name in project.flow.order)
    flow = replace(project.flow, tables=tables | {"core.renamed": table}, order=order)
    assert find_table_changes(flow, state, FormerNames()).own == ()


QUERY = "TRANSFORM core.d PARTITIONED {was}EXPECT id > {least} AS SELECT b.id FROM {read} b"


@pytest.mark.parametrize(
    ("after", "parts"),
    [
        (QUERY.format(was="", least=2, read="raw.b"), ("rules",)),
        (QUERY.format(was="WAS core.former ", least=2, read="raw.b"), ("rules",)),
        (QUERY.format(was="WAS core.former ", least=2, read="raw.now"), ("rules",)),
        (QUERY.format(was="", least=1, read="raw.other"), ("query", "upstream")),
        (QUERY.format(was="", least=1, read="raw.now").replace("b.id", "b.id + 1 AS id"), ("query",)),
    ],
)
def test_a_new_name_of_a_table_is_no_part_of_a_change(after: str, parts: tuple[str, ...]) -> None:
    before = QUERY.format(was="", least=1, read="raw.b")
    names, renamed = {"raw.b", "raw.now", "raw.other"}, {"raw.b": "raw.now", "core.former": "core.d"}
    if "raw.b" in after:
        renamed.pop("raw.b")
    assert describe_change(before, after, {}, names, renamed) == parts


def test_a_collect_for_each_row_of_a_changed_table_keeps_its_rows_and_so_do_tables_that_read_it_alone(
    tmp_path: Path,
) -> None:
    each = """
CREATE CONNECTION api TYPE rest OPTIONS (url 'https://api.example.com');
COLLECT raw.users PARTITIONED (id BIGINT KEY, name STRING) FROM api.users OPTIONS (path 'users/{id}') FOR EACH core.c;
TRANSFORM mart.names PARTITIONED AS SELECT name FROM raw.users;
TRANSFORM mart.named PARTITIONED AS SELECT c.x, u.name FROM core.c c JOIN raw.users u USING (id);
"""
    state = state_of(load(tmp_path, FLOW + each))
    flow = load(tmp_path, FLOW.replace("SELECT id, x FROM v.used", "SELECT id, x + 1 AS x FROM v.used") + each).flow
    found = find_table_changes(flow, state, FormerNames())
    assert found.changed == ("core.c",)
    assert set(found.affected) == {"mart.e", "mart.named"}
    assert found.collects == ("raw.users",)
    assert found.reasons["raw.users"] == "core.c"
    assert {"raw.users", "mart.names"} <= set(found.borrowed)


def test_readers_in_a_branch_do_not_wait_for_a_collect_for_each_row(tmp_path: Path) -> None:
    load(tmp_path, FLOW)
    with (tmp_path / "waterclock.toml").open("a") as file:
        file.write('[env.try]\nfrom = "dev"\n')
    reactions = {
        env: load_project(tmp_path, env=env, capabilities=capabilities()).flow.tables["raw.a"].on_restate
        for env in ("dev", "try")
    }
    assert reactions == {"dev": OnRestate.RECOMPUTE, "try": OnRestate.REPORT}
