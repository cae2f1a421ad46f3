"""x."""
from __future__ import annotations
def backfill() -> None:
    """backfill."""
