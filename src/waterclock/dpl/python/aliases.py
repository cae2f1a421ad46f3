"""Finds names that stand for the value of another name, or for a part of it, so that a change of one changes both."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping


def find_aliases(nodes: Iterable[ast.AST]) -> dict[str, set[str]]:
    """Map each name to those from which assignments and loops take its value, as in `r = RATES` or `for r in ROWS`.

    A call of a function makes a new value, and a call of a method may return a part of its object.
    """
    found: dict[str, set[str]] = {}
    for node in nodes:
        for targets, value in _assignments_of(node):
            names = [name for target in targets for name in _stored_names(target)]
            sources = {*_source_names(value), *(names if len(targets) > 1 else ())}
            for name in names:
                if others := sources - {name}:
                    found.setdefault(name, set()).update(others)
    return found


def with_aliased_names(names: Iterable[str], aliases: Mapping[str, Iterable[str]]) -> list[str]:
    """Return names, followed by those whose values they stand for, directly or through other names."""
    found = dict.fromkeys(names)
    waiting = [*found]
    while waiting:
        for name in sorted(aliases.get(waiting.pop(), ())):
            if name not in found:
                found[name] = None
                waiting.append(name)
    return [*found]


def _assignments_of(node: ast.AST) -> Iterator[tuple[list[ast.expr], ast.expr]]:
    if isinstance(node, ast.Assign):
        yield node.targets, node.value
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield [node.target], node.value
    elif isinstance(node, ast.For | ast.AsyncFor):
        yield [node.target], node.iter


def _stored_names(target: ast.expr) -> Iterator[str]:
    yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _source_names(value: ast.expr) -> Iterator[str]:
    """Yield the names whose values an expression may return as they are, or a part of them."""
    if isinstance(value, ast.Name):
        yield value.id
    elif isinstance(value, ast.Attribute | ast.Subscript | ast.Starred | ast.NamedExpr):
        yield from _source_names(value.value)
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        yield from _source_names(value.func)
    elif isinstance(value, ast.Tuple | ast.List):
        yield from (name for each in value.elts for name in _source_names(each))
    elif isinstance(value, ast.BoolOp):
        yield from (name for each in value.values for name in _source_names(each))
    elif isinstance(value, ast.IfExp):
        yield from (name for each in (value.body, value.orelse) for name in _source_names(each))
