"""Collects the names that a project declares, and reports duplicate and reserved ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from waterclock.dpl.query.builtins import BUILTINS_BY_NAME
from waterclock.dpl.query.names_in_query import FLAT
from waterclock.dpl.query.references import MARKS, READS, VALUES
from waterclock.dpl.resolve.called_functions import OF_RULES, OF_SPARK
from waterclock.dpl.resolve.connections import PROJECT
from waterclock.dpl.syntax.statements import Statement, StatementKind
from waterclock.errors import WaterclockError

_TABLES = frozenset({StatementKind.COLLECT, StatementKind.TRANSFORM})
_RELATIONS = _TABLES | {StatementKind.VIEW}
_RESERVED_SCHEMAS = {"waterclock": "it contains the status tables"}
_SUFFIXES = ("_held", "_late", "_quarantine", "_view")
_RESERVED_FUNCTIONS = frozenset({*READS, FLAT, *VALUES, *MARKS, *BUILTINS_BY_NAME, *map(str.upper, OF_RULES)})

Names = dict[StatementKind, dict[str, Statement]]


def names_of(statements: Iterable[Statement], errors: list[WaterclockError]) -> Names:
    """Map each kind of statement, except PUBLISH, to its statements by name.

    Duplicate and reserved names are reported in `errors`. Of several statements with the same name, the result contains
    the first one.
    """
    names: Names = {kind: {} for kind in StatementKind}
    firsts: dict[tuple[str, str], Statement] = {}
    for statement in statements:
        if statement.kind is StatementKind.PUBLISH:
            continue
        space = "table" if statement.kind in _RELATIONS else statement.kind.value
        first = firsts.setdefault((space, statement.name.lower()), statement)
        if first is not statement:
            errors.append(_duplicate_error(statement, first))
            if statement.name == first.name:
                continue
        errors.extend(_check_reserved_names(statement))
        if statement.kind is StatementKind.CONNECTION and statement.name == PROJECT:
            continue
        names[statement.kind][statement.name] = statement
    errors.extend(_check_companion_names(names))
    return names


def _check_reserved_names(statement: Statement) -> Iterator[WaterclockError]:
    name, span = statement.name, statement.span
    if statement.kind is StatementKind.CONNECTION and name == PROJECT:
        yield span.refuse(
            "E211",
            "project is a reserved name for a connection",
            why="it reads the files in the project's folder, and needs no declaration",
            fix="use it, or choose another name",
        )
    if statement.kind is StatementKind.FUNCTION and name.upper() in _RESERVED_FUNCTIONS:
        is_builtin = name.upper() in BUILTINS_BY_NAME
        fix = "remove it to use the built-in function, or choose another name" if is_builtin else "choose another name"
        yield span.refuse("E211", f"{name} is a built-in function", fix=fix)
    elif statement.kind is StatementKind.FUNCTION and name.lower() in OF_SPARK:
        why = "queries, rules and batches call Spark's function by that name"
        yield span.refuse("E211", f"{name} is a function of Spark", why=why, fix="choose another name")
    if statement.kind not in _RELATIONS:
        return
    schema, table = name.split(".")
    if schema.lower() in _RESERVED_SCHEMAS:
        why = _RESERVED_SCHEMAS[schema.lower()]
        yield span.refuse("E211", f"the schema {schema} is reserved", why=why, fix="choose another schema")
    if schema.startswith("_") or table.startswith("_"):
        yield span.refuse(
            "E211",
            f"{name} has a name that begins with _",
            why="such folders are reserved, and other tools do not show them",
            fix=f"write {schema.strip('_') or 'raw'}.{table.strip('_') or 'name'}",
        )


def _check_companion_names(names: Mapping[StatementKind, Mapping[str, Statement]]) -> Iterator[WaterclockError]:
    """Yield errors for the names of companion tables: late, quarantined and held rows of a table, and its view."""
    made = {name.lower(): name for kind in _TABLES for name in names[kind]}
    for kind in _RELATIONS:
        for name, statement in names[kind].items():
            lower = name.lower()
            owners = (made.get(lower.removesuffix(end)) for end in _SUFFIXES if lower.endswith(end))
            owner = next((owner for owner in owners if owner is not None), None)
            if owner is not None and statement.clause("LATE ROWS") is None:
                why = f"it belongs to {owner}"
                yield statement.span.refuse("E211", f"{name} is a reserved name", why=why, fix="choose another name")


def _duplicate_error(statement: Statement, first: Statement) -> WaterclockError:
    if statement.name != first.name:
        return statement.span.refuse(
            "E212",
            f"{statement.name} and {first.name} differ by case only",
            why=f"the other is at {first.span.place}; some systems distinguish them, and some do not",
            fix="choose another name",
        )
    return statement.span.refuse(
        "E212", f"{statement.name} is declared twice", why=f"first at {first.span.place}", fix="choose another name"
    )
