from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.model.flows import PLACE, collect
from tests.model.flows import flow as flow_of
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.flow.declarations import Column, Columns, Flow
from waterclock.flow.diagram import MOST_COLUMNS, diagram, fields_of
from waterclock.flow.enums import Mode
from waterclock.flow.merge_settings import Temporal

FLOW = """
CREATE CONNECTION ops TYPE sqlite;
COLLECT raw.planes (model STRING, tailnum STRING KEY) FROM ops.planes EVERY DAY;
COLLECT raw.airports (faa STRING KEY, *) FROM ops.airports EVERY DAY;
TRANSFORM marts.flights (`<id>` BIGINT KEY, left_at TIMESTAMP, tailnum STRING REFERENCES raw.planes,
  origin STRING REFERENCES raw.airports (faa) ROLE origin AT left_at,
  dest STRING REFERENCES raw.airports (faa) ROLE destination AT left_at)
AS SELECT 1L AS `<id>`, TIMESTAMP '2013-01-01' AS left_at, tailnum, 'JFK' AS origin, 'LAX' AS dest FROM raw.planes;
PUBLISH marts.flights TO ops.flights;
"""


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    (tmp_path / "waterclock.toml").write_text(
        '[project]\nname = "a"\n[env.dev]\nconnections.ops = { path = "ops.sqlite" }\n'
    )
    return load_project(tmp_path, capabilities=capabilities()).flow


def test_keys_are_listed_first_and_then_the_referencing_columns(flow: Flow) -> None:
    fields = fields_of(flow.tables["marts.flights"], {})
    assert [field.name for field in fields] == ["<id>", "tailnum", "origin", "dest", "left_at"]
    assert [field.is_key for field in fields] == [True, False, False, False, False]


def test_columns_that_are_not_declared_are_those_of_the_last_batch(flow: Flow) -> None:
    fields = fields_of(flow.tables["raw.airports"], {"timelabel": "string", "faa": "string", "alt": "bigint"})
    assert [(field.name, field.type, field.is_key) for field in fields] == [
        ("faa", "string", True),
        ("alt", "bigint", False),
    ]


def test_each_reference_is_an_edge_with_its_role_from_column_to_key(flow: Flow) -> None:
    drawn = diagram(flow, {})
    assert '"marts.flights":out1:e -> "raw.planes":in0:w;' in drawn
    assert '"marts.flights":out2:e -> "raw.airports":in0:w [label="origin at left_at"];' in drawn
    assert '"marts.flights":out3:e -> "raw.airports":in0:w [label="destination at left_at"];' in drawn
    assert "ops.flights" not in drawn, "a published table is not part of the model"


def test_a_temporal_table_shows_its_versions(flow: Flow) -> None:
    planes = replace(flow.tables["raw.planes"], mode=Mode.TEMPORAL, fold=Temporal(("tailnum",), at="seen"))
    known = {"tailnum": "string", "rec_eff_time": "timestamp", "model": "string", "rec_exp_time": "timestamp"}
    assert [(field.name, field.type, field.is_key) for field in fields_of(planes, known)] == [
        ("tailnum", "string", True),
        ("rec_eff_time", "timestamp", False),
        ("model", "string", False),
        ("rec_exp_time", "timestamp", False),
        ("rec_is_current", "boolean", False),
    ]


def test_a_table_that_is_left_out_is_still_seen_where_something_refers_to_it(flow: Flow) -> None:
    drawn = diagram(flow, {}, ["marts.flights"])
    assert '"raw.planes" [shape=box, style=dashed' in drawn
    assert '"marts.flights":out1:e -> "raw.planes";' in drawn


def test_long_tables_are_cut_and_names_are_escaped(flow: Flow) -> None:
    drawn = diagram(flow, {"raw.airports": {f"c{number}": "int" for number in range(30)}})
    assert f"and {31 - MOST_COLUMNS} more" in drawn
    assert "&lt;id&gt;" in drawn


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_accepts_the_diagram(flow: Flow) -> None:
    done = subprocess.run(["dot", "-Tsvg"], input=diagram(flow, {}), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "<svg" in done.stdout


def many(count: int) -> Flow:
    """Return tables without references."""
    columns = Columns(tuple(Column(f"c{at}", PLACE, "STRING", is_key=not at) for at in range(7)), is_open=False)
    return flow_of(*(collect(f"raw.t{at}", columns=columns) for at in range(count)))


def test_unreferenced_tables_are_drawn_in_rows_of_four(flow: Flow) -> None:
    rows = [line.strip() for line in diagram(many(12), {}).splitlines() if "style=invis" in line]
    assert rows == [
        '"raw.t0" -> "raw.t1" -> "raw.t2" -> "raw.t3" [style=invis];',
        '"raw.t4" -> "raw.t5" -> "raw.t6" -> "raw.t7" [style=invis];',
        '"raw.t8" -> "raw.t9" -> "raw.t10" -> "raw.t11" [style=invis];',
    ]
    assert "style=invis" not in diagram(flow, {}), "references determine the positions of tables"


def test_keys_have_no_column_of_their_own(flow: Flow) -> None:
    drawn = diagram(flow, {})
    assert 'port="in1">tailnum <font point-size="9" color="#8a5a00">→</font></td><td align="left" port="out1">' in drawn
    assert 'colspan="3"' not in drawn


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_many_tables_are_drawn_about_as_wide_as_high() -> None:
    done = subprocess.run(["dot", "-Tplain"], input=diagram(many(24), {}), capture_output=True, text=True, check=True)
    _, _, width, height = done.stdout.splitlines()[0].split()
    assert 0.7 < float(width) / float(height) < 2.5
