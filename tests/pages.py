"""The pages without a network: a client that sends the token."""

from __future__ import annotations

from starlette.testclient import TestClient

from waterclock.ui.app import create_app
from waterclock.ui.live_project import LiveProject
from waterclock.ui.query_queue import QueryQueue
from waterclock.ui.request_guard import Guard

TOKEN = "t0ken-of-the-tests-of-pages"


def client_of(live: LiveProject, *, asker: QueryQueue | None = None, raises: bool = True) -> TestClient:
    """Return a client of a project's pages, which sends their token with each request."""
    return TestClient(
        create_app(live, Guard(TOKEN), asker),
        base_url="http://localhost",
        headers={"Authorization": f"Bearer {TOKEN}"},
        raise_server_exceptions=raises,
    )
