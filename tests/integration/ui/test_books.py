"""The drawer of a window shows up to when its books were checked, and when, by whom and why they were closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tests import stocks
from tests.unit.cli.commands.test_close import FLOW, NOW, Books, day
from waterclock.batches.ledger_snapshot import Closing

ADDRESS = "/batches/web.daily/20261101000000"


def test_the_drawer_shows_open_and_closed_books(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    shop = stocks.make(tmp_path / "books", FLOW, "[project]\nname = 'books'\n")
    (shop.folder / "landing").mkdir()
    shop.now, shop.fails = day(4, 7), {}
    shop.fill(until=day(4, 7))
    page = served(shop.folder, now=f"{NOW}Z")
    books = Books(shop)
    books.found("web.daily", (day(1), Closing(looked=day(4, 6), behind='{"device":"b"}')))
    told = page.get(f"{ADDRESS}.json").json()
    assert fact(told) == "open, checked up to 2026-11-04 06:00Z; furthest behind: device b"
    assert told["reason"].startswith("open, checked up to")
    assert "furthest behind: device b" in page.get(ADDRESS).text
    books.ask("close", "web.daily@2026-11-01", "--why", "b is broken")
    told = page.get(f"{ADDRESS}.json").json()
    assert fact(told).startswith("closed at 2026-11-04 06:00Z, by hand, by ")
    assert fact(told).endswith(": b is broken")
    shop.fill(until=day(4, 7))
    told = page.get(f"{ADDRESS}.json").json()
    assert (told["status"], fact(told).endswith(": b is broken")) == ("done", True)
    assert any("b is broken" in str(it) for it in told["decided"])


def fact(told: dict[str, Any]) -> str:
    return next(str(each["text"]) for each in told["facts"] if each["name"] == "Books")
