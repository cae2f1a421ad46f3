"""A query of the pages is stopped by its reader."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from waterclock.ui import asker


def test_stop_ends_a_query_and_leaves_the_page(
    filled: Path, serve: Callable[..., str], opened: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def endless(*_: Any, **__: Any) -> None:
        begun.set()
        stopped.wait(30)
        raise RuntimeError("cancelled")

    class NoSpark:
        def root(self) -> None: ...
        def close(self) -> None: ...

    def sessions(asking: asker.Asker, _: Any) -> NoSpark:
        asking._own = NoSpark()  # type: ignore[assignment]
        return NoSpark()

    monkeypatch.setattr(asker, "asked", endless)
    monkeypatch.setattr(asker, "mark_jobs", lambda *_: None)
    monkeypatch.setattr(asker, "cancel_jobs", lambda *_: stopped.set())
    monkeypatch.setattr(asker.Asker, "_sessions", sessions)
    page = opened(serve(filled) + "query")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    page.get_by_label("SQL").fill("SELECT count(*) FROM range(1000000000000)")
    page.get_by_role("button", name="Ask").click()
    assert until(page, begun)
    page.get_by_role("button", name="Stop").click()
    assert until(page, stopped)
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(page.get_by_label("SQL")).to_have_value("SELECT count(*) FROM range(1000000000000)")


def until(page: Page, event: threading.Event) -> bool:
    """Wait for an event of the server, while the browser goes on."""
    for _ in range(100):
        if event.is_set():
            return True
        page.wait_for_timeout(100)
    return False
