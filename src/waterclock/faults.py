"""Defines named points at which a test can inject a failure; otherwise they have no effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_installed: list[Callable[[str], None]] = []


def fault(point: str) -> None:
    """Call the handlers that a test installed, which may raise, block or kill the process. Otherwise do nothing."""
    for strike in _installed:
        strike(point)


@contextmanager
def inject_faults(strike: Callable[[str], None]) -> Iterator[None]:
    """Call `strike` with the name of every point passed within the block; for tests only."""
    _installed.append(strike)
    try:
        yield
    finally:
        _installed.remove(strike)
