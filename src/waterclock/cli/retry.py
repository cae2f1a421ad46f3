"""x."""
from __future__ import annotations
def retry() -> None:
    """retry."""
