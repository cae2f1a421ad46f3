"""Checks collects and publishes with `format 'raw'`, which copy files unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from waterclock.dpl.resolve.connections import Systems
from waterclock.dpl.resolve.unresolved import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import OptionsSaid
from waterclock.errors import WaterclockError
from waterclock.flow.choices import Batching, Kind, Mode
from waterclock.flow.declarations import Unit

_RAW = "raw"


def refused_copies(drafts: Mapping[str, UnresolvedTable], systems: Systems) -> Iterator[WaterclockError]:
    """Report raw collects BY DATA TIME, and raw publishes of rows, of some columns, or in a mode other than APPEND."""
    for draft in drafts.values():
        source = draft.declared.source
        if source is not None and source.batching is Batching.DATA_TIME and _copies(source.unit, systems):
            yield draft.at("BY").refuse(
                "E287",
                f"{draft.name} takes files as they are, BY DATA TIME",
                why="nothing is read of them, so no row tells a time",
                fix="say BY ARRIVAL TIME",
            )
        if (
            draft.kind is Kind.PUBLISH
            and draft.declared.destination is not None
            and _copies(draft.declared.destination, systems)
        ):
            table = drafts.get(draft.statement.name)
            if table is not None:
                yield from _publish(draft, table, systems)


def _publish(draft: UnresolvedTable, table: UnresolvedTable, systems: Systems) -> Iterator[WaterclockError]:
    said = draft.statement.value("OPTIONS", OptionsSaid)
    span = said.spans.get("format", draft.span) if said else draft.span
    if table.declared.source is None or not _copies(table.declared.source.unit, systems):
        yield _copy_error(
            span, f"{table.name} holds no files to copy", "its rows are what was read of them, or made",
            f"publish a COLLECT with OPTIONS (format '{_RAW}'), or say another format",
        )  # fmt: skip
        return
    if not draft.declared.columns.is_open:
        yield _copy_error(
            draft.at("COLUMNS"), "columns of what is copied", "a file is copied whole, with all that is in it",
            "leave the list out; to send some columns, collect what the files hold",
        )  # fmt: skip
    if draft.declared.mode is not Mode.APPEND:
        yield _copy_error(
            draft.at("MODE"), f"{draft.declared.mode.name} of what is copied",
            "each label brings files and takes none away",
            f"say {table.name} PARTITIONED, or APPEND of both",
        )  # fmt: skip
    named = {column.name.lower() for column in table.declared.columns.named}
    lacking = [name for name in _NEEDED if not table.declared.columns.is_open and name not in named]
    if lacking:
        yield _copy_error(
            span, f"{table.name} has no {', '.join(lacking)}", "by these a copy is found, ordered and checked",
            f"name {', '.join(lacking)} in the columns of the COLLECT",
        )  # fmt: skip


_NEEDED = ("name", "stamp", "changed", "size", "sha256")


def _copies(unit: Unit, systems: Systems) -> bool:
    capabilities = systems.of(unit)
    return capabilities is not None and capabilities.copies and unit.options.get("format") == _RAW


def _copy_error(span: Span, what: str, why: str, fix: str) -> WaterclockError:
    return span.refuse("E287", what, why=why, fix=fix)
