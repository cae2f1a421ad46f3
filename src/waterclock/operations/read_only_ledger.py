"""Reads a project's ledger for `check`, which never writes to one and connects to a server only with `--connect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from waterclock.ledger.ledger import Ledger

R = TypeVar("R")
_FILE = "sqlite:///"


def read_ledger(url: str, ask: Callable[[Ledger], R], *, connect: bool = False) -> R | None:
    """Return the result of `ask` for the ledger at a URL; None if there is none or it cannot be read.

    Without `connect`, a ledger on a server is not read. Errors are not reported here: `run` upgrades a ledger of older
    code, and `check --connect` reports one that does not answer. SQLAlchemy is imported only if there is a ledger.
    """
    is_there = Path(url.removeprefix(_FILE).partition("?")[0]).is_file() if url.startswith(_FILE) else connect
    if not is_there:
        return None
    from waterclock.ledger.ledger import Ledger
    from waterclock.ledger.store.read_only import OlderSchema

    try:
        return Ledger.query(url, ask)
    except (OlderSchema, WaterclockError):
        return None
