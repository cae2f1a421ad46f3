"""Schemathesis requests the JSON of the pages as /openapi.json describes it, with generated parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from importlib.resources import files
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi import checks
from starlette.testclient import TestClient

from tests import stocks
from tests.pages import TOKEN
from waterclock.engine.query.query import AnsweredQuery
from waterclock.http.served_hosts import ServedHosts
from waterclock.operations.query_results import ZonedQueryResult
from waterclock.ui.app import create_app
from waterclock.ui.live_project import LiveProject
from waterclock.ui.openapi import PARAMETERS, describe_api
from waterclock.ui.query_queue import QueryQueue
from waterclock.ui.request_guard import Guard, GuardedApplication

OPERATIONS = [(path, method) for path, methods in describe_api()["paths"].items() for method in methods]
FAILED = stocks.FIRST + timedelta(days=2)
KNOWN = [  # existing objects, by parameter name
    {"table": "marts.revenue", "labels": "2026-09-23", "tab": "batches", "t": "marts.*", "l": "2026-09"},
    {"table": "raw.orders", "labels": "2026-09", "tab": "overview", "t": "raw.inventory", "l": "2026-09-24"},
    {"table": "raw.inventory", "labels": "2026-09-24", "tab": "history", "t": "raw.sites", "l": "2026-09-23"},
    {"table": "raw.weather", "labels": "2026-09-23", "tab": "quality", "t": "raw.weather", "l": "2026-09-23"},
]
for each, verb in zip(KNOWN, ("recompute", "retry", "recollect", "recompute"), strict=True):
    each |= {"verb": verb, "q": "SELECT 1", "branch": "try"}
HOSTS = ServedHosts(frozenset({"localhost", "testserver"}))
BEARER = {"Authorization": f"Bearer {TOKEN}"}
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


class _NoSpark(QueryQueue):
    """Returns the same result for every query."""

    def ask(self, *_: object, **__: object) -> ZonedQueryResult:
        return ZonedQueryResult(AnsweredQuery((("sku", "string"),), (("a",),), is_cut=False, moment=None), "UTC")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> stocks.Stocks:
    made = stocks.make(tmp_path_factory.mktemp("described") / "shop")
    with (made.folder / "waterclock.toml").open("a", encoding="utf-8") as file:
        file.write('\n[env.try]\nfrom = "dev"\n')
    made.fails = {("raw.inventory", FAILED): stocks.SHORT}
    project = made.project
    with made.ledger() as ledger:
        ledger.declared.apply(project.flow, who="ann", now=stocks.FIRST, runner="vm:1:a")
        run = ledger.past.begin_run(who="ann", command="run", now=stocks.FIRST)
    made.fill(until=stocks.FIRST + timedelta(days=5), run=run)
    return made


@pytest.fixture(scope="module")
def app(shop: stocks.Stocks) -> Iterator[GuardedApplication]:
    live = LiveProject(shop.folder, now="2026-11-21T01:30Z")
    yield create_app(live, Guard(TOKEN, HOSTS), _NoSpark())
    live.close()


@pytest.fixture(scope="module")
def known(app: GuardedApplication) -> list[dict[str, str]]:
    """Return the existing objects, by parameter name."""
    run = TestClient(app, base_url="http://localhost", headers=BEARER).get("/runs.json").json()["runs"][0]["run"]
    return [each | {"run": run} for each in KNOWN]


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(describe_api())


def places(operation: Any, known: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return the known parameters of an operation, by location."""
    names = {each["name"]: each["in"] for each in operation.definition.raw.get("parameters", ())}
    return {
        to: {name: known[name] for name, place in names.items() if place == at and name in known}
        for to, at in (("path_parameters", "path"), ("query", "query"))
    }


def ask(app: GuardedApplication, case: Case[Any]) -> Any:
    answer = case.call(
        base_url="http://localhost", app=app, headers={"Origin": "http://localhost", **BEARER}, allow_redirects=False
    )
    case.validate_response(answer, checks=CHECKS)
    return answer


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_any_request_is_answered_as_the_schema_describes(
    app: GuardedApplication, schema: Any, known: list[dict[str, str]], path: str, method: str
) -> None:
    operation = schema[path][method]
    plan = {"t": "raw.sites", "l": "2026-09-23", "verb": "recompute", "digest": "of another plan"}
    form = plan if path == "/plan" else {"table": "raw.weather", "rule": "few_rows", "text": "known", "t": "raw.*"}
    cases = st.one_of(
        *(operation.as_strategy(**places(operation, each)) for each in known),
        *([operation.as_strategy(body=form)] if method == "post" else []),
        operation.as_strategy(),
        operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
    )

    @settings(max_examples=12, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def every(case: Case[Any]) -> None:
        ask(app, case)

    every()


# the project of these tests has no form
@pytest.mark.parametrize("path", [path for path, method in OPERATIONS if method == "get" and "/forms/" not in path])
def test_requests_for_existing_objects_are_answered_as_the_schema_describes(
    app: GuardedApplication, schema: Any, known: list[dict[str, str]], path: str
) -> None:
    operation = schema[path]["GET"]
    for each in known:
        placed = places(operation, each)
        answer = ask(app, operation.Case(path_parameters=placed["path_parameters"], query=placed["query"]))
        assert answer.status_code == 200, (path, each, answer.text)


def test_a_form_with_the_plans_digest_does_it_as_described(app: GuardedApplication, schema: Any) -> None:
    asked = {"verb": "retry", "t": "raw.inventory", "l": "2026-09-24"}
    digest = (
        TestClient(app, base_url="http://localhost", headers=BEARER).get("/plan.json", params=asked).json()["digest"]
    )
    operation = schema["/plan"]["POST"]
    for status in (303, 409):  # done; the second time there is nothing to retry
        case = operation.Case(body={**asked, "digest": digest}, media_type="application/x-www-form-urlencoded")
        assert ask(app, case).status_code == status


def test_every_address_of_json_is_described(app: GuardedApplication) -> None:
    [within] = [each for each in vars(app).values() if hasattr(each, "routes")]
    served = {route.path for route in within.routes if route.path.endswith((".json", ".csv", ".svg"))}
    assert served - {"/openapi.json"} <= set(describe_api()["paths"])
    assert TestClient(app, base_url="http://localhost", headers=BEARER).get("/openapi.json").json() == describe_api()


def test_every_parameter_that_a_page_reads_is_described() -> None:
    pages = [each for each in files("waterclock.ui.pages").iterdir() if each.name.endswith(".py")]
    read = {
        name
        for each in pages
        for name in re.findall(r'values(?:\.get\(|\[)"([\w-]+)"', each.read_text(encoding="utf-8"))
    }
    assert {"t", "l"} | read <= set(PARAMETERS)
