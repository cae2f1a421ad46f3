"""Formats the plan and the result of an erasure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from waterclock.engine.erasing.erasing import ErasurePlan, ErasureResult
from waterclock.engine.erasing.left_places import LeftPlace
from waterclock.engine.erasing.search import TableSearch
from waterclock.flow.enums import Kind
from waterclock.operations.formatting import count_words


def format_plan(plan: ErasurePlan) -> Iterator[str]:
    """Yield the lines that show what an erasure would touch, and what it would leave."""
    request = plan.request
    yield f"{count_words(len(request.values), request.subject)}, with the key {request.key}:"
    if all(found.is_empty for found in plan.tables) and not any(of.touched for of in plan.originals):
        yield "  no rows are stored; the persons are kept out of later batches"
    for found in plan.tables:
        if not found.is_empty:
            yield f"  {found.table} ({', '.join(found.columns)}): {', '.join(_parts(found))}"
    for of in plan.originals:
        if of.touched:
            row = "change" if of.kind == "history" else "row"
            yield f"  originals of {of.table}: {count_words(of.rows, row)} in {count_words(of.touched, of.kind)}"
    for table, column in request.columns.pseudonyms.items():
        yield f"  {table} keeps its rows with {column}, which nothing connects with a person any more"
    yield "  older versions of these tables cannot be read any more"
    yield from _format_left(plan.left)


def format_result(result: ErasureResult, certificate: str) -> Iterator[str]:
    """Yield the lines that report a finished or unfinished erasure."""
    number = result.erasure.number
    if not result.left:
        yield f"erasure {number} is done; certificate: {certificate}"
        return
    yield f"erasure {number}: {count_words(len(result.left), 'place')} left; certificate: {certificate}"
    yield from _format_left(result.left)


def _format_left(left: Iterable[LeftPlace]) -> Iterator[str]:
    for each in left:
        yield f"  not erased: {each.place}: {each.why}. Fix: {each.fix}"


def _parts(found: TableSearch) -> Iterator[str]:
    if found.touched:
        what = "delivered " if found.kind is Kind.PUBLISH else ""
        yield f"{count_words(found.rows, what + 'row')} in {count_words(len(found.touched), 'label')}"
    if found.aside_rows:
        yield f"{count_words(found.aside_rows, 'quarantined row')}"
    if found.older:
        yield f"{count_words(found.older_rows, 'row')} in {count_words(len(found.older), 'older slice')}"
    if found.held:
        yield f"{count_words(len(found.held), 'held label')}"
