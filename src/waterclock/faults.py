"""Named points at which a test may make the work fail; nothing happens there otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_installed: list[Callable[[str], None]] = []


def fault(point: str) -> None:
    """Let an installed callable raise, stop or kill at the step `point`; do nothing where none is installed."""
    for strike in _installed:
        strike(point)


@contextmanager
def striking(strike: Callable[[str], None]) -> Iterator[None]:
    """Call `strike` with the name of every point passed, within the block; for tests alone."""
    _installed.append(strike)
    try:
        yield
    finally:
        _installed.remove(strike)
