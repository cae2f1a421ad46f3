from __future__ import annotations

from pathlib import Path

from tests.language.cases import CAPABILITIES, KNOWN, SETTINGS
from waterclock.dpl.project import load_project
from waterclock.flow.checked_references import checked_references
from waterclock.flow.declarations import Flow, Read

FLOW = """
TRANSFORM marts.a (id REFERENCES raw.customers ELSE DROP, customer REFERENCES raw.customers (name) ROLE other, *)
  WHEN WINDOW_START() < '2024-02-01' AS SELECT id, customer FROM raw.orders
  ELSE AS SELECT o.id, o.customer FROM raw.orders o JOIN raw.customers c ON c.name = o.customer;
TRANSFORM marts.pair (x KEY, y KEY) AS SELECT id AS x, customer AS y FROM raw.orders;
TRANSFORM marts.c (Y REFERENCES marts.pair ELSE DROP, x REFERENCES marts.pair, *)
  AS SELECT customer AS Y, id AS x FROM raw.orders;
TRANSFORM marts.d (one REFERENCES marts.pair ELSE DROP, x REFERENCES marts.pair, *)
  AS SELECT id AS one, id AS x FROM raw.orders;
TRANSFORM marts.b (id REFERENCES raw.customers, *) AS SELECT id FROM raw.orders;
"""


def flow(root: Path) -> Flow:
    for name, text in {"waterclock.toml": SETTINGS, "flows/known.dpl": KNOWN, "flows/case.dpl": FLOW}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return load_project(root, capabilities=CAPABILITIES).flow


def test_a_checked_reference_is_one_read_of_every_query_and_knows_its_key(tmp_path: Path) -> None:
    tables = flow(tmp_path).tables
    [checked] = checked_references(tables["marts.a"].columns)
    assert (checked.columns, checked.parent_columns) == (("id",), ("id",))
    assert tables["marts.a"].reads == (Read("raw.orders"), Read("raw.customers"))
    assert [choice.reads for choice in tables["marts.a"].choices] == [tables["marts.a"].reads] * 2


def test_one_that_states_the_model_reads_nothing(tmp_path: Path) -> None:
    tables = flow(tmp_path).tables
    assert checked_references(tables["marts.b"].columns) == ()
    assert tables["marts.b"].reads == (Read("raw.orders"),)


def test_columns_refer_to_the_key_columns_of_their_names_and_else_to_those_of_their_places(tmp_path: Path) -> None:
    tables = flow(tmp_path).tables
    for name, columns, theirs in (("marts.c", ("Y", "x"), ("y", "x")), ("marts.d", ("one", "x"), ("x", "y"))):
        [checked] = checked_references(tables[name].columns)
        assert (checked.columns, checked.parent_columns) == (columns, theirs)
