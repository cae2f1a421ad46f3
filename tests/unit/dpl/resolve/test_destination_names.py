"""Reserved names of destinations, and different names for one table."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import check_project

SETTINGS = """
[project]
name = "x"
[env.dev]
connections.shop = { path = "shop.sqlite" }
connections.out = { path = "out.sqlite" }
connections.duck = { path = "d.duckdb" }
connections.files = { path = "files" }
connections.pg = { url = "postgresql://a@b/c", schema = "own" }
connections.my = { url = "mysql://a@b/c" }
connections.bird = { url = "firebird://a@b/c" }
connections.duck2 = { path = "./d.duckdb" }
connections.pg2 = { url = "postgresql://other@b:5432/c" }
connections.pg3 = { url = "postgresql://other@b/c", timeout = 9 }
connections.my2 = { url = "mysql://other@B:3306/c" }
connections.my3 = { url = "mysql://a@b/d" }
connections.my4 = { url = "mysql://a@b:3307/c" }
connections.bird2 = { url = "firebird://other@b:3050/c" }
"""
FLOW = """
CREATE CONNECTION shop TYPE sqlite; CREATE CONNECTION out TYPE sqlite; CREATE CONNECTION duck TYPE duckdb;
CREATE CONNECTION files TYPE files; CREATE CONNECTION pg TYPE postgres; CREATE CONNECTION my TYPE mysql;
CREATE CONNECTION bird TYPE firebird; CREATE CONNECTION duck2 TYPE duckdb; CREATE CONNECTION pg2 TYPE postgres;
CREATE CONNECTION pg3 TYPE postgres; CREATE CONNECTION my2 TYPE mysql; CREATE CONNECTION my3 TYPE mysql;
CREATE CONNECTION my4 TYPE mysql; CREATE CONNECTION bird2 TYPE firebird;
COLLECT raw.t (id BIGINT KEY, *) FROM shop.t EVERY DAY START '2020-01-01';
COLLECT raw.u (id BIGINT KEY, Waterclock_Gone INT, *) FROM shop.u EVERY DAY START '2020-01-01';
"""


def errors_of(folder: Path, publishes: str) -> list[str]:
    (folder / "flows").mkdir()
    (folder / "waterclock.toml").write_text(SETTINGS)
    (folder / "flows" / "flow.dpl").write_text(FLOW + publishes)
    _, errors = check_project(folder, capabilities=capabilities())
    return [f"{error.code} {error.what}" for error in errors]


@pytest.mark.parametrize(
    "name",
    [
        "out.waterclock_deliveries",
        "out.Waterclock_Kept",
        "out.main.waterclock_x",
        "out.sqlite_x",
        "out.temp.x",
        "duck.waterclock_slice",
        "duck.waterclock_staged",
        "duck.temp.x",
        "duck.information_schema.x",
        "pg.waterclock_staged",
        "pg.any.waterclock_staged",
        "pg.pg_temp.x",
        "my.waterclock_staged_0",
        "my.mysql.x",
        "bird.waterclock_x",
        "files._waterclock",
        "files._waterclock.x",
    ],
)
def test_a_destination_with_a_reserved_name_is_refused(tmp_path: Path, name: str) -> None:
    assert errors_of(tmp_path, f"PUBLISH raw.t TO {name};") == [f"E211 {name} is a reserved name"]


def test_destination_names_similar_to_reserved_names_are_accepted(tmp_path: Path) -> None:
    names = ["out.waterclock", "out.excluded", "out.my_sqlite_x", "pg.waterclock_x.t", "files.x._waterclock", "pg.pg_x"]
    assert not errors_of(tmp_path, "".join(f"PUBLISH raw.t TO {name};" for name in names))


def test_a_published_column_may_be_called_as_deliveries_once_marked_rows(tmp_path: Path) -> None:
    assert not errors_of(tmp_path, "PUBLISH raw.t (id, waterclock_gone AS (v)) TO pg.x MERGE; PUBLISH raw.u TO my.x;")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("out.OUT2", "out.out2"),
        ("out.o", "out.main.o"),
        ("duck.Main.O", "duck.o"),
        ("pg.o", "pg.own.o"),
        ("bird.o", "bird.O"),
        ("my.o", "my.O"),
        ("my.o", "my.c.o"),
        ("my.o", "my2.o"),
        ("my2.o", "my3.c.O"),
        ("pg.o", "pg2.own.o"),
        ("pg2.o", "pg3.o"),
        ("bird.o", "bird2.o"),
        ("duck.o", "duck2.o"),
    ],
)
def test_two_publishes_to_one_table_are_refused(tmp_path: Path, one: str, other: str) -> None:
    found = errors_of(tmp_path, f"PUBLISH raw.t TO {one}; PUBLISH raw.t TO {other};")
    assert found == [f"E212 {other} and {one} are the same table"]


def test_two_publishes_to_tables_that_a_database_distinguishes_are_accepted(tmp_path: Path) -> None:
    pairs = [
        ("pg.o", "pg.O"),
        ("pg.a.o", "pg.b.o"),
        ("bird.Ab", "bird.aB"),
        ("duck.o", "out.o"),
        ("duck.a.o", "duck.o2"),
        ("pg.p", "pg2.p"),
        ("my.p", "my3.p"),
        ("my.q", "my4.q"),
    ]
    assert not errors_of(tmp_path, "".join(f"PUBLISH raw.t TO {name};" for pair in pairs for name in pair))
