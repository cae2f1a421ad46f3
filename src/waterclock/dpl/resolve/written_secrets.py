"""Refuses credentials in plain text in the options of a connection: a project only names its secrets."""

from __future__ import annotations

from waterclock.credentials import has_password
from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Option
from waterclock.flow.declarations import Secret, Value


def written_secret(
    name: str, value: Value | Secret, option: Option, span: Span, *, code: str
) -> WaterclockError | None:
    """Return the error for an option with a credential as plain text, or None. The value is never shown."""
    if isinstance(value, Secret):
        return None
    if option.is_secret:
        return span.refuse(
            code,
            f"{name} is written in plain text",
            why="it would appear in version control, in plans and in logs",
            fix=f"name a secret: {name} SECRET 'name', in the project file {{ secret = \"name\" }}",
        )
    if option.is_address and has_password(str(value)):
        return span.refuse(
            code,
            f"{name} contains a password",
            why="it would appear in version control, in plans and in logs",
            fix=f"remove it from {name} and name a secret: password SECRET 'name', in the project file "
            f"password = {{ secret = \"name\" }}; or make all of {name} a secret: {name} SECRET 'name'",
        )
    return None
