"""Users who may not see all tables get only the query page, and their queries carry their identity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.security.people import Pages
from waterclock.operations.query_process import QueryRequest
from waterclock.permissions.users_and_roles import ALL_RIGHTS, Person, Right, SignIn
from waterclock.ui.browser_sessions import Credential
from waterclock.ui.people import People
from waterclock.ui.query_queue import QueryQueue

TOML = """
[project]
name = "shop"
[roles]
analyst = ["look", "query", "run", "release"]
chief = ["look", "query"]
[users.anna]
roles = ["analyst"]
[users.carl]
roles = ["chief"]
[env.dev]
storage = ".waterclock"
connections.ops = { path = "ops.sqlite" }
"""
FLOW = """
CREATE CONNECTION ops TYPE sqlite;
COLLECT raw.people (id BIGINT KEY, email STRING) FROM ops.people EVERY DAY START '2026-11-01';
TRANSFORM marts.counts AS SELECT count(*) AS n FROM raw.people;
"""
RESTRICTED = "GRANT SELECT (id) ON raw.people TO (analyst); GRANT SELECT ON raw.people TO carl;"


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pages:
    (tmp_path / "flows").mkdir()
    (tmp_path / "waterclock.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "flows" / "a.dpl").write_text(FLOW + RESTRICTED, encoding="utf-8")
    opened = Pages(tmp_path, "2026-11-03T00:00Z")

    async def find(self: People, credential: Credential) -> Person | None:
        del self, credential
        return WHO[0]

    monkeypatch.setattr(type(opened.anna), "find", find)
    return opened


ANNA = Person("anna", frozenset({Right.LOOK, Right.QUERY, Right.RUN}), SignIn.TOKEN, roles=frozenset({"analyst"}))
CARL = Person("carl", frozenset({Right.LOOK, Right.QUERY}), SignIn.TOKEN, roles=frozenset({"chief"}))
OWNER = Person("owner", ALL_RIGHTS, SignIn.OWNER)
WHO = [ANNA]


def statuses(pages: Pages, person: Person) -> dict[str, int]:
    WHO[0] = person
    found = {}
    for route in pages.routes():
        path = route.path.replace("{table}", "raw.people").replace("{tab}", "overview").replace("{run}", "1")
        path = path.replace("{labels}", "2026-11-01").replace("{name}", "ui.css")
        for method in sorted(set(route.methods or ()) - {"HEAD"}):
            found[f"{method} {path}"] = pages.client.request(method, path, follow_redirects=False).status_code
    return found


def test_all_pages_but_queries_and_forms_are_closed_to_a_restricted_person(pages: Pages) -> None:
    found = statuses(pages, ANNA)
    opened = {path for path, status in found.items() if status != 403}
    forms = {f"GET /forms/raw.people{part}" for part in ("", "/values", "/row", "/rows.csv", "/rows.xlsx", "/proposal")}
    assert opened == forms | {
        "GET /forms", "GET /query", "GET /query.json", "GET /query.csv", "GET /openapi.json", "GET /livez",
        "GET /static/ui.css",
    }  # fmt: skip
    assert {found[path] for path in forms} == {404}  # it is no form; those that are show what is granted
    WHO[0] = ANNA
    assert "E946" in pages.client.get("/tables/raw.people").text


def test_a_person_who_sees_the_whole_table_and_the_owner_open_them(pages: Pages) -> None:
    for person in (CARL, OWNER):
        found = statuses(pages, person)
        assert found["GET /"] == found["GET /tables/raw.people"] == found["GET /quality"] == 200


def test_pages_stay_closed_while_the_project_has_errors_from_the_start(pages: Pages, tmp_path: Path) -> None:
    (tmp_path / "flows" / "a.dpl").write_text(FLOW + "GRANT SELECT ON raw.peeple TO (analyst);", encoding="utf-8")
    WHO[0] = CARL
    assert pages.client.get("/tables/raw.people").status_code == 403


@pytest.mark.parametrize("path", ["/query", "/query.json", "/query.csv", "/forms/raw.people", "/forms/raw.people/row"])
def test_errors_of_the_project_are_not_shown_to_a_restricted_person(pages: Pages, tmp_path: Path, path: str) -> None:
    WHO[0] = ANNA
    assert pages.client.get("/query").status_code == 200
    wrong = "GRANT SELECT (id AS (CASE WHEN id = 4711 THEN 1 END)) ON raw.wages TO (analyst);"
    (tmp_path / "flows" / "a.dpl").write_text(FLOW + RESTRICTED + wrong, encoding="utf-8")
    for params in ({}, {"q": "SELECT 1"}):
        refused = pages.client.get(path, params=params)
        assert refused.status_code == 403
        assert "4711" not in refused.text
        assert "raw.wages" not in refused.text
    WHO[0] = CARL  # sees all tables
    assert "raw.wages" in pages.client.get(path).text


def test_a_grant_that_is_removed_by_an_error_still_holds(pages: Pages, tmp_path: Path) -> None:
    WHO[0] = ANNA
    assert pages.client.get("/").status_code == 403
    (tmp_path / "flows" / "a.dpl").write_text(FLOW + "GRANT SELEC;", encoding="utf-8")
    assert pages.client.get("/").status_code == 403


def test_a_query_of_the_pages_is_run_for_its_person(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[QueryRequest] = []

    def answer(self: QueryQueue, process: Any, query: Any, request: QueryRequest) -> None:
        del self, process, query
        requests.append(request)
        raise RuntimeError("enough")

    monkeypatch.setattr(QueryQueue, "_running_process", lambda _: None)
    monkeypatch.setattr(QueryQueue, "_wait_for_answer", answer)
    WHO[0] = ANNA
    for path in ("/query", "/query.json", "/query.csv"):
        with pytest.raises(RuntimeError, match="enough"):
            pages.client.get(path, params={"q": "SELECT 1"})
    assert [request.person for request in requests] == [ANNA, ANNA, ANNA]
