"""Builds the errors for a ledger's database that fails or is unavailable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.ledger.ledger_errors import cause_of, redact_url

if TYPE_CHECKING:
    import sqlalchemy as sa


class LedgerUnreachableError(WaterclockError):
    """The ledger's server is unavailable. With `may_repeat`, nothing was written, and the call can be repeated."""

    may_repeat: bool = False


def build_busy_error(url: sa.URL, error: Exception) -> WaterclockError:
    """Build the error for a lock that was not released in time. The same call may succeed later."""
    return WaterclockError(
        "E415",
        f"the ledger {redact_url(url)} is busy",
        why=f"another process has kept its lock for a minute ({cause_of(error, url)})",
        fix="end the process that has the file open in a transaction",
        transient=True,
    )


def refused_operation_error(url: sa.URL, error: Exception) -> WaterclockError:
    """Build the error for an operation that the database refused."""
    is_file = url.get_backend_name() == "sqlite"
    return WaterclockError(
        "E416",
        f"the ledger {redact_url(url)} cannot be used",
        why=cause_of(error, url),
        fix="check that its folder exists, is writable and has free space"
        if is_file
        else "check that its user may create and write tables there, and that the server has free space",
    )


def login_error(url: sa.URL, error: Exception) -> WaterclockError:
    """Build the error for a server that does not accept the login."""
    return WaterclockError(
        "E416",
        f"the server of the ledger {redact_url(url)} refuses the login",
        why=cause_of(error, url),
        fix=(
            "correct user and password in `ledger` of the environment in waterclock.toml or in its secret, or "
            "have the server accept them"
        ),
    )


def no_database(url: sa.URL, error: Exception) -> WaterclockError:
    """Build the error for a server that does not have the ledger's database."""
    return WaterclockError(
        "E416",
        f"the database of the ledger {redact_url(url)} does not exist",
        why=cause_of(error, url),
        fix=(
            "correct its name in `ledger` of the environment in waterclock.toml, or create the database: the next "
            "run creates the ledger in it"
        ),
    )


def build_unreachable_error(url: sa.URL, error: Exception, *, may_repeat: bool) -> LedgerUnreachableError:
    """Build the error for a server that does not answer or that closed the connection."""
    found = LedgerUnreachableError(
        "E423",
        f"the ledger {redact_url(url)} does not answer",
        why=cause_of(error, url),
        fix="check that its server runs and is reachable, and that host and port in `ledger` are right",
        transient=True,
    )
    found.may_repeat = may_repeat
    return found
