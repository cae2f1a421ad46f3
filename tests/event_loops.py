"""Runs coroutines in a thread: a test of pages may have left a running loop in the main thread of the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def run_in_new_loop(story: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine in a new event loop, and return its result."""
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, story).result()
