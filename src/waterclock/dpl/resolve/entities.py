"""Checks collects from connections of type `forms`, each of which declares an entity of master data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.statements import ParsedBatching
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.enums import Batching
from waterclock.flow.forms import normal_type

_EXAMPLE = "as in COLLECT mdm.product_map (supplier_sku KEY, sku NOT NULL) FROM forms.product_map EVERY DAY"


def resolve_entity(
    draft: UnresolvedTable, unit: Unit, by: ParsedBatching, errors: list[WaterclockError]
) -> ParsedBatching:
    """Return the way in which an entity is collected: its rows as of the end of each window.

    A BY, a query, a missing column list or KEY, and types that no form can edit are reported in `errors`.
    """
    errors.extend(_check_entity(draft, unit, by, draft.declared.columns))
    return ParsedBatching(Batching.AS_OF)


def _check_entity(
    draft: UnresolvedTable, unit: Unit, by: ParsedBatching, columns: Columns
) -> Iterator[WaterclockError]:
    if by.batching is not Batching.SNAPSHOT:
        yield draft.at("BY").refuse(
            "E398",
            f"{draft.name} cannot have a BY",
            why="the rows of a form are read as of the end of each window",
            fix="leave BY out",
        )
    if unit.query is not None or not unit.path.replace("_", "a").isalnum() or len(unit.path) > 60:
        yield draft.at("FROM").refuse(
            "E398",
            f"{unit.path or 'a query'} cannot be the name of a form",
            why="a form has one name of letters, digits and _, of at most 60 characters",
            fix=f"write it as in FROM {unit.connection}.product_map",
        )
    if draft.statement.has_failed("COLUMNS"):
        return
    if not columns.named or columns.is_open or not columns.keys:
        what = "has no KEY" if columns.named and not columns.is_open else "does not list its columns"
        yield draft.span.refuse(
            "E398", f"{draft.name} {what}", why="its column list declares the fields of the form", fix=_EXAMPLE
        )
    for column in columns.named:
        if normal_type(column.type) is None or {'"', "\\"} & {*column.name} or column.name.startswith("_"):
            is_type = normal_type(column.type) is None
            yield draft.span.refuse(
                "E398",
                f"no form can edit {column.name}" + (f" of type {column.type}" if is_type else ""),
                why="a form has texts, numbers, BOOLEAN, DATE and TIMESTAMP; names do not begin with _, "
                'and have no " or \\',
                fix="choose one of these types" if is_type else "rename the column",
            )


def check_entities(drafts: Mapping[str, UnresolvedTable], systems: ValidConnections) -> Iterator[WaterclockError]:
    """Yield E398 for each table that collects a form that another table collects: a form has one column list."""
    seen: dict[tuple[str, str], str] = {}
    for name, draft in drafts.items():
        unit = draft.declared.source.unit if draft.declared.source else None
        capabilities = None if unit is None else systems.capabilities_of(unit)
        if unit is None or capabilities is None or Batching.AS_OF not in capabilities.collects:
            continue
        first = seen.setdefault((unit.connection, unit.path), name)
        if first != name:
            yield draft.at("FROM").refuse(
                "E398",
                f"{unit} is collected by {first} too",
                why="the column list of one COLLECT declares the fields of the form",
                fix=f"read {first} in a TRANSFORM, or choose another name for the form",
            )
