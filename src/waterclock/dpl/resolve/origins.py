"""Checks columns with the origin of a row (`_source.file`) or the metadata of a change (`_change.op`)."""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.dpl.syntax.statements import ParsedColumnList, Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.changes import CHANGE
from waterclock.flow.origins import SOURCE


def check_origins(
    statement: Statement, capabilities: Capabilities | None, *, by_changes: bool = False
) -> Iterator[WaterclockError]:
    """Yield errors for `_source.…` and `_change.…` that are not valid here.

    `_source.…` needs a collect whose source provides the value, `_change.…` a collect BY CHANGES.
    """
    columns = statement.value("COLUMNS", ParsedColumnList)
    for column in columns.columns if columns else ():
        metadata = column.metadata_field
        if metadata is None:
            continue
        if metadata.what.startswith(f"{CHANGE}."):
            if not by_changes:
                yield metadata.span.refuse(
                    "E328",
                    f"{statement.name} is not collected BY CHANGES, and has no {metadata.what}",
                    why="only a change log contains the fields of a change",
                    fix=f"write BY CHANGES in the COLLECT; in other statements name the column {column.name}",
                )
        elif statement.kind is not StatementKind.COLLECT:
            yield metadata.span.refuse(
                "E298",
                f"a {statement.kind.value} has no {SOURCE}",
                why="its rows come from tables; only the rows of a COLLECT come from a source",
                fix=f"write {column.name} AS ({SOURCE}.{metadata.what}) in the COLLECT, and name {column.name} here",
            )
        elif capabilities is not None and metadata.what not in capabilities.origin_fields:
            known = ", ".join(f"{SOURCE}.{each}" for each in sorted(capabilities.origin_fields))
            yield metadata.span.refuse(
                "E299",
                f"{capabilities.type} has no {SOURCE}.{metadata.what}",
                why=f"it has {known}" if known else f"it has no fields of {SOURCE}",
                fix="leave the column out; `audit` shows what a batch was collected from",
            )
