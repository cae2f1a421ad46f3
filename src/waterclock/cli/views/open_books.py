"""Prints the windows whose books are open: the conditions they wait for, and when they close without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.operations.closings import OpenBooks

if TYPE_CHECKING:
    from rich.console import Console


def print_open(to: Console, found: Mapping[str, OpenBooks]) -> None:
    """Print the oldest open window of each table, and how many windows wait after it."""
    for books in found.values():
        for line in books.lines():
            to.print(Text(line, style="quiet"), soft_wrap=True)
    if found:
        to.print()
