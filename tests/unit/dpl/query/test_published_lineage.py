from __future__ import annotations

from pathlib import Path

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.dpl.query.column_readers import readers_of
from waterclock.dpl.query.column_trace import ColumnOf
from waterclock.dpl.query.impact import impact_of
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.flow.declarations import Flow
from waterclock.flow.published_columns import list_sent_keys

FLOW = """
CREATE CONNECTION landing TYPE files OPTIONS (path 'in');
CREATE CONNECTION out TYPE files OPTIONS (path 'out');
COLLECT raw.people PARTITIONED (id BIGINT KEY, email STRING, phone STRING, home STRUCT<city: STRING>)
  FROM landing.faa.people EVERY DAY BY ARRIVAL TIME;
PUBLISH raw.people ({sent}) TO out.people;
"""


def flow_of(folder: Path, sent: str) -> Flow:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (folder / "flows" / "all.dpl").write_text(FLOW.format(sent=sent))
    return load_project(folder, capabilities=capabilities()).flow


def test_a_computed_published_column_is_traced_to_its_inputs(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, "id, mail AS (mask_text(Email)), email AS (concat(phone, home.city)), person AS (id)")
    lineage = ColumnLineage(flow)
    made = {name: lineage.trace_column(ColumnOf("out.people", name)) for name in ("id", "mail", "email", "person")}
    assert {name: [str(each) for each in one.inputs] for name, one in made.items()} == {
        "id": ["raw.people.id"],
        "mail": ["raw.people.email"],
        "email": ["raw.people.phone", "raw.people.home"],
        "person": ["raw.people.id"],
    }
    assert made["mail"].expression == "mask_text(Email)"


def test_impact_follows_the_inputs_of_a_published_column_and_not_its_name(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, "id, mail AS (mask_text(email)), email AS (phone)")
    found = {
        column: [dict(each.columns) for each in impact_of(ColumnLineage(flow), ColumnOf("raw.people", column))]
        for column in ("id", "email", "phone", "home")
    }
    assert found == {
        "id": [{"id": "copied"}],
        "email": [{"mail": "computed"}],
        "phone": [{"email": "copied"}],
        "home": [],
    }
    assert [str(each) for each in readers_of(flow, "raw.people", "email")] == ["the publish out.people (by its name)"]
    assert readers_of(flow, "raw.people", "home") == ()


def test_another_mask_is_other_code(tmp_path: Path) -> None:
    codes = {
        flow_of(tmp_path, sent).tables["out.people"].fingerprint
        for sent in ("id, email", "id, email AS (mask_text(email))", "id, email AS (mask_text(email, 1))")
    }
    assert len(codes) == 3


def test_a_sent_key_has_its_published_name_and_a_computed_column_is_no_key(tmp_path: Path) -> None:
    found = [
        list_sent_keys(flow_of(tmp_path, sent).tables["out.people"].columns, ("id",))
        for sent in ("id, email", "person AS (ID), email", "id AS (id + 1), email", "email")
    ]
    assert found == [("id",), ("person",), (), ("id",)]
