"""x."""
from __future__ import annotations
def audit() -> None:
    """audit."""
