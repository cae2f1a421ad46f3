"""Resolves and checks WAS, the former names of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from waterclock.dpl.resolve.former_code import Names
from waterclock.dpl.resolve.late_rows import KEEPS_LATE
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.resolve.watermarks import MARKS
from waterclock.dpl.syntax.statements import ParsedWas, Statement
from waterclock.errors import WaterclockError
from waterclock.flow.late_rows import LateRows, late_of
from waterclock.flow.open_windows import open_table_of
from waterclock.flow.watermarks import MARK, Watermark, mark_of


def check_renames(drafts: Mapping[str, UnresolvedTable], views: Mapping[str, Statement]) -> Iterator[WaterclockError]:
    """Yield errors for a WAS with the name of an existing table, and for two tables with the same WAS."""
    by_name = {name.lower(): draft.span.place for name, draft in drafts.items()}
    by_name |= {name.lower(): statement.span.place for name, statement in views.items()}
    firsts: dict[str, UnresolvedTable] = {}
    for name, draft in drafts.items():
        was = draft.statement.value("WAS", ParsedWas)
        if was is None:
            continue
        if was.table.lower() == name.lower():
            why = None if was.table == name else "names that differ by case only are the same name"
            yield was.span.refuse("E317", f"WAS has the current name of {name}", why=why, fix="leave WAS out")
        elif was.table.lower() in by_name:
            yield was.span.refuse(
                "E317",
                f"{was.table} is still declared",
                why=f"it is declared at {by_name[was.table.lower()]}, and its history cannot belong to two tables",
                fix=f"remove that statement, or leave WAS out to start {name} without history",
            )
        elif was.table.lower() in firsts:
            other = firsts[was.table.lower()]
            yield was.span.refuse(
                "E317",
                f"{name} and {other.name} both have WAS {was.table}",
                why=f"{other.name} has it at {other.at('WAS').place}, and only one table can take over the history",
                fix="remove WAS from one of them",
            )
        else:
            firsts[was.table.lower()] = draft


def former_names(drafts: Mapping[str, UnresolvedTable]) -> Names:
    """Map the current names of renamed tables, and of their companion tables, to their former names."""
    declared = {name: draft.statement.value("WAS", ParsedWas) for name, draft in drafts.items()}
    names = {name: was.table for name, was in declared.items() if was is not None}
    companions: dict[str, str] = {}
    for name, draft in drafts.items():
        before = name
        late = draft.statement.value(KEEPS_LATE, LateRows)
        if draft.statement.value(MARKS, Watermark) is not None:
            of = name.removesuffix(MARK)
            before = mark_of(names.get(of, of))
        elif late is not None:
            before = late_of(names.get(late.of, late.of))
            if name != late_of(late.of):  # there is one such table for each UNTIL input
                of = draft.declared.reads[0].table
                before = f"{before}_{_bare_name(names.get(of, of))}"
        elif name in names:
            companions[open_table_of(name)] = open_table_of(names[name])
        if before != name:
            companions[name] = before
    return companions | names


def _bare_name(table: str) -> str:
    return table.rpartition(".")[2]
