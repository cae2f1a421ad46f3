from __future__ import annotations

import re
from pathlib import Path

import pytest

import waterclock as wc
from waterclock.dpl.python.functions import SQL_TYPES
from waterclock.dpl.python.statements import load_python
from waterclock.dpl.syntax.clause_table import ARGUMENTS
from waterclock.dpl.syntax.statements import StatementKind

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
KINDS = {
    "connection": StatementKind.CONNECTION,
    "function": StatementKind.FUNCTION,
    "view": StatementKind.VIEW,
    "collect": StatementKind.COLLECT,
    "transform": StatementKind.TRANSFORM,
    "publish": StatementKind.PUBLISH,
    "grant": StatementKind.GRANT,
}


def rows_below(heading: str) -> list[list[str]]:
    lines = PAGE[PAGE.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_table_of_arguments_matches_the_function_parameters() -> None:
    rows = rows_below("| argument | clause |")
    for place, kind in enumerate(KINDS.values(), 3):
        marked = [row[0].strip("`") for row in rows if row[place] == "x"]
        assert sorted(marked) == sorted(ARGUMENTS[kind])


@pytest.mark.parametrize("row", rows_below("| argument | clause |"), ids=lambda row: row[0])
def test_the_example_of_each_argument_is_accepted(row: list[str], tmp_path: Path) -> None:
    function = next(name for place, name in enumerate(KINDS, 3) if row[place] == "x")
    arguments = {row[0].strip("`"): row[2].strip("`")}
    if function == "function":
        arguments = {"returns": '"INT"', "return_": '"1"'} | arguments
    if function in {"view", "transform"}:
        arguments = {"as_": '"SELECT 1 AS one"'} | arguments
    if function == "grant":  # its TO names roles and users, and the column shows that of a PUBLISH
        arguments = {"on": '"raw.*"'} | arguments | {"to": '"analyst"'}
    name = {"connection": "a", "function": "a", "grant": "select"}.get(function, "a.b")
    said = ", ".join(f"{name}={value}" for name, value in arguments.items())
    (tmp_path / "a.py").write_text(f'import waterclock as wc\nwc.{function}("{name}", {said})\n')
    statements, errors = load_python(tmp_path / "a.py", root=tmp_path, variables={})
    assert (len(statements), errors) == (1, [])


def test_every_public_name_is_on_the_page() -> None:
    missing = [name for name in wc.__all__ if not name.startswith("_") and f"wc.{name}" not in PAGE]
    assert missing == []


def test_the_types_are_those_of_the_code() -> None:
    assert {row[0].strip("`"): row[1] for row in rows_below("| Python | Spark SQL |")} == {
        kind.__name__: name for kind, name in SQL_TYPES.items()
    }


def test_the_page_s_code_is_a_flow_without_errors(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    (tmp_path / "a.py").write_text("".join(blocks), encoding="utf-8")
    statements, errors = load_python(tmp_path / "a.py", root=tmp_path, variables={})
    assert errors == []
    assert [said.name for said in statements] == [
        *("ops", "raw.planes", "stg.jets", "raw.planes", "marts.seats", "raw.airlines", "raw.airports", "marts.old"),
        *("per_seat", "dollars"),
    ]
