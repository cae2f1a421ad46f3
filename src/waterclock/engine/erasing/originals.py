"""Removes rows of persons from the originals that connections store: archived files, and stored responses of APIs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from waterclock.connectors.original_erasure import OriginalEraser, OriginalErasure, Subjects
from waterclock.engine.erasing.request import ErasureRequest
from waterclock.engine.erasing.search import searched_tables
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table


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
    def rows(self) -> int:
        """The number of rows of persons."""
        return sum(each.removed for each in self.files)


def erase_originals(work: RunContext, request: ErasureRequest, *, is_dry_run: bool = False) -> list[ErasedOriginals]:
    """Rewrite the originals of all collects with columns of the subject, or with `is_dry_run` only count the rows."""
    return [
        found
        for table in searched_tables(work, request)
        if table.source is not None and (found := _erase_of_table(work, request, table, is_dry_run=is_dry_run))
    ]


def _erase_of_table(
    work: RunContext, request: ErasureRequest, table: Table, *, is_dry_run: bool
) -> ErasedOriginals | None:
    """Return the results for a collect, or None if its connection stores no originals."""
    found: list[OriginalErasure] = []
    try:
        for each in _iterate(work, request, table, is_dry_run=is_dry_run):
            found.append(each)  # noqa: PERF402 - those before an error count
    except WaterclockError as error:
        return ErasedOriginals(table.name, tuple(found), error.what)
    return ErasedOriginals(table.name, tuple(found)) if found else None


def _iterate(work: RunContext, request: ErasureRequest, table: Table, *, is_dry_run: bool) -> Iterator[OriginalErasure]:
    if table.source is None:
        return
    unit = work.connections.resolve_unit(table.source.unit)
    collector = work.connections.collector(unit.connection)
    if not isinstance(collector, OriginalEraser):
        return
    declared = {column.name.lower(): column.type for column in table.columns.named}
    types = {name: declared.get(name.lower()) for name in request.columns.columns[table.name]}
    yield from collector.erase_originals(
        unit,
        table.columns,
        Subjects(types, request.searched.__contains__),
        is_dry_run=is_dry_run,
        requested=table.each.parameters if table.each else (),
    )
