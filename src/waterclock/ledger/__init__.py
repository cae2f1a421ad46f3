"""The durable record of every batch: claims, revisions, inputs, events. An index over commit records.

Opening a ledger imports SQLAlchemy; the facts and records that the planner and the engine speak do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waterclock.ledger.ledger import ClaimClosed, ClaimRefused, Ledger

__all__ = ["ClaimClosed", "ClaimRefused", "Ledger"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from waterclock.ledger import ledger

        return getattr(ledger, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
