"""Measures work as the number of calls, which is the same on every machine under any load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")


def calls_of(work: Callable[[], Result]) -> tuple[Result, int]:
    """Return the result of `work`, and how many Python functions it called in this thread."""
    calls = 0

    def count(_frame: FrameType, event: str, _of: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(None)
    return result, calls


def calls_named(work: Callable[[], Result], *names: str) -> tuple[Result, int]:
    """Return the result of `work`, and how often it called functions of these names, in Python or C."""
    calls = 0

    def count(frame: FrameType, event: str, of: Any) -> None:
        nonlocal calls
        name = frame.f_code.co_name if event == "call" else of.__name__ if event == "c_call" else ""
        calls += name in names

    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(None)
    return result, calls
