"""What upkeep by hand does about a rebuild of all tables: one at work is in its way, one that is not ends."""

from __future__ import annotations

from waterclock.engine.workplace import Workplace
from waterclock.ledger.write.rebuilding import at_work


def refuse_beside_rebuild(work: Workplace, *, is_looking: bool = False) -> None:
    """Refuse to change what is being made anew; a hold whose lease is out ends, as it does with a claim.

    Whoever had it may only be asleep: what it made rests on an older cut then, and is not to be moved in.
    Who `is_looking` changes nothing.
    Raises  E644 where it holds
    """
    known = work.ledger.keeping.rebuilding()
    if known is None or known.is_done:
        return
    if known.holds(work.real_now()):
        raise at_work(known)
    if is_looking:
        return
    why = "its lease was out, and a table was changed by hand since"
    work.ledger.keeping.end_rebuilding(known.token, who=work.settings.who, why=why)
