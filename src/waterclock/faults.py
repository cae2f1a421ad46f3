"""Defines fault points: named places in the code at which a test can inject a failure. Otherwise they do nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_installed: list[Callable[[str], None]] = []


def fault(point: str) -> None:
    """Call the handlers that a test has installed, if any. A handler may raise, block or kill the process."""
    for strike in _installed:
        strike(point)


@contextmanager
def inject_faults(strike: Callable[[str], None]) -> Iterator[None]:
    """Call `strike` with the name of each fault point that is passed within the block. For tests only."""
    _installed.append(strike)
    try:
        yield
    finally:
        _installed.remove(strike)
