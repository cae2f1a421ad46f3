"""Checks for a rebuild of all tables before manual maintenance: a running one blocks it, an abandoned one is ended."""

from __future__ import annotations

from waterclock.engine.workplace import Workplace
from waterclock.ledger.write.rebuilding import at_work


def refuse_beside_rebuild(work: Workplace, *, is_looking: bool = False) -> None:
    """Raise an error while all tables are rebuilt. An expired rebuild lock is ended, as an expired claim is.

    Its owner may only be paused: it made tables from an older cut then, which must not be moved in. With `is_looking`,
    nothing is changed.
    Raises  E644 where the lock is held
    """
    known = work.ledger.keeping.current_rebuilding()
    if known is None or known.is_done:
        return
    if known.is_blocking(work.real_now()):
        raise at_work(known)
    if is_looking:
        return
    why = "its lease had expired, and a table was changed by hand since"
    work.ledger.keeping.end_rebuilding(known.token, who=work.settings.who, why=why)
