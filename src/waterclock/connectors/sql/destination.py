"""Creates and alters the table to which a delivery writes, and refuses tables with rows that others wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.sql.destination_errors import foreign_rows_error
from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.connectors.sql.replace_where import condition_sql
from waterclock.connectors.sql.sessions import SqlSession
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode
from waterclock.timelabel.label import TIMELABEL


@dataclass(frozen=True, slots=True)
class DestinationIndex:
    """An index that a destination needs: a unique one on its keys, or one on `timelabel`."""

    columns: tuple[str, ...]
    is_unique: bool

    def is_served_by(self, members: Sequence[str], *, is_unique: bool) -> bool:
        """Return whether an existing index on the columns `members`, in their order, serves the same purpose."""
        wanted = [column.lower() for column in self.columns]
        there = [member.lower() for member in members]
        return set(there) == set(wanted) and is_unique if self.is_unique else there[:1] == wanted


def is_indexed(wanted: DestinationIndex, rows: Iterable[Sequence[Any]]) -> bool:
    """Return whether one of the existing indexes serves the purpose of the wanted index.

    `rows` describe existing indexes: index name, whether it is unique, and column, in index order.
    """
    members: dict[tuple[Any, bool], list[str]] = {}
    for index, is_unique, column in rows:
        members.setdefault((index, bool(is_unique)), []).append(str(column))
    return any(wanted.is_served_by(names, is_unique=is_unique) for (_, is_unique), names in members.items())


class NamedColumn(Protocol):
    """A column of a destination."""

    @property
    def name(self) -> str:
        """The column's name, in the destination's spelling."""


def stored_names(there: Mapping[str, NamedColumn]) -> dict[str, str]:
    """Map the lower-case names of columns to their names in the destination."""
    return {name: column.name for name, column in there.items()}


def wanted_columns(delivery: Delivery, dialect: SqlDialect) -> dict[str, str]:
    """Map the columns that a delivery writes to their SQL types in a new table."""
    wanted = {name: dialect.sql_type(kind) for name, kind in delivery.columns}
    return {**wanted, TIMELABEL: dialect.text} if delivery.is_by_label else wanted


def wanted_index(delivery: Delivery) -> DestinationIndex | None:
    """Return the index that a delivery needs; None if it needs none."""
    if delivery.mode is Mode.MERGE:
        return DestinationIndex(delivery.keys, is_unique=True)
    return DestinationIndex((TIMELABEL,), is_unique=False) if delivery.is_by_label else None


def create_table(session: SqlSession, unit: Unit, wanted: Mapping[str, str], more: str = "", ending: str = "") -> None:
    """Create the destination table with the wanted columns.

    `more` is SQL after the columns, within the parentheses; `ending` is SQL after the closing parenthesis.
    """
    listed = ", ".join(f"{session.dialect.quote_identifier(name)} {kind}" for name, kind in wanted.items())
    session.execute(f"CREATE TABLE {session.dialect.table_of(unit)} ({listed}{more}){ending}")


def add_columns(session: SqlSession, unit: Unit, wanted: Mapping[str, str], known: Mapping[str, object]) -> bool:
    """Add the wanted columns that the destination does not have. Return whether any was added."""
    missing = {name: kind for name, kind in wanted.items() if name.lower() not in known}
    for name, kind in missing.items():
        quoted = session.dialect.quote_identifier(name)
        session.execute(f"ALTER TABLE {session.dialect.table_of(unit)} ADD {quoted} {kind}")
    return bool(missing)


def require_own_rows(
    session: SqlSession, unit: Unit, delivery: Delivery, spelt: Mapping[str, str], *, is_ours: bool
) -> None:
    """Raise E820 for a table to which another project publishes, or which has rows that this publish did not write.

    `is_ours`: this publish has delivered to the table before, so its rows are not checked. `spelt` maps lower-case
    column names to the destination's.
    """
    other = session.record.other_project(delivery)
    condition, values = condition_sql(delivery, session.dialect, spelt)
    table = session.dialect.escape(session.dialect.table_of(unit))
    has_rows = is_ours or session.first_of(
        f"SELECT 1 FROM {table} WHERE {condition} {session.dialect.limit.format(1)}", values
    )
    if not other and (is_ours or not has_rows or unit.options.get("adopt")):
        return
    raise foreign_rows_error(unit, delivery, of=other)


def require_short_names(unit: Unit, delivery: Delivery, longest: int, why: str, *, is_in_bytes: bool = False) -> None:
    """Raise E813 for table and column names that the server would truncate, as two could become equal."""
    names = [*unit.path.split("."), *(name for name, _ in delivery.columns)]
    long = [name for name in names if len(name.encode() if is_in_bytes else name) > longest]
    if long:
        raise WaterclockError(
            "E813",
            f"{unit} cannot be delivered: {', '.join(long)} {'is' if len(long) == 1 else 'are'} too long",
            where=f"{unit}@{delivery.label_text}",
            why=why,
            fix="give the column a shorter name in the transform, or publish to a table with a shorter name",
        )
