"""Checks collects and publishes with `format 'raw'`, which copy files unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.syntax.source_text import Span
from waterclock.dpl.syntax.statements import ParsedOptions
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Batching, Kind, Mode

_RAW = "raw"


def check_copies(drafts: Mapping[str, UnresolvedTable], systems: ValidConnections) -> Iterator[WaterclockError]:
    """Yield errors for raw collects BY DATA TIME, and for raw publishes of tables that do not contain whole files."""
    for draft in drafts.values():
        source = draft.declared.source
        if source is not None and source.batching is Batching.DATA_TIME and _copies_files(source.unit, systems):
            yield draft.at("BY").refuse(
                "E287",
                f"{draft.name} copies whole files, and cannot be collected BY DATA TIME",
                why="the files are not read, so there are no rows with a data time",
                fix="write BY ARRIVAL TIME",
            )
        if (
            draft.kind is Kind.PUBLISH
            and draft.declared.destination is not None
            and _copies_files(draft.declared.destination, systems)
        ):
            table = drafts.get(draft.statement.name)
            if table is not None:
                yield from _check_raw_publish(draft, table, systems)


def _check_raw_publish(
    draft: UnresolvedTable, table: UnresolvedTable, systems: ValidConnections
) -> Iterator[WaterclockError]:
    options = draft.statement.value("OPTIONS", ParsedOptions)
    span = options.spans.get("format", draft.span) if options else draft.span
    if table.declared.source is None or not _copies_files(table.declared.source.unit, systems):
        yield _copy_error(
            span, f"{table.name} has no files to copy", "it contains rows, not files",
            f"publish a COLLECT with OPTIONS (format '{_RAW}'), or choose another format",
        )  # fmt: skip
        return
    if not draft.declared.columns.is_open:
        yield _copy_error(
            draft.at("COLUMNS"), "copied files have no column list", "each file is copied whole",
            "leave the list out; to send some columns, collect the rows of the files",
        )  # fmt: skip
    if draft.declared.mode is not Mode.APPEND:
        yield _copy_error(
            draft.at("MODE"), f"copied files cannot be published by {draft.declared.mode.name}",
            "each label adds files and removes none",
            f"make {table.name} PARTITIONED, or use APPEND for both",
        )  # fmt: skip
    named = {column.name.lower() for column in table.declared.columns.named}
    missing = [name for name in _NEEDED if not table.declared.columns.is_open and name not in named]
    if missing:
        yield _copy_error(
            span, f"{table.name} has no {', '.join(missing)}", "copies are found, ordered and checked by these columns",
            f"add {', '.join(missing)} to the columns of the COLLECT",
        )  # fmt: skip


_NEEDED = ("name", "stamp", "changed", "size", "sha256")


def _copies_files(unit: Unit, systems: ValidConnections) -> bool:
    capabilities = systems.capabilities_of(unit)
    return capabilities is not None and capabilities.copies and unit.options.get("format") == _RAW


def _copy_error(span: Span, what: str, why: str, fix: str) -> WaterclockError:
    return span.refuse("E287", what, why=why, fix=fix)
