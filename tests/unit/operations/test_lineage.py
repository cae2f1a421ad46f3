from __future__ import annotations

from pathlib import Path

import pytest

from tests.counting import calls_named
from tests.model.flows import choosing, collect, flow, past, transform
from waterclock.errors import WaterclockError
from waterclock.operations.description import declared_pairs
from waterclock.operations.lineage import (
    column_trees,
    describe_read,
    list_lineage_columns,
    reverse_arrows,
    table_and_column,
    table_lineage,
    tables_on_paths,
    tables_within,
)
from waterclock.operations.project_opening import open_project

READS = {"a": {}, "b": {"a": "a"}, "c": {"a": "LATEST(a)"}, "d": {"b": "b", "c": "c"}, "e": {"d": "d"}, "x": {"c": "c"}}


@pytest.mark.parametrize(
    ("which", "table", "column"),
    [
        ("raw.d", "raw.d", None),
        ("raw.d.x", "raw.d", "x"),
        ("raw.d.a.b", "raw.d", "a.b"),
        ("raw.d.`a.b`", "raw.d", "a.b"),
        ("raw.d.`a``b`", "raw.d", "a`b"),
        ("raw.d.`", "raw.d", "`"),
        ("raw.d.e.x", "raw.d.e", "x"),
    ],
)
def test_a_column_may_have_dots_and_backticks(which: str, table: str, column: str | None) -> None:
    assert table_and_column(flow(collect("raw.d"), collect("raw.d.e")), which) == (table, column)


@pytest.mark.parametrize("which", ["raw.x.a.b", "raw.de.x", "raw.d."])
def test_a_column_of_no_table_is_refused(which: str) -> None:
    with pytest.raises(WaterclockError, match="E511"):
        table_and_column(flow(collect("raw.d")), which)


def test_arrows_turned_keep_how_a_table_is_read() -> None:
    assert reverse_arrows(READS)["a"] == {"b": "a", "c": "LATEST(a)"}
    assert reverse_arrows(reverse_arrows(READS)) == READS


def test_so_many_steps_lead_so_far() -> None:
    assert tables_within(READS, ["e"], 0) == {"e"}
    assert tables_within(READS, ["e"], 1) == {"e", "d"}
    assert tables_within(READS, ["e"], 2) == {"e", "d", "b", "c"}
    assert tables_within(READS, ["e"]) == {"e", "d", "b", "c", "a"}


def test_tables_between_two_tables_are_those_on_a_path_from_one_to_the_other() -> None:
    assert tables_on_paths(READS, "a", "d") == tables_on_paths(READS, "d", "a") == {"a", "b", "c", "d"}
    assert tables_on_paths(READS, "c", "e") == {"c", "d", "e"}
    assert tables_on_paths(READS, "x", "b") == set()
    assert tables_on_paths(READS, "a", "a") == {"a"}


def test_a_read_names_the_queries_that_use_it_unless_all_do() -> None:
    when = "day(WINDOW_START()) = 1"
    table = choosing(transform("t", []), (when, ["old", past("both", "2 days")]), other=["new", past("both", "2 days")])
    old, both, new = table.reads
    assert [describe_read(table, read) for read in (old, both, new)] == [
        f"by WHEN {when}",
        "PAST(both, '2 DAYS')",
        "by ELSE",
    ]
    found = table_lineage(flow(collect("old"), collect("new"), collect("both"), table), "t").to_json()
    assert [(each["from"], each["read"], each["choices"]) for each in found["arrows"]] == [
        ("old", "old", [f"WHEN {when}"]),
        ("both", "PAST(both, '2 DAYS')", [f"WHEN {when}", "ELSE"]),
        ("new", "new", ["ELSE"]),
    ]
    assert declared_pairs(table)[1:] == [
        ("when", f"{when}: reads old, PAST(both, '2 DAYS')"),
        ("else", "reads new, PAST(both, '2 DAYS')"),
    ]


def test_queries_are_parsed_once_per_project_for_all_lineage_requests(tmp_path: Path) -> None:
    (tmp_path / "waterclock.toml").write_text(
        '[project]\nname = "shop"\nfiles = ["*.dpl"]\n[env.dev]\nstorage = "storage"\n'
        'connections.landing.path = "landing"\n'
    )
    (tmp_path / "a.dpl").write_text(
        "CREATE CONNECTION landing TYPE files;\n"
        "COLLECT raw.a (id INT, n INT) FROM landing.`a/*.csv` EVERY DAY START '2026-01-01' BY ARRIVAL TIME APPEND;\n"
        "TRANSFORM marts.b EVERY DAY APPEND AS SELECT id, n + 1 AS more FROM raw.a;\n"
    )
    project = open_project(tmp_path, None)
    first = column_trees(project, "marts.b", "more")
    again, parsed = calls_named(lambda: column_trees(project, "marts.b", "more"), "parse_query_text")
    assert (again, parsed) == (first, 0)
    assert list_lineage_columns(project, "marts.b") == ("id", "more")
    other = open_project(tmp_path, None)
    _, parsed = calls_named(lambda: column_trees(other, "marts.b", "more"), "parse_query_text")
    assert parsed > 0
