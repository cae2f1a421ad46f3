"""Converts the condition of REPLACE WHERE to a database's SQL, and compares it with that of the last delivery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waterclock.connectors.delivering import Delivered, Delivery
from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.errors import WaterclockError
from waterclock.flow.conditions import Condition, Term
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

_WHERE = "WHERE "
_NUMBERS = ("tinyint", "byte", "smallint", "short", "int", "bigint", "long", "float", "real", "double", "decimal")


def condition_sql(
    delivery: Delivery, dialect: SqlDialect, spelt: Mapping[str, str] | None = None
) -> tuple[str, list[Any]]:
    """Return the condition of a delivery's REPLACE WHERE in SQL, and its values; `TRUE` without a condition.

    `spelt` maps lower-case names to the destination's names.
    Raises E830 for a column that is not published, or that is compared with a value of another kind.
    """
    if delivery.where is None:
        return "TRUE", []
    kinds = {name.lower(): kind.lower() for name, kind in delivery.columns}
    values: list[Any] = []

    def quote(name: str) -> str:
        return dialect.escape(dialect.quote_identifier(name))

    def column_of(term: Term) -> tuple[str, str]:
        name = str(term.value).lower()
        if name not in kinds:
            raise _condition_error(delivery, f"{term.value} is not a published column")
        return quote((spelt or {}).get(name, _find_spelling(delivery, name))), kinds[name]

    def render_term(term: Term) -> str:
        if term.op in {"and", "or"}:
            return "(" + f" {term.op.upper()} ".join(map(render_term, term.parts)) + ")"
        if term.op == "not":
            return f"(NOT {render_term(term.parts[0])})"
        column, kind = column_of(term.parts[0])
        if term.op == "null":
            return f"({column} IS NULL)"
        value = term.parts[1].value
        _require_kind(delivery, column, kind, value)
        values.append(dialect.bind(value))
        return f"({dialect.as_text.format(column) if isinstance(value, str) else column} {term.op} {dialect.place})"

    return render_term(delivery.where.term), values


def replaced_rows(
    verb: str, unit: Unit, delivery: Delivery, dialect: SqlDialect, spelt: Mapping[str, str]
) -> tuple[str, list[Any]]:
    """Return a statement on the rows that a delivery replaces, and its values.

    `verb` is the start of the statement, such as `DELETE`.
    """
    rows = f"{verb} FROM {dialect.escape(dialect.table_of(unit))}"
    if delivery.is_by_label:
        label = dialect.escape(dialect.quote_identifier(spelt.get(TIMELABEL, TIMELABEL)))
        return f"{rows} WHERE {label} = {dialect.place}", [delivery.label_text]
    if delivery.where is None:
        return rows, []
    condition, values = condition_sql(delivery, dialect, spelt)
    return f"{rows} WHERE {condition}", values


def require_unchanged_condition(unit: Unit, delivery: Delivery, newest: Delivered | None) -> None:
    """Raise E831 if a delivery's condition differs from that of the last delivery, unless the option `adopt` is set.

    Otherwise rows of the old condition would remain, or rows that others wrote would be deleted.
    """
    before = newest.note if newest is not None and newest.note.startswith(_WHERE) else ""
    now = condition_text(delivery.where)
    if newest is None or before == now or unit.options.get("adopt"):
        return
    raise WaterclockError(
        "E831",
        f"{unit} would be replaced under another condition than before",
        where=f"{unit}@{delivery.label_text}",
        why=f"the last delivery replaced {before or 'all rows'}, this one replaces {now or 'all rows'}: "
        + ("older rows would remain" if now else "rows of others would be deleted"),
        fix=(f"DELETE FROM {unit.path} {before} to remove them; " if before and now else "")
        + "add OPTIONS (adopt true) for the next delivery, or restore the condition",
    )


def condition_text(where: Condition | None) -> str:
    """Return the text of a condition for the record of deliveries; empty without a condition."""
    return f"{_WHERE}{where.text}" if where else ""


def _find_spelling(delivery: Delivery, name: str) -> str:
    return next(column for column, _ in delivery.columns if column.lower() == name)


def _require_kind(delivery: Delivery, column: str, kind: str, value: Any) -> None:
    has_kind = (
        kind == "boolean"
        if isinstance(value, bool)
        else kind.startswith(("string", "char", "varchar"))
        if isinstance(value, str)
        else kind.startswith(_NUMBERS)
    )
    if not has_kind:
        raise _condition_error(delivery, f"{column} is {kind.upper()}, and is compared with {value!r}")


def _condition_error(delivery: Delivery, why: str) -> WaterclockError:
    return WaterclockError(
        "E830",
        f"the condition of {delivery.publish} cannot be applied at its destination",
        where=f"{delivery.publish}@{delivery.label_text}",
        why=why,
        fix="compare texts with texts, numbers with numbers, BOOLEAN with TRUE or FALSE; cast in the transform",
    )
