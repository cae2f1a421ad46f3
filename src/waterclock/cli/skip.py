"""x."""
from __future__ import annotations
def skip() -> None:
    """skip."""
