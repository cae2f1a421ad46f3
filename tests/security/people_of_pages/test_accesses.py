"""The record of accesses: who, from where, when and to which page, also of refused requests; and ending sessions."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from tests import stocks
from tests.pages import TOKEN
from waterclock.batches.access import Access
from waterclock.cli.actions.ui_links import store_token
from waterclock.cli.app import app as command_line
from waterclock.engine.query.query import AnsweredQuery
from waterclock.errors import WaterclockError
from waterclock.http.access_tokens import WrongTokens
from waterclock.operations.query_results import ZonedQueryResult
from waterclock.permissions.access_tokens import digest_of_token, new_access_token
from waterclock.permissions.users_and_roles import Right
from waterclock.ui.app import create_app
from waterclock.ui.live_project import LiveProject
from waterclock.ui.query_queue import QueryQueue
from waterclock.ui.request_guard import Guard, GuardedApplication
from waterclock.ui.serving import serve_pages

OWN = {"Origin": "http://localhost"}
USERS = """
[roles]
operator = ["look", "query", "run"]
[users.anna]
roles = ["operator"]
"""
QUERY = "SELECT * FROM raw.orders"


class _NoSpark(QueryQueue):
    asked = 0

    def ask(self, *_: object, **__: object) -> ZonedQueryResult:
        type(self).asked += 1
        return ZonedQueryResult(AnsweredQuery((("sku", "string"),), (("a",),), is_cut=False, moment=None), "UTC")


class Served:
    """The pages of a project with the user anna, who sends a token."""

    def __init__(self, folder: Path) -> None:
        (folder / "waterclock.toml").write_text(stocks.HEADER + USERS)
        self.folder = folder
        self.live = LiveProject(folder, now="2026-11-21T01:30Z")
        self.app: GuardedApplication = create_app(self.live, Guard(TOKEN, wrong=WrongTokens(seconds=0)), _NoSpark())
        self.value = new_access_token()
        ledger = self.live.ledger()
        assert ledger is not None
        self.ledger = ledger
        name, until = f"t{len(ledger.access.list_tokens())}", ledger.now() + timedelta(hours=1)
        rights = {Right.LOOK, Right.QUERY, Right.RUN}
        digest = digest_of_token(self.value) or ""
        ledger.access.create_token(name, digest, user="anna", rights=rights, until=until, who="ops")
        ledger.access.forget(ledger.now() + timedelta(days=1))
        ledger.access.create_token(f"{name}b", digest, user="anna", rights=rights, until=until, who="ops")

    def client(self, token: str = "", agent: str = "tests") -> TestClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return TestClient(self.app, base_url="http://localhost", headers=headers | OWN | {"User-Agent": agent})

    def found(self) -> list[Access]:
        self.app.close()
        return list(self.ledger.access.list_accesses(since=None, who=None, most=100))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = stocks.make(tmp_path_factory.mktemp("accesses") / "shop")
    made.fill(until=stocks.FIRST + timedelta(days=2))
    return made.folder


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    opened = Served(folder)
    yield opened
    opened.live.close()


def test_a_query_is_recorded_before_it_runs_with_its_tables_and_its_sender(served: Served) -> None:
    answer = served.client(served.value, agent="x" * 900).get("/query.json", params={"q": QUERY})
    assert answer.status_code == 200
    [access] = served.found()
    assert (access.who, access.sign_in, access.action, access.tables) == ("anna", "token", "query", ("raw.orders",))
    assert (access.address, len(access.agent), access.refusal) == ("not an address", 200, None)
    assert access.at is not None
    served.client(served.value).get("/query.csv", params={"q": QUERY})
    assert len(served.found()) == 2


def test_a_query_that_cannot_be_recorded_does_not_run(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise WaterclockError("E415", "the ledger is locked")

    monkeypatch.setattr("waterclock.operations.access_records.AccessLog.write", broken)
    before = _NoSpark.asked
    assert served.client(served.value).get("/query.json", params={"q": QUERY}).status_code == 503
    assert before == _NoSpark.asked


def test_views_of_rows_changes_and_refusals_are_recorded_but_not_views_of_pages(served: Served) -> None:
    page = served.client(served.value)
    for path in ("/", "/errors", "/runs.json", "/lineage"):
        assert page.get(path).status_code == 200
    assert served.found() == []
    assert page.get("/tables/raw.weather").status_code == 200
    assert page.get("/access").status_code == 403
    assert page.post("/quality", data={"table": "raw.weather", "rule": "few_rows", "text": "known"}).status_code == 200
    found = {access.action: access for access in served.found()}
    assert found["see rows"].tables == ("raw.weather",)
    assert "the right administer is missing" in str(found["GET /access"].refusal)
    assert found["note raw.weather few_rows"].refusal is None
    assert {access.who for access in found.values()} == {"anna"}


def test_a_flood_of_anonymous_requests_is_counted(served: Served) -> None:
    for number in range(120):
        token = f"wct_{number}" if number % 2 else ""
        assert served.client(token, agent=f"agent {number}").get(f"/tables/{number}").status_code == 401
    found = served.found()
    assert len(found) == 2
    assert sum(access.times for access in found) == 120
    assert {access.who for access in found} == {""}


def test_sign_ins_are_recorded_with_how(served: Served) -> None:
    page = served.client()
    page.post("/sign-in", data={"token": served.value})
    page.post("/sign-out")
    assert [access.action for access in served.found()] == ["sign out", "sign in with a token"]
    link = served.app._guard.links.new_code()
    served.client().get("/", params={"link": link}, follow_redirects=False)
    assert (served.found()[0].action, served.found()[0].sign_in) == ("sign in with a link", "owner")


def test_administrators_list_and_end_sessions_on_a_page(served: Served) -> None:
    browser, owner = served.client(), served.client(TOKEN)
    browser.post("/sign-in", data={"token": served.value})
    [session] = owner.get("/access.json").json()["sessions"]
    assert (session["who"], session["sign_in"]) == ("anna", "token")
    assert "anna" in owner.get("/access").text
    assert browser.post("/sessions", data={"session": "all"}).status_code == 403
    assert owner.post("/sessions", data={"session": "none"}).status_code == 422
    assert owner.post("/sessions", data={"session": str(session["number"])}).status_code == 200
    assert browser.get("/errors.json").status_code == 401
    assert owner.get("/access.json", params={"who": "anna"}).json()["accesses"][0]["who"] == "anna"


def test_names_and_agents_are_text_on_the_page_and_in_the_terminal(served: Served) -> None:
    agent = "<script>alert(1)</script>\x1b[31m"
    browser, owner = served.client(agent=agent.replace("\x1b", "")), served.client(TOKEN)
    browser.post("/sign-in", data={"token": served.value})
    assert "<script>alert" not in owner.get("/access").text
    printed = CliRunner().invoke(command_line, ["access", "--project", str(served.folder)])
    assert (printed.exit_code, "\x1b[31m" in printed.output) == (0, False)


def test_the_command_lists_accesses_by_person_and_age(served: Served) -> None:
    served.client(served.value).get("/query.json", params={"q": QUERY})
    arguments = ["access", "--project", str(served.folder), "--json", "--since"]
    for since, count in (("7d", 1), ("1h", 1), ("2100-01-01", 0)):
        answer = json.loads(CliRunner().invoke(command_line, [*arguments, since]).stdout)
        assert len(answer["accesses"]) == count
    answer = json.loads(CliRunner().invoke(command_line, [*arguments, "7d", "--who", "ben"]).stdout)
    assert answer["accesses"] == []


@pytest.mark.parametrize("place", ["127.0.0.1", "unix"])
def test_the_command_ends_sessions_of_running_pages(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    host = f"unix:{tmp_path}/ui.sock" if place == "unix" else place
    with serve_pages(LiveProject(folder), host, 0) as served, store_token(served):
        listen = host if place == "unix" else str(served.port)
        for _ in range(3):
            served.guard.sessions.begin(served.guard._credential_of(served.guard.token), who="ops")  # type: ignore[arg-type]
        listed = json.loads(CliRunner().invoke(command_line, ["session", "--listen", listen, "--json"]).stdout)
        assert [each["who"] for each in listed["sessions"]] == ["ops"] * 3
        one = CliRunner().invoke(command_line, ["session", "revoke", "2", "--listen", listen])
        assert one.output == "ended: 1 session\n"
        assert [each.number for each in served.guard.sessions.current()] == [1, 3]
        every = CliRunner().invoke(command_line, ["session", "revoke", "--all", "--listen", listen, "--json"])
        assert json.loads(every.stdout)["ended"] == 2
    assert threading.active_count() < 50
    refused = CliRunner().invoke(command_line, ["session", "--listen", "1"])
    assert (refused.exit_code != 0, "E909" in refused.output) == (True, True)
