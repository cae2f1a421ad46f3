"""What a destination is told to hold that is somebody else's."""

from __future__ import annotations

from waterclock.connectors.delivering import Delivery
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit


def foreign_rows(unit: Unit, delivery: Delivery, *, of: str | None) -> WaterclockError:
    """Make the error for a table whose rows a delivery would change, and has not brought; `of` is another project."""
    return WaterclockError(
        "E820",
        f"{unit} belongs to the project {of}" if of else f"{unit} holds rows that are not ours",
        where=f"{unit}@{delivery.label_text}",
        why=f"a {delivery.mode.value} by {delivery.publish} would change rows that it has not brought",
        fix="publish to another table" if of else "empty it, publish to another table, or say OPTIONS (adopt true)",
    )
