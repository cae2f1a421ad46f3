"""Fixtures with the pages of a shop's project, requested without a network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests import stocks
from tests.pages import client_of
from waterclock.ui.app import create_app
from waterclock.ui.live_project import LiveProject
from waterclock.ui.request_guard import Guard

NOW = "2026-11-21T01:30Z"


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a project with sixty past days; tests copy it and never change it."""
    folder = tmp_path_factory.mktemp("stocks") / "shop"
    stocks.make(folder).fill(until=stocks.NOW)
    return folder


@pytest.fixture
def shop(filled: Path, tmp_path: Path) -> stocks.Stocks:
    """Return a copy of the filled project."""
    return stocks.Stocks(Path(shutil.copytree(filled, tmp_path / "shop")))


@pytest.fixture
def served() -> Iterator[Callable[..., TestClient]]:
    """Return a function that opens the pages of a folder; all are closed at the end."""
    opened: list[LiveProject] = []

    def serve(folder: Path, *, now: str | None = NOW, guard: Guard | None = None, raises: bool = True) -> TestClient:
        live = LiveProject(folder, now=now)
        opened.append(live)
        if guard is None:
            return client_of(live, raises=raises)
        return TestClient(create_app(live, guard), base_url="http://localhost", raise_server_exceptions=raises)

    yield serve
    for live in opened:
        live.close()


@pytest.fixture
def page(shop: stocks.Stocks, served: Callable[..., TestClient]) -> TestClient:
    """Return the pages of the filled project."""
    return served(shop.folder)
