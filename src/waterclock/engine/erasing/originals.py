"""Removes rows of persons from the originals that connections store: archived files, and stored responses of APIs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from waterclock.connectors.original_erasure import OriginalEraser, OriginalErasure, OriginalSearcher, Subjects
from waterclock.engine.erasing.request import ErasureRequest
from waterclock.engine.erasing.search import searched_places
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table, Unit
from waterclock.flow.forms import FORMS
from waterclock.storage.search.byte_search import ByteSearch


@dataclass(frozen=True, slots=True)
class ErasedOriginals:
    """The results for the originals of one collect. `error` is why not all of them could be listed, or empty."""

    table: str
    files: tuple[OriginalErasure, ...] = ()
    error: str = ""

    @property
    def touched(self) -> int:
        """The number of originals with rows of persons."""
        return sum(each.removed > 0 for each in self.files)

    @property
    def kind(self) -> str:
        """The noun for one of the originals."""
        return self.files[0].kind if self.files else "file"

    @property
    def rows(self) -> int:
        """The number of rows of persons."""
        return sum(each.removed for each in self.files)


def erase_originals(work: RunContext, request: ErasureRequest, *, is_dry_run: bool = False) -> list[ErasedOriginals]:
    """Rewrite the originals of all collects with columns of the subject, or with `is_dry_run` only count the rows.

    The forms to which tables with such columns are published count as originals, too.
    """
    return [
        found
        for table, unit in _units_of(work, request)
        if (found := _erase_of_unit(work, request, table, unit, is_dry_run=is_dry_run))
    ]


def search_originals(work: RunContext, request: ErasureRequest, search: ByteSearch) -> None:
    """Search the originals that are not files of the storage, such as the database of a form."""
    for _, unit in _units_of(work, request):
        try:
            collector = work.connections.collector(unit.connection)
            if isinstance(collector, OriginalSearcher):
                collector.search_originals(unit, search)
        except WaterclockError as error:
            search.report_unsearched(str(unit), error.what)


def _units_of(work: RunContext, request: ErasureRequest) -> Iterator[tuple[Table, Unit]]:
    """Yield the tables with columns of the subject with their units: a source, or a form to which it is published."""
    for of_table, table in searched_places(work, request):
        if table.source is not None:
            yield table, of_table.connections.resolve_unit(table.source.unit)
        elif table.destination is not None and work.flow.connections[table.destination.connection].type == FORMS:
            yield table, work.connections.resolve_unit(table.destination)


def _erase_of_unit(
    work: RunContext, request: ErasureRequest, table: Table, unit: Unit, *, is_dry_run: bool
) -> ErasedOriginals | None:
    """Return the results for a unit, or None if its connection stores no originals."""
    found: list[OriginalErasure] = []
    try:
        for each in _iterate(work, request, table, unit, is_dry_run=is_dry_run):
            found.append(each)  # noqa: PERF402 - those before an error count
    except WaterclockError as error:
        return ErasedOriginals(table.name, tuple(found), error.what)
    return ErasedOriginals(table.name, tuple(found)) if found else None


def _iterate(
    work: RunContext, request: ErasureRequest, table: Table, unit: Unit, *, is_dry_run: bool
) -> Iterator[OriginalErasure]:
    collector = work.connections.collector(unit.connection)
    if not isinstance(collector, OriginalEraser):
        return
    declared = {column.name.lower(): column.type for column in table.columns.named}
    types = {name: declared.get(name.lower()) for name in request.columns_of(table.name)}
    yield from collector.erase_originals(
        unit,
        table.columns,
        Subjects(types, request.searched.__contains__, redact=request.redactor()),
        is_dry_run=is_dry_run,
        requested=table.each.parameters if table.each else (),
    )
