"""Refuses deliveries whose deletes would make the database change other tables, by ON DELETE of a foreign key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.sql.destination_errors import cascade_error
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key of another table with an ON DELETE that changes rows, such as `CASCADE`.

    `name` is the table's name for messages. `table`, `columns` and `referred` (the columns that the key refers to) are
    quoted for SQL.
    """

    name: str
    table: str
    rule: str
    columns: tuple[str, ...]
    referred: tuple[str, ...]


def foreign_keys(rows: Iterable[Sequence[Any]], quote: Callable[[str], str]) -> list[ForeignKey]:
    """Return foreign keys from rows of schema, table, constraint, rule, column and referred column."""
    found: dict[tuple[str, str, str, str], list[tuple[str, str]]] = {}
    for schema, table, constraint, rule, own, referred in rows:
        found.setdefault((str(schema), str(table), str(constraint), str(rule)), []).append((own, referred))
    return [
        ForeignKey(
            table,
            f"{quote(schema)}.{quote(table)}" if schema else quote(table),
            rule,
            tuple(quote(own) for own, _ in columns),
            tuple(quote(referred) for _, referred in columns),
        )
        for (schema, table, _, rule), columns in found.items()
    ]


def require_no_cascades(
    unit: Unit,
    delivery: Delivery,
    references: Iterable[ForeignKey],
    replaced: tuple[str, Sequence[Any]],
    first_of: Callable[[str, Sequence[Any]], Any],
    fix: str,
    limit: str = "LIMIT {}",
) -> None:
    """Raise E820 if rows of other tables refer to rows that a delivery would delete and write again.

    A MERGE of a regular table is not checked, as it deletes only rows that the table no longer has. `replaced` is a
    SELECT of the rows that the delivery replaces, with its values. `first_of` runs a query and returns its first row.
    """
    if delivery.mode is Mode.MERGE and not delivery.is_by_label:
        return
    rows, values = replaced
    for each in references:
        same = " AND ".join(f"r.{own} = t.{its}" for own, its in zip(each.columns, each.referred, strict=True))
        if first_of(f"SELECT 1 FROM {each.table} AS r JOIN ({rows}) AS t ON {same} {limit.format(1)}", values):
            raise cascade_error(unit, delivery, each.name, each.rule, fix)
