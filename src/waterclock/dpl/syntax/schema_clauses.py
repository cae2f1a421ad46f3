"""Parses ON SCHEMA CHANGE and COMPATIBLE."""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.errors import WaterclockError
from waterclock.flow.compatibility import Compatibility, Compatible
from waterclock.flow.schema_changes import OnSchemaChange
from waterclock.similar_names import did_you_mean


def parse_on_schema_change(cursor: Cursor) -> OnSchemaChange:
    """Parse the action of ON SCHEMA CHANGE. Raises E290 for an unknown action."""
    action = next((each for each in OnSchemaChange if cursor.accept(each.value)), None)
    if action is None:
        raise _unknown_word_error(cursor, "ON SCHEMA CHANGE", [each.value for each in OnSchemaChange])
    return action


def parse_compatible(cursor: Cursor) -> Compatibility:
    """Parse the value of COMPATIBLE: a direction, and an optional TRANSITIVE. Raises E290 for unknown words."""
    mode = next((each for each in Compatible if cursor.accept(each.value)), None)
    if mode is None:
        raise _unknown_word_error(cursor, "COMPATIBLE", [each.value for each in Compatible])
    is_transitive = cursor.accept("TRANSITIVE")
    if not is_transitive and cursor.peek().upper.startswith("TRANS"):
        raise _unknown_word_error(cursor, f"COMPATIBLE {mode.value}", ["TRANSITIVE"])
    return Compatibility(mode, is_transitive)


def _unknown_word_error(cursor: Cursor, clause: str, known: Sequence[str]) -> WaterclockError:
    listed = " or ".join(filter(None, (", ".join(known[:-1]), known[-1])))
    found = "the end of the statement" if cursor.is_done else cursor.here().text
    return cursor.here().refuse(
        "E290",
        f"{clause} cannot be {found}" if not cursor.is_done else f"{clause} has no value",
        why=f"its value is {listed}",
        fix=did_you_mean(found.upper(), known, otherwise=f"write it as in {clause} {known[0]}"),
    )
