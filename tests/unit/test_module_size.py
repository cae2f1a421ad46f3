"""Modules stay small: at most 500 lines, and imports of at most 25 modules of ours."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
MOST_LINES = 500
MOST_IMPORTS = 25
# modules with more imports, and the reasons
OVER_IMPORTS = {
    "waterclock/cli/app.py": "the list of all commands",
}
OVER_LINES = {"waterclock/flow/declarations.py": "all that can be declared"}


def modules() -> list[str]:
    found = sorted(str(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py"))
    assert len(found) > 500
    return found


def at_import(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module itself, including those under TYPE_CHECKING, but not those in functions."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try)):
            yield from at_import([*statement.body, *statement.orelse])


def imports_of(tree: ast.Module) -> set[str]:
    """Return the modules of ours that a module imports by `from ... import`. A package's name counts as a module."""
    found = set()
    for statement in at_import(tree.body):
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] == "waterclock":
            for name in statement.names:
                module = f"{statement.module}.{name.name}"
                found.add(module if module in module_names() else str(statement.module))
    return found


@cache
def module_names() -> frozenset[str]:
    """Return the names of all modules and packages of ours."""
    files = [Path(module).with_suffix("") for module in modules()]
    return frozenset(".".join(path.parts) for path in {*files, *(file.parent for file in files)})


def test_imports_are_counted_by_module_also_those_for_types() -> None:
    text = """
from waterclock.ledger.read import clock, current
from waterclock.flow.enums import Kind, Mode
if TYPE_CHECKING:
    from waterclock.flow.declarations import Table
def f():
    from waterclock.errors import WaterclockError
"""
    expected = {"ledger.read.clock", "ledger.read.current", "flow.enums", "flow.declarations"}
    assert imports_of(ast.parse(text)) == {f"waterclock.{name}" for name in expected}


def read(module: str) -> str:
    return (SOURCE / module).read_text(encoding="utf-8")


@pytest.mark.slow
def test_modules_import_few_others() -> None:
    counts = {module: len(imports_of(ast.parse(read(module)))) for module in modules()}
    assert {module: count for module, count in counts.items() if count > MOST_IMPORTS}.keys() == OVER_IMPORTS.keys()


def test_modules_are_short() -> None:
    lines = {module: len(read(module).splitlines()) for module in modules()}
    assert {module: count for module, count in lines.items() if count > MOST_LINES}.keys() == OVER_LINES.keys()
