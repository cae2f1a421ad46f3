"""Shows the windows whose books are open: what they wait for, and what closes them where that does not come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.operations.closings import OpenBooks

if TYPE_CHECKING:
    from rich.console import Console


def print_open(to: Console, found: Mapping[str, OpenBooks]) -> None:
    """Print the oldest open window of each table, and how many wait behind it."""
    for books in found.values():
        for line in books.lines():
            to.print(Text(line, style="quiet"), soft_wrap=True)
    if found:
        to.print()
