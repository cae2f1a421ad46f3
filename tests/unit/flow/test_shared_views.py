"""SHARED views: their readers, also through other views, and the tables that replace them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.cases import CAPABILITIES
from waterclock.dpl.project import load_project
from waterclock.dpl.query.splice import splice
from waterclock.flow.declarations import Flow, Read
from waterclock.flow.shared_views import (
    list_shared_references,
    readers_of_shared,
    rows_of_view,
    table_with_rows,
    views_shared_by,
)

DPL = """
CREATE CONNECTION ops TYPE sqlite OPTIONS (path 'a.sqlite');
COLLECT raw.a PARTITIONED FROM ops.a EVERY DAY START '2024-01-01' BY DATA TIME at;
CREATE VIEW w.items (id) SHARED AS SELECT * FROM raw.a;
CREATE VIEW w.around AS SELECT i.id FROM w.items i;
CREATE VIEW w.alone SHARED AS SELECT * FROM raw.a;
TRANSFORM m.direct PARTITIONED AS SELECT id FROM w.items;
TRANSFORM m.nested PARTITIONED AS SELECT a.id FROM w.around a JOIN HISTORY(w.items) h ON a.id = h.id;
TRANSFORM m.branches PARTITIONED AS SELECT id FROM raw.a UNION ALL BY NAME SELECT id FROM w.items;
TRANSFORM m.other PARTITIONED AS SELECT * FROM w.alone;
"""


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text('[project]\nname = "x"\n[env.dev]\n')
    (tmp_path / "flows" / "a.dpl").write_text(DPL)
    return load_project(tmp_path, capabilities=CAPABILITIES).flow


def test_readers_are_found_through_views_and_branches(flow: Flow) -> None:
    assert readers_of_shared(flow) == {"w.items": ("m.direct", "m.nested", "m.branches")}
    assert views_shared_by(flow.tables["m.other"]) == ("w.alone",)


def test_a_query_reads_rows_where_it_named_the_view(flow: Flow) -> None:
    table = flow.tables["m.nested"]
    assert table.query is not None
    rows = {reference: Read(f"r{at}") for at, reference in enumerate(list_shared_references(table.query))}
    assert len(rows) == 2, "HISTORY of a view is another one"
    placed = table_with_rows(table, rows).query
    assert placed is not None
    assert splice(placed, lambda read: f"<{read}>").text == (
        "SELECT a.id FROM (SELECT i.id FROM <r0> i) a JOIN <r1> h ON a.id = h.id"
    )


def test_the_query_of_shared_rows_keeps_only_the_columns_of_the_select_list(flow: Flow) -> None:
    query = flow.tables["m.direct"].query
    assert query is not None
    [reference] = list_shared_references(query)
    text = splice(rows_of_view(reference), lambda read: f"<{read}>").text
    assert text == "SELECT * FROM (SELECT `id` FROM (SELECT * FROM <raw.a> AS `a`)) AS `shown`"
