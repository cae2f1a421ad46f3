"""How much work something is, in calls: the same on every machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")


def calls_of(work: Callable[[], Result]) -> tuple[Result, int]:
    """Return what `work` gives, and how many Python functions were called on its way, in this thread."""
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
    """Return what `work` gives, and how often functions of these names were called, of Python and of C alike."""
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
