"""Requests pages as a user with given rights."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from starlette.testclient import TestClient

from tests.pages import TOKEN
from waterclock.permissions.users_and_roles import Person, Right, SignIn
from waterclock.ui.app import create_app
from waterclock.ui.browser_sessions import Credential
from waterclock.ui.guarded_routes import GuardedRoute
from waterclock.ui.live_project import LiveProject
from waterclock.ui.people import People
from waterclock.ui.request_guard import Guard, GuardedApplication

OWN = {"Origin": "http://localhost"}


class Anna(People):
    """Resolves every accepted credential to anna, with the rights of the test."""

    rights: frozenset[Right] = frozenset()

    async def find(self, credential: Credential) -> Person | None:
        del credential
        return Person("anna", self.rights, SignIn.TOKEN, token="nightly")


class Pages:
    """The pages of a project, requested by the user anna."""

    def __init__(self, folder: Path, now: str) -> None:
        self.live = LiveProject(folder, now=now)
        self.anna = Anna(self.live)
        self.app: GuardedApplication = create_app(self.live, Guard(TOKEN), people=self.anna)
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        self.client = TestClient(self.app, base_url="http://localhost", headers=bearer | OWN)

    def routes(self) -> list[GuardedRoute]:
        return list(self.app._app.routes)  # type: ignore[attr-defined]

    def ask(self, rights: Collection[Right], method: str, path: str, **form: str) -> tuple[int, str]:
        self.anna.rights = frozenset(rights)
        answer = self.client.request(method, path, data=form or None, follow_redirects=False)
        return answer.status_code, answer.text
