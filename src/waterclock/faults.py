"""Defines named points at which a test can inject a failure; otherwise they have no effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_installed: list[Callable[[str], None]] = []


def fault(point: str) -> None:
    """Run the installed callables, which may raise, stop or kill at the step `point`; without any, do nothing."""
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
