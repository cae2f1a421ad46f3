"""Builds errors for deliveries that would change rows of other owners, lose rows, or merge rows of different keys."""

from __future__ import annotations

from waterclock.connectors.delivering import Delivery
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit


def foreign_rows_error(unit: Unit, delivery: Delivery, *, of: str | None) -> WaterclockError:
    """Build the error for a delivery that would change rows that another project or user wrote.

    `of` is the other project, if known.
    """
    return WaterclockError(
        "E820",
        f"{unit} belongs to the project {of}" if of else f"{unit} has rows that the project did not publish",
        where=f"{unit}@{delivery.label_text}",
        why=f"a {delivery.mode.value} by {delivery.publish} would change rows that it did not write",
        fix="publish to another table" if of else "empty it, publish to another table, or add OPTIONS (adopt true)",
    )


def cascade_error(unit: Unit, delivery: Delivery, table: str, rule: str, fix: str) -> WaterclockError:
    """Build the error for a delivery whose deletes would change the rows of `table` by its foreign key."""
    return WaterclockError(
        "E820",
        f"{table} refers to {unit} by ON DELETE {rule}",
        where=f"{unit}@{delivery.label_text}",
        why=f"the delivery deletes rows before it writes them again, and the database would {_VERBS[rule]} {table} that"
        " refer to them; nothing was changed",
        fix=f"publish it as MERGE, which deletes only removed rows; or {fix}",
    )


_VERBS = {"CASCADE": "delete rows of", "SET NULL": "change rows of", "SET DEFAULT": "change rows of"}


def ambiguous_columns_error(unit: Unit, delivery: Delivery, one: str, other: str) -> WaterclockError:
    """Build the error for a destination with two columns whose names differ only by case."""
    return WaterclockError(
        "E813",
        f"{unit} has the columns {one} and {other}, which differ only by case",
        where=f"{unit}@{delivery.label_text}",
        why="column names are compared without case, and the name is ambiguous; nothing was changed",
        fix=f"rename one of them: ALTER TABLE {unit.path} RENAME COLUMN … TO …",
    )


def lost_rows_error(unit: Unit, delivery: Delivery, sent: int, kept: int) -> WaterclockError:
    """Build the error for a database that stored fewer rows than it was sent, without an error of its own."""
    return WaterclockError(
        "E813",
        f"the database stored {kept} of {sent} rows",
        where=f"{unit}@{delivery.label_text}",
        why="a trigger or a rule of the table dropped the others without an error; the transaction was undone",
        fix="drop the trigger or rule, or filter those rows in the transform",
    )


def equal_keys_error(unit: Unit, delivery: Delivery, key: str, keys: str, better: str) -> WaterclockError:
    """Build the error for two different keys that the destination's column types treat as equal."""
    return WaterclockError(
        "E876",
        f"{unit} treats {key!r} and another key as equal",
        where=f"{unit}@{delivery.label_text}",
        why=f"the type or the collation of {keys} does not distinguish them, or a key occurs twice; one row would"
        " replace the other, so nothing was delivered",
        fix=f"define {keys} with {better} at the destination, or use other keys",
    )
