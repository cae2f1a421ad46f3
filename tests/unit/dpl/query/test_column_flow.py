from __future__ import annotations

from pathlib import Path

import pytest

from tests.lineages import CASES, UNTOLD, T, U
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.dpl.query.column_trace import ColumnOf
from waterclock.dpl.query.lineage import ColumnLineage


def lineage_of(folder: Path, query: str, *, open_u: bool = False) -> ColumnLineage:
    columns = [", ".join(f"{name} {kind}" for name, kind in table.items()) for table in (T, U)]
    flow = f"""
    CREATE CONNECTION landing TYPE files OPTIONS (path 'in');
    COLLECT raw.t PARTITIONED ({columns[0]}) FROM landing.t EVERY DAY BY ARRIVAL TIME;
    COLLECT raw.u PARTITIONED ({"*" if open_u else columns[1]}) FROM landing.u EVERY DAY BY ARRIVAL TIME;
    TRANSFORM m.x PARTITIONED EVERY DAY AS {query};
    """
    (folder / "flows").mkdir()
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (folder / "flows" / "a.dpl").write_text(flow)
    return ColumnLineage(load_project(folder, capabilities=capabilities()).flow)


def told(lineage: ColumnLineage, column: str) -> set[str] | str:
    made = lineage.trace_column(ColumnOf("m.x", column))
    if made.note.startswith("not known"):
        return UNTOLD
    return {f"u.{each.column}" if each.table == "raw.u" else each.column for each in made.inputs}


@pytest.mark.parametrize("query", CASES)
def test_column_lineage_matches_the_expected_inputs(tmp_path: Path, query: str) -> None:
    lineage = lineage_of(tmp_path, query)
    for column, expected in CASES[query].items():
        assert told(lineage, column) == (UNTOLD if expected == UNTOLD else set(expected.split())), column


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x FROM raw.u a JOIN raw.u b ON a.id = b.id",  # either of two tables with unknown columns
        "SELECT v AS x FROM raw.t UNION ALL SELECT * FROM raw.u",
        "SELECT * FROM raw.t NATURAL JOIN raw.u",
        "SELECT u.*, s.* FROM raw.t, raw.u",
    ],
)
def test_a_column_of_undetermined_origin_is_reported_as_unknown(tmp_path: Path, query: str) -> None:
    assert told(lineage_of(tmp_path, query, open_u=True), "x") == UNTOLD


@pytest.mark.parametrize(
    ("query", "expressions"),
    [
        ("FROM raw.t |> SET v = v + n |> DROP n", {"v": "v + n", "id": "id"}),
        ("FROM raw.t |> AS a |> EXTEND a.v * 2 AS x", {"x": "a.v * 2"}),
        ("SELECT v + n AS x FROM raw.t |> WHERE x > 1", {"x": "v + n"}),
    ],
)
def test_an_expression_behind_a_step_is_that_of_the_step_which_made_it(
    tmp_path: Path, query: str, expressions: dict[str, str]
) -> None:
    lineage = lineage_of(tmp_path, query)
    assert {column: lineage.trace_column(ColumnOf("m.x", column)).expression for column in expressions} == expressions


def test_a_pipe_set_column_has_its_expressions_inputs_even_if_columns_are_unknown(tmp_path: Path) -> None:
    lineage = lineage_of(tmp_path, "FROM raw.u |> SET x = v + 1 |> DROP w", open_u=True)
    assert told(lineage, "x") == {"u.v"}
