"""A reader stops a query of the pages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from waterclock.ui import query_queue


def test_stop_ends_a_query_and_leaves_the_page(
    filled: Path, serve: Callable[..., str], opened: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stopped = threading.Event(), threading.Event()

    class Endless:
        has_ended = False

        def ask(self, _: Any) -> None:
            begun.set()

        def answer(self, seconds: float) -> str:
            if stopped.wait(seconds):
                raise RuntimeError("cancelled")
            return ""

        def cancel(self) -> None:
            stopped.set()

        def close(self) -> None: ...

    monkeypatch.setattr(query_queue.QueryQueue, "_running_process", lambda _: Endless())
    page = opened(serve(filled) + "query")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    page.get_by_label("SQL").fill("SELECT count(*) FROM range(1000000000000)")
    page.get_by_role("button", name="Run").click()
    assert until(page, begun)
    page.get_by_role("button", name="Stop").click()
    assert until(page, stopped)
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(page.get_by_label("SQL")).to_have_value("SELECT count(*) FROM range(1000000000000)")


def until(page: Page, event: threading.Event) -> bool:
    """Wait for an event of the server while the browser continues."""
    for _ in range(100):
        if event.is_set():
            return True
        page.wait_for_timeout(100)
    return False
