"""x."""
from __future__ import annotations
def lineage() -> None:
    """lineage."""
