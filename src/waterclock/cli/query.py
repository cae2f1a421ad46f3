"""x."""
from __future__ import annotations
def query() -> None:
    """query."""
