"""Access tokens and sessions: expired, revoked, of another scope, forged, and of users who were removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests import stocks
from tests.pages import TOKEN
from waterclock.errors import WaterclockError
from waterclock.http.access_tokens import WrongTokens
from waterclock.ledger.ledger import Ledger
from waterclock.operations.token_cache import SECONDS
from waterclock.permissions.access_tokens import digest_of_token, new_access_token
from waterclock.permissions.users_and_roles import Right
from waterclock.ui.app import create_app
from waterclock.ui.live_project import LiveProject
from waterclock.ui.request_guard import Guard

OWN = {"Origin": "http://localhost"}
USERS = """
[roles]
viewer = ["look"]
operator = ["look", "run"]
[users.anna]
roles = ["operator"]
[users.ben]
roles = ["viewer"]
"""


class Served:
    """Pages with declared users, on a clock that a test moves."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "waterclock.toml"
        self.file.write_text(stocks.HEADER + USERS)
        self.live = LiveProject(folder, now="2026-11-21T01:30Z")
        self.guard = Guard(TOKEN, wrong=WrongTokens(seconds=0))
        self.app = create_app(self.live, self.guard)

    def client(self, token: str = "") -> TestClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return TestClient(self.app, base_url="http://localhost", headers=headers | OWN)

    def ledger(self) -> Ledger:
        found = self.live.ledger()
        assert found is not None
        return found

    def token(self, name: str, user: str = "anna", *, rights: set[Right], hours: float = 1) -> str:
        value = new_access_token()
        until = self.ledger().now() + timedelta(hours=hours)
        digest = digest_of_token(value) or ""
        self.ledger().access.create_token(name, digest, user=user, rights=rights, until=until, who="ops")
        return value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = stocks.make(tmp_path_factory.mktemp("tokens") / "shop")
    made.fill(until=stocks.FIRST + timedelta(days=2))
    return made.folder


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    opened = Served(folder)
    yield opened
    with_names = [token.name for token in opened.ledger().access.list_tokens() if token.revoked_at is None]
    for name in with_names:
        opened.ledger().access.revoke_token(name, who="ops")
    opened.live.close()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that moves the clock by which tokens are kept in memory."""
    passed = 0.0
    monotonic = time.monotonic

    def move(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    monkeypatch.setattr("waterclock.operations.token_cache.time.monotonic", lambda: monotonic() + passed)
    return move


def test_a_token_has_the_rights_of_its_scope_and_of_its_user_together(served: Served) -> None:
    wide = served.client(served.token("wide", "ben", rights={Right.LOOK, Right.RUN}))
    assert wide.get("/errors.json").status_code == 200
    refused = wide.post("/quality", data={"table": "raw.weather", "rule": "few_rows"})
    assert (refused.status_code, "the right run is missing: ben has look; the token wide" in refused.text) == (
        403,
        True,
    )
    narrow = served.client(served.token("narrow", "anna", rights={Right.RUN}))
    assert narrow.get("/errors.json").status_code == 403
    assert narrow.get("/query.json?q=SELECT+1").status_code == 403


def test_a_token_ends_by_its_time_and_by_a_revocation_within_seconds(
    served: Served, later: Callable[[float], None]
) -> None:
    ended = served.token("ended", rights={Right.LOOK}, hours=-1)
    assert served.client(ended).get("/errors.json").status_code == 401
    page = served.client(served.token("going", rights={Right.LOOK}))
    assert page.get("/errors.json").status_code == 200
    served.ledger().access.revoke_token("going", who="ops")
    later(SECONDS)
    assert page.get("/errors.json").status_code == 401


def test_a_changed_token_or_its_digest_is_no_token(served: Served) -> None:
    value = served.token("real", rights={Right.LOOK})
    for sent in (
        f"{value}x",
        value[:-1],
        value.upper(),
        digest_of_token(value),
        f"wct_{digest_of_token(value)}",
        "wct_",
    ):
        assert served.client(str(sent)).get("/errors.json").status_code == 401
    assert served.client(value).get("/errors.json").status_code == 200


def test_a_browser_signs_in_with_a_token_and_its_session_ends_with_it(
    served: Served, later: Callable[[float], None]
) -> None:
    value = served.token("browser", rights={Right.LOOK})
    page = served.client()
    assert 'name="token"' in page.get("/sign-in").text
    assert page.post("/sign-in", data={"token": "wct_wrong"}).status_code == 401
    assert page.post("/sign-in", data={"token": value}, headers={"Origin": "http://evil.example"}).status_code == 403
    entered = page.post("/sign-in", data={"token": value}, follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert value not in entered.headers["set-cookie"]
    assert page.get("/errors.json").status_code == 200
    assert "Sign out anna" in page.get("/errors").text
    served.ledger().access.revoke_token("browser", who="ops")
    later(SECONDS)
    assert page.get("/errors.json").status_code == 401
    assert served.guard.sessions.current() == ()


def test_a_session_ends_when_its_user_signs_out(served: Served) -> None:
    page = served.client()
    page.post("/sign-in", data={"token": served.token("out", rights={Right.LOOK})})
    kept = dict(page.cookies)
    assert page.post("/sign-out", headers={"Origin": "http://evil.example"}).status_code == 403
    assert page.get("/errors.json").status_code == 200
    assert page.post("/sign-out", follow_redirects=False).headers["location"] == "/sign-in"
    page.cookies.update(kept)
    assert page.get("/errors.json").status_code == 401


def test_a_user_who_is_not_declared_any_more_has_no_access(served: Served) -> None:
    value = served.token("gone", rights={Right.LOOK})
    page = served.client()
    page.post("/sign-in", data={"token": value})
    assert page.get("/errors.json").status_code == 200
    served.file.write_text(stocks.HEADER + USERS.replace("users.anna", "users.dora"))
    assert page.get("/errors.json").status_code == 401
    assert served.client(value).get("/errors.json").status_code == 401


def test_rights_change_with_the_project_file_and_stay_as_they_were_while_it_has_errors(served: Served) -> None:
    page = served.client(served.token("roles", rights={Right.LOOK, Right.QUERY}))
    assert page.get("/query.json").status_code == 403
    served.file.write_text(stocks.HEADER + USERS.replace('"run"]', '"query"]'))
    assert page.get("/query.json").status_code == 200
    served.file.write_text(stocks.HEADER + USERS + "nothing = {")
    assert page.get("/livez").status_code == 200
    assert page.post("/quality").status_code == 403


def test_rights_follow_the_project_file_while_the_flow_has_errors(served: Served) -> None:
    going, staying = (served.client(served.token(name, name, rights={Right.LOOK})) for name in ("anna", "ben"))
    assert [page.get("/livez").status_code for page in (going, staying)] == [200, 200]
    wrong = served.file.parent / "flows" / "wrong.dpl"
    wrong.write_text("COLLECT nonsense;")
    try:
        served.file.write_text(stocks.HEADER + USERS.replace("users.anna", "users.dora").replace('["look"]', '["run"]'))
        assert [page.get("/livez").status_code for page in (going, staying)] == [401, 200]
        assert staying.get("/errors.json").status_code == 403
    finally:
        wrong.unlink()


def test_an_invalid_section_of_the_project_file_gives_no_right(served: Served) -> None:
    page = served.client(served.token("role", rights={Right.LOOK}))
    assert page.get("/errors.json").status_code == 200
    served.file.write_text(stocks.HEADER + USERS.replace('roles = ["operator"]', 'roles = ["operater"]'))
    assert page.get("/errors.json").status_code == 403


def test_forged_cookies_are_no_session(served: Served) -> None:
    for value in ("", "1", "x" * 5000, "%00", "anna", "wct_anna", digest_of_token(new_access_token())):
        page = served.client()
        assert page.get("/errors.json", headers={"Cookie": f"{served.guard.cookie}={value}"}).status_code == 401


def test_the_owner_s_link_stays_the_owner_s_where_users_are_declared(served: Served) -> None:
    page = served.client()
    page.get("/", params={"link": served.guard.links.new_code()})
    assert page.get("/query.json").status_code == 200
    assert 'name="who"' not in page.get("/quality").text  # a declared user cannot enter another name


def test_no_user_is_admitted_by_a_token_while_the_ledger_does_not_answer_and_sessions_outlast_that(
    served: Served, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    value = served.token("away", rights={Right.LOOK})
    page = served.client()
    page.post("/sign-in", data={"token": value})

    def away(_: LiveProject) -> Ledger:
        raise WaterclockError("E423", "the ledger cannot be reached", transient=True)

    with monkeypatch.context() as patch:
        patch.setattr(LiveProject, "ledger", away)
        later(SECONDS)
        assert page.get("/livez").status_code == 503
        assert served.client(value).get("/livez").status_code == 503
        assert served.client(TOKEN).get("/livez").status_code == 200
    assert page.get("/livez").status_code == 200


def test_headers_name_no_user(served: Served) -> None:
    for header in ("X-Forwarded-User", "X-Remote-User", "Remote-User", "X-Auth-Request-User"):
        assert served.client().get("/errors.json", headers={header: "anna"}).status_code == 401
