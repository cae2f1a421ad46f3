"""Merges the rows of a slice from a staging table, and refuses different keys that the database treats as equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.sql.capabilities import GONE
from waterclock.connectors.sql.destination_errors import equal_keys_error
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL


@dataclass(frozen=True, slots=True)
class StagedSlice:
    """A staging table with the rows of a slice. `name` is its name in SQL.

    `columns` maps the delivery's columns, in lower case, to their names in the table and in the destination, in SQL.
    """

    name: str
    columns: Mapping[str, tuple[str, str]]

    def same_keys(self, delivery: Delivery) -> str:
        """Return the SQL condition that a row `s` of the slice and a row `t` of the destination have the same key."""
        keys = (self.columns[key.lower()] for key in delivery.keys)
        return " AND ".join(f"s.{own} = t.{its}" for own, its in keys)

    def changed_columns(self, delivery: Delivery) -> list[tuple[str, str]]:
        """Return the columns that a MERGE updates: those that are not keys."""
        keys = {key.lower() for key in delivery.keys}
        return [pair for name, pair in self.columns.items() if name not in keys]

    def label_guard(self, delivery: Delivery) -> str:
        """Return an SQL condition, after AND, by which a MERGE skips rows of newer labels; empty if none can exist.

        None can exist if rows have no label, or if the label is part of the key.
        """
        if not delivery.is_by_label or TIMELABEL in {key.lower() for key in delivery.keys}:
            return ""
        own, its = self.columns[TIMELABEL]
        return f" AND (t.{its} IS NULL OR t.{its} <= s.{own})"


def stage_of(
    session: SqlSession, name: str, delivery: Delivery, spelt: Mapping[str, str], own: Mapping[str, str] | None = None
) -> StagedSlice:
    """Describe a staging table.

    `spelt` maps lower-case names to the destination's names, `own` to those of the staging table, if they differ.
    """
    quote = session.dialect.quote_identifier
    names = [each.lower() for each in delivery.column_names]
    return StagedSlice(name, {each: (quote((own or spelt)[each]), quote(spelt[each])) for each in names})


def merge(session: SqlSession, unit: Unit, delivery: Delivery, staged: StagedSlice) -> tuple[int, int]:
    """Delete the rows of deleted keys, then update or insert the other rows, with the MERGE of standard SQL.

    Return the numbers of rows written and deleted.
    """
    table, own, same = session.dialect.table_of(unit), staged.name, staged.same_keys(delivery)
    mark = session.dialect.quote_identifier(GONE)
    deletes = f"DELETE FROM {table} AS t WHERE"
    gone = session.execute_update(f"{deletes} EXISTS (SELECT 1 FROM {own} AS s WHERE s.{mark} AND {same})")
    if delivery.is_whole and not delivery.is_by_label:
        kept = f"SELECT 1 FROM {own} AS s WHERE NOT s.{mark} AND {same}"
        gone += session.execute_update(f"{deletes} NOT EXISTS ({kept})")
    update = ", ".join(f"{its} = s.{name}" for name, its in staged.changed_columns(delivery))
    matched = f"WHEN MATCHED{staged.label_guard(delivery)} THEN UPDATE SET {update} " if update else ""
    listed = ", ".join(its for _, its in staged.columns.values())
    values = ", ".join(f"s.{name}" for name, _ in staged.columns.values())
    session.execute(
        f"MERGE INTO {table} AS t USING (SELECT * FROM {own} WHERE NOT {mark}) AS s ON {same}"
        f" {matched}WHEN NOT MATCHED THEN INSERT ({listed}) VALUES ({values})"
    )
    return int(session.first_of(f"SELECT count(*) FROM {own} WHERE NOT {mark}")[0]), gone


def require_distinct_keys(
    session: SqlSession, unit: Unit, delivery: Delivery, staged: StagedSlice, texts: Sequence[str], better: str
) -> None:
    """Raise E876 if the destination's columns treat different keys of the slice as equal, such as `a` and `A`.

    `texts` are the keys whose columns contain text.
    """
    dialect, names = session.dialect, [staged.columns[key.lower()][0] for key in delivery.keys]
    listed, limit = ", ".join(names), dialect.limit.format(1)
    row = session.first_of(f"SELECT {listed} FROM {staged.name} GROUP BY {listed} HAVING count(*) > 1 {limit}")
    if row is None and texts:
        pairs = ([f"{of}.{name}" for of, name in zip("st", staged.columns[key.lower()], strict=True)] for key in texts)
        other = " OR ".join(f"{dialect.as_text.format(own)} <> {dialect.as_text.format(its)}" for own, its in pairs)
        found = ", ".join(f"s.{name}" for name in names)
        joined = f"{staged.name} AS s JOIN {dialect.table_of(unit)} AS t ON {staged.same_keys(delivery)}"
        row = session.first_of(f"SELECT {found} FROM {joined} WHERE {other} {limit}")
    if row is not None:
        raise equal_keys_error(unit, delivery, ", ".join(map(str, row)), ", ".join(delivery.keys), better)
