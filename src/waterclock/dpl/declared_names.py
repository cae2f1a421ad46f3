"""Finds the names of a project's tables in the texts of its files, without running Python files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from waterclock.dpl.config.model import read_config
from waterclock.dpl.project_files import read_project_file, read_sources
from waterclock.dpl.syntax.parser import parse_text
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.statements import StatementKind
from waterclock.errors import ProjectErrors

_TABLES = frozenset({StatementKind.COLLECT, StatementKind.TRANSFORM, StatementKind.PUBLISH})
_CALLS = frozenset({"collect", "transform", "publish", "stateful"})


def declared_tables(root: Path, env: str | None) -> list[str]:
    """Return the sorted names of the tables of a project, except names that Python files compute.

    Raises E930 if another user can change the project, and ProjectErrors if its files cannot be parsed.
    """
    root = root.resolve()
    config, errors = read_config(read_project_file(root), env=env, root=root)
    if config is None:
        raise ProjectErrors(errors)
    sources, wrong = read_sources(root, config.files)
    errors += wrong
    names: set[str] = set()
    for name, text in sources.items():
        if name.endswith(".py"):
            names.update(_names_in_python(text))
            continue
        statements, wrong = parse_text(SourceText(name, text), variables=config.variables)
        errors += wrong
        names.update(each.name for each in statements if each.kind in _TABLES)
    if errors:
        raise ProjectErrors(errors)
    return sorted(names)


def _names_in_python(text: str) -> Iterator[str]:
    """Yield the names that calls of `collect`, `transform`, `publish` and `stateful` contain as string literals."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if called not in _CALLS:
            continue
        values = [*node.args[:1], *(word.value for word in node.keywords if word.arg in ("name", "state"))]
        yield from (each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str))
