"""Builds the errors for a database server that refuses the login, or has no such database. They are not retried."""

from __future__ import annotations

from waterclock.errors import WaterclockError


def login_error(connection: str, where: str, why: str) -> WaterclockError:
    """Build the error for a user, password, certificate or host that the server does not accept."""
    return WaterclockError(
        "E810",
        f"the database of the connection {connection} refuses the login",
        where=where,
        why=f"{why}; nothing was changed",
        fix=f"correct user, password or certificate of connections.{connection} in waterclock.toml, or the secret that "
        "it names, or allow them on the server; then `waterclock retry`",
    )


def missing_database_error(connection: str, where: str, why: str) -> WaterclockError:
    """Build the error for a database that does not exist on the server."""
    return WaterclockError(
        "E810",
        f"the database of the connection {connection} does not exist",
        where=where,
        why=f"{why}; nothing was changed",
        fix=f"correct its name in connections.{connection}.url in waterclock.toml or in the flow, or create the "
        "database; then `waterclock retry`",
    )
