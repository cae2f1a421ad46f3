"""Suggests rules for tables that declare none, from the row counts of their newest batches in the ledger.

Only row counts are used, because the ledger stores no values. No row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from waterclock.flow.checks import every_rule
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Mode
from waterclock.operations.formatting import count_words, number_words
from waterclock.operations.project_opening import OpenedProject

_FEWEST = 5  # the minimum of batches for a suggestion
_FEWEST_FOR_BOUNDS = 20
_MOST_TABLES = 20


@dataclass(frozen=True, slots=True)
class SuggestedRule:
    """A rule that all of the newest batches of a table would pass. `text` can be put into its declaration."""

    table: str
    rule: str
    text: str
    why: str


def has_rules(table: Table) -> bool:
    """Return whether a table, or one of its columns, has an EXPECT."""
    return bool(every_rule(table))


def suggested_rules(at: OpenedProject, tables: Sequence[Table], newest: int) -> tuple[SuggestedRule, ...]:
    """Suggest rules for the first tables that declare none. Cost: a query of the ledger per table, for up to twenty."""
    if at.ledger is None:
        return ()
    found: list[SuggestedRule] = []
    for table in [table for table in tables if not has_rules(table)][:_MOST_TABLES]:
        cells = at.ledger.past.newest(table.name, newest)
        rows = [cell.rows for cell in cells if cell.current_claim is not None and cell.rows is not None]
        found += _suggest_rules(table, rows)
    return tuple(found)


def _suggest_rules(table: Table, rows: Sequence[int]) -> Iterator[SuggestedRule]:
    if len(rows) < _FEWEST or min(rows) == 0:
        return
    low, high = min(rows), max(rows)
    batches = f"its newest {number_words(len(rows))} batches"
    yield _build_suggestion(table, "some_rows", "count(*) > 0", f"none of {batches} was empty")
    if len(rows) >= _FEWEST_FOR_BOUNDS and table.mode is Mode.APPEND:  # states grow with time: no bounds
        least, most = _round_bound(low // 2, is_up=False), _round_bound(high * 2, is_up=True)
        why = f"{batches} had {number_words(low)} to {count_words(high, 'row')}; half as many to twice as many pass"
        yield _build_suggestion(table, "usual_rows", f"count(*) BETWEEN {least} AND {most}", why)


def _build_suggestion(table: Table, name: str, expression: str, why: str) -> SuggestedRule:
    declaration = f"{expression} AS {name} ELSE WARN"
    text = f'expect="{declaration}"' if table.place.file.endswith(".py") else f"EXPECT {declaration}"
    return SuggestedRule(table.name, name, text, why)


def _round_bound(count: int, *, is_up: bool) -> int:
    """Round to two digits followed by zeros, in the direction that lets more rows pass."""
    step: int = 10 ** max(len(str(count)) - 2, 0)
    return -(-count // step) * step if is_up else count // step * step
