"""x."""
from __future__ import annotations
def show() -> None:
    """show."""
