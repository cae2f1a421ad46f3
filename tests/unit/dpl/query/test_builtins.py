from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.dpl.query.builtins import BUILTINS_BY_NAME, FUNCTIONS
from waterclock.dpl.query.column_trace import ColumnOf
from waterclock.dpl.query.lineage import ColumnLineage
from waterclock.dpl.resolve import flow_building
from waterclock.flow.declarations import Flow
from waterclock.temporal.text_formats import FORMATS

FLOW = """
CREATE CONNECTION landing TYPE files OPTIONS (path 'in');
COLLECT raw.people PARTITIONED (id KEY, name STRING, nick STRING {rule}) FROM landing.faa.people
  EVERY DAY BY ARRIVAL TIME;
CREATE FUNCTION clean(x STRING) RETURNS STRING RETURN format_attribute(x, 'lower');
CREATE VIEW stg.people AS SELECT id, {view} AS name FROM raw.people;
TRANSFORM marts.people PARTITIONED AS SELECT id, {query} AS name FROM stg.people;
"""


def flow_of(folder: Path, *, rule: str = "", view: str = "name", query: str = "name") -> Flow:
    (folder / "flows").mkdir(exist_ok=True)
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (folder / "flows" / "all.dpl").write_text(FLOW.format(rule=rule, view=view, query=query))
    return load_project(folder, capabilities=capabilities()).flow


def test_a_column_is_traced_through_a_function_that_is_brought(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, view="format_attribute(name, 'upper', coalesce(nick, '?'))")
    made = ColumnLineage(flow).trace_column(ColumnOf("marts.people", "name"))
    assert [str(each) for each in made.inputs] == ["raw.people.name", "raw.people.nick"]


@pytest.mark.parametrize(
    "said",
    [
        {"query": "FORMAT_ATTRIBUTE(name)"},
        {"view": "format_attribute (name, 'upper')"},
        {"query": "clean(name)"},
        {"rule": "EXPECT (format_attribute(nick) <> 'x')"},
    ],
    ids=["in its query", "in a view", "in a function", "in a rule"],
)
def test_code_is_other_code_where_a_function_that_it_calls_means_something_else(
    tmp_path: Path, said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: table.fingerprint for name, table in flow_of(tmp_path, **said).tables.items()}
    of_ours = FUNCTIONS["format_attribute"]
    other = type(of_ours)(of_ours.name, of_ours.parameters, of_ours.returns, "value", None, of_ours.place)
    monkeypatch.setattr(flow_building, "FUNCTIONS", {other.name: other})
    after = {name: table.fingerprint for name, table in flow_of(tmp_path, **said).tables.items()}
    changed = "raw.people" if "rule" in said else "marts.people"
    assert {name for name in before if before[name] != after[name]} == {changed}


def test_it_is_no_function_of_the_project(tmp_path: Path) -> None:
    assert set(flow_of(tmp_path, query="format_attribute(name)").functions) == {"clean"}


def test_the_registry_names_choices_of_parameters_alone() -> None:
    for each in BUILTINS_BY_NAME.values():
        assert set(each.choices) <= set(each.parameters)
        assert 0 <= each.needs <= len(each.parameters)
    assert BUILTINS_BY_NAME["FORMAT_ATTRIBUTE"].choices["format"] == FORMATS
    assert BUILTINS_BY_NAME["FORMAT_ATTRIBUTE"].parameters == ["value", "format", "nullreplacement"]


def test_a_key_is_traced_to_its_attributes(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, query="key_of(name, id)")
    made = ColumnLineage(flow).trace_column(ColumnOf("marts.people", "name"))
    assert sorted(str(each) for each in made.inputs) == ["raw.people.id", "raw.people.name"]


def test_the_defaults_of_a_key_are_no_values_that_a_call_can_pass() -> None:
    kinds = [kind for _, kind in BUILTINS_BY_NAME["KEY_OF"].function.parameters]
    assert kinds[0] == "VARIANT"
    assert len(kinds) == 12
    assert len(set(kinds[1:])) == 1
    assert kinds[1].startswith("VARIANT DEFAULT CAST(array(")
