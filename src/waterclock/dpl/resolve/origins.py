"""Checks columns that contain a row's origin: only a collect may have them, if its source provides the value."""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.dpl.syntax.statements import ColumnsSaid, Statement, StatementKind
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.changes import CHANGE
from waterclock.flow.origins import SOURCE


def refused_origins(
    statement: Statement, capabilities: Capabilities | None, *, by_changes: bool = False
) -> Iterator[WaterclockError]:
    """Report `_source.…` in statements that collect nothing, and for values that the source does not provide.

    Also report `_change.…` outside of a collect BY CHANGES.
    """
    columns = statement.value("COLUMNS", ColumnsSaid)
    for column in columns.columns if columns else ():
        said = column.tells
        if said is None:
            continue
        if said.what.startswith(f"{CHANGE}."):
            if not by_changes:
                yield said.span.refuse(
                    "E328",
                    f"{statement.name} is not collected BY CHANGES, and has no {said.what}",
                    why="only a log of changes tells what became of a row",
                    fix=f"say BY CHANGES in the COLLECT; elsewhere name the column {column.name}",
                )
        elif statement.kind is not StatementKind.COLLECT:
            yield said.span.refuse(
                "E298",
                f"a {statement.kind.value} has no {SOURCE}",
                why="its rows are made of tables; where those came from, a COLLECT tells",
                fix=f"say {column.name} AS ({SOURCE}.{said.what}) in the COLLECT, and name {column.name} here",
            )
        elif capabilities is not None and said.what not in capabilities.tells:
            known = ", ".join(f"{SOURCE}.{each}" for each in sorted(capabilities.tells))
            yield said.span.refuse(
                "E299",
                f"{capabilities.type} does not tell {SOURCE}.{said.what}",
                why=f"it tells {known}" if known else "of where its rows came from it tells nothing",
                fix="leave the column out; `audit` tells from what a batch was collected",
            )
