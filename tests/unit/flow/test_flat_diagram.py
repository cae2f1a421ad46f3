from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.flow.declarations import Flat, Flow
from waterclock.flow.diagram import fields_of
from waterclock.flow.flat_diagram import flat_diagram, list_flat_parts
from waterclock.flow.flat_joins import flat_of
from waterclock.flow.flats import flat_columns

FLOW = """
CREATE CONNECTION ops TYPE sqlite;
COLLECT dim.city (code STRING KEY, `<city>` STRING, land STRING REFERENCES dim.land) FROM ops.city EVERY DAY TEMPORAL;
COLLECT dim.land (code STRING KEY, name STRING) FROM ops.land EVERY DAY;
COLLECT dim.client (nr BIGINT KEY, home REFERENCES dim.city ROLE home, *) FROM ops.client EVERY DAY TEMPORAL;
COLLECT fact.sale (id BIGINT KEY, sold_at TIMESTAMP, buyer BIGINT REFERENCES dim.client ROLE buyer AT sold_at)
  FROM ops.sale EVERY DAY;
"""
KNOWN = {"dim.client": {"nr": "bigint", "rec_eff_time": "timestamp", "home": "string", "tel": "string"}}


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.dpl").write_text(FLOW)
    (tmp_path / "waterclock.toml").write_text(
        '[project]\nname = "a"\n[env.dev]\nconnections.ops = { path = "ops.sqlite" }\n'
    )
    return load_project(tmp_path, capabilities=capabilities()).flow


def sale(flow: Flow) -> Flat:
    flat = flat_of(flow.tables, "fact.sale", [])
    assert flat is not None
    return flat


def test_each_parent_shows_its_role_its_time_and_its_columns(flow: Flow) -> None:
    found = list_flat_parts(sale(flow), flow, KNOWN)
    assert [(each.table, each.depth, each.role, each.version_choice) for each in found] == [
        ("fact.sale", 0, "", ""),
        ("dim.client", 1, "buyer", "at sold_at"),
        ("dim.city", 2, "home_buyer", "at the same time"),
        ("dim.land", 3, "home_buyer", "by its key"),
    ]
    assert [name for name, _ in found[1].columns] == ["home_buyer", "tel_buyer"]
    assert [name for name, _ in found[2].columns] == ["land_home_buyer", "<city>_home_buyer"]


def test_versions_choose_their_parents_when_they_begin(flow: Flow) -> None:
    flat = flat_of(flow.tables, "dim.client", [])
    assert flat is not None
    assert [each.version_choice for each in list_flat_parts(flat, flow, KNOWN)] == [
        "",
        "when each version begins",
        "by its key",
    ]


def test_the_names_are_those_that_the_read_has(flow: Flow) -> None:
    columns = flat_columns(
        sale(flow), lambda table: [each.name for each in fields_of(flow.tables[table], KNOWN.get(table, {}))]
    )
    assert columns is not None
    drawn = [name for each in list_flat_parts(sale(flow), flow, KNOWN) for name, _ in each.columns]
    assert drawn == [each.name for each in columns]


def test_unknown_columns_of_a_parent_are_drawn_as_other_columns(flow: Flow) -> None:
    assert "and other columns of dim.client" in flat_diagram(sale(flow), flow, {})
    assert "and other columns" not in flat_diagram(sale(flow), flow, KNOWN)


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_accepts_the_diagram(flow: Flow) -> None:
    drawn = flat_diagram(sale(flow), flow, {})
    done = subprocess.run(["dot", "-Tsvg"], input=drawn, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "&lt;city&gt;_home_buyer" in done.stdout
