"""Defines the names and queries of tables behind a view in a database (OPTIONS (behind 'view')).

If a table is delivered by label, each label has a separate table, `_<table>_<timelabel>`, and the view is a UNION ALL
of them. Otherwise each delivery has one, `_<table>_v<claim>`, and the view shows that of the newest delivery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from waterclock.connectors.delivering import Delivered, Delivery
from waterclock.connectors.sql.dialect import SqlDialect
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode
from waterclock.timelabel.duration import parse_duration
from waterclock.timelabel.label import TIMELABEL

BEHIND = "behind view"
UNION = "union view"
"""The notes of deliveries to tables under a view."""
_DEFAULT_KEEP = "1 DAY"
_MOST_IN_ONE = 400  # SQLite allows 500 terms in a compound SELECT

Columns = Sequence[tuple[str, str]]


def is_behind_view(unit: Unit) -> bool:
    """Return whether a unit is published to tables behind a view."""
    return unit.options.get("behind") == "view"


def has_union_view(unit: Unit) -> bool:
    """Return whether a unit is published as a view over closed and open windows."""
    return bool(unit.options.get("speed"))


def view_note(unit: Unit) -> str:
    """Return the note of deliveries to tables under the unit's view; empty if it is published to a table."""
    return BEHIND if is_behind_view(unit) else UNION if has_union_view(unit) else ""


def part_name(unit: Unit, *, label: str = "", claim: int = 0) -> str:
    """Return the name of the table of a label or, without a label, of the version that a claim delivers."""
    return f"_{unit.path.rpartition('.')[2]}_{label or f'v{claim}'}"


def part_of(unit: Unit, name: str) -> Unit:
    """Return a unit for a table behind the unit's view, in the same schema."""
    schema, dot, _ = unit.path.rpartition(".")
    return replace(unit, path=f"{schema}{dot}{name}", options={})


def own_table_delivery(delivery: Delivery) -> Delivery:
    """Return a delivery of all rows to the table that a view shows. It replaces the table and has no label column."""
    return replace(delivery, is_from_partitioned=False, mode=Mode.REPLACE)


def compute_retention_start(unit: Unit, now: datetime) -> datetime:
    """Return the time before which a version must have been replaced to be dropped, by the option `keep`."""
    return parse_duration(str(unit.options.get("keep", _DEFAULT_KEEP))).subtract_from(now, "UTC")


def query_of(parts: Mapping[str, tuple[str, Columns]], dialect: SqlDialect) -> str:
    """Return the query of a view over tables. `parts` maps each table's SQL name to its label and its columns.

    The label is "" for a version. A column is NULL for tables without it. The label is a literal in the query, so
    that a reader who filters by label reads only the tables of those labels.
    """
    columns: dict[str, tuple[str, str]] = {}
    for _, of_part in parts.values():
        for name, kind in of_part:
            columns.setdefault(name.lower(), (name, kind))
    selects = []
    for table, (label, of_part) in parts.items():
        there = {name.lower(): name for name, _ in of_part}
        listed = [
            f"{dialect.quote_identifier(there[key])} AS {dialect.quote_identifier(name)}"
            if key in there
            else f"{dialect.null.format(kind)} AS {dialect.quote_identifier(name)}"
            for key, (name, kind) in columns.items()
        ]
        listed += [f"{dialect.label.format(label)} AS {dialect.quote_identifier(TIMELABEL)}"] if label else []
        selects.append(f"SELECT {', '.join(listed)} FROM {table}")
    if len(selects) <= _MOST_IN_ONE:
        return " UNION ALL ".join(selects)
    groups = [selects[at : at + _MOST_IN_ONE] for at in range(0, len(selects), _MOST_IN_ONE)]
    return " UNION ALL ".join(
        f"SELECT * FROM ({' UNION ALL '.join(group)}) AS part_{number}" for number, group in enumerate(groups)
    )


def require_replaceable_object(
    unit: Unit, delivery: Delivery, kind: str, newest: Delivered | None, *, has_union: bool = False
) -> None:
    """Raise E829 if the destination's name is in use by an object that the publish cannot replace.

    This is a table, if it publishes to a view, or a view that it did not create or no longer publishes to. `has_union`:
    it publishes to a view over closed and open windows, and has created it before.
    """
    before = newest.note if newest is not None and newest.note in {BEHIND, UNION} else ""
    now = view_note(unit)
    if before and before != now and kind == "view":
        why = "to another kind of view before" if now else "behind a view before, and no longer is"
        raise _name_in_use_error(unit, delivery, f"it was published {why}", "the view")
    if not now:
        return
    was_behind = bool(before) or has_union
    if kind == "table":
        raise _name_in_use_error(unit, delivery, "a table has the name of the view", "the table")
    if kind == "view" and not was_behind and not unit.options.get("adopt"):
        raise _name_in_use_error(
            unit, delivery, "a view of that name exists that the project did not create", "the view"
        )


def existing_version_error(unit: Unit, delivery: Delivery, name: str) -> WaterclockError:
    """Build the error for a version whose table exists already. A version is written only once."""
    return _name_in_use_error(
        unit, delivery, f"a table {name} exists that no delivery of this publish created", f"{name}"
    )


def _name_in_use_error(unit: Unit, delivery: Delivery, why: str, what: str) -> WaterclockError:
    return WaterclockError(
        "E829",
        f"{unit} cannot be delivered: its name is in use",
        where=f"{unit}@{delivery.label_text}",
        why=f"{why}; nothing was changed",
        fix=f"rename or drop {what}, or publish to another name; then `waterclock recompute {delivery.publish}`",
    )
