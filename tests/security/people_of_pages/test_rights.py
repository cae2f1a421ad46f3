"""Each right at each route of the pages: the matrix is built from the routes, so that it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.responses import Response
from starlette.routing import Route

from tests import stocks
from tests.security.people import Pages
from waterclock.errors import WaterclockError
from waterclock.operations.proposals import Verb, decide, propose, right_of
from waterclock.operations.rule_results import store_rule_note
from waterclock.permissions.users_and_roles import ALL_RIGHTS, Person, Right, SignIn, expand_rights
from waterclock.ui.guarded_routes import GuardedRoute, require_guarded
from waterclock.ui.page_query import PageQuery
from waterclock.ui.pages.alerts import acknowledge_alert

NOW = "2026-11-21T01:30Z"
FILLED = {"table": "raw.inventory", "labels": "2026-09-23", "tab": "overview", "run": "none", "name": "ui.css"}
FAILED = stocks.FIRST


@contextmanager
def opened_pages(folder: Path) -> Iterator[Pages]:
    """Yield the pages of a project whose first batch of raw.inventory has failed."""
    made = stocks.make(folder / "shop")
    made.fails = {("raw.inventory", FAILED): stocks.SHORT}
    made.fill(until=stocks.NOW.replace(month=9, day=25))
    opened = Pages(made.folder, NOW)
    yield opened
    opened.live.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """Yield pages for read-only tests."""
    with opened_pages(tmp_path_factory.mktemp("rights")) as opened:
        yield opened


@pytest.fixture
def own_pages(tmp_path: Path) -> Iterator[Pages]:
    """Yield pages for tests with changes."""
    with opened_pages(tmp_path) as opened:
        yield opened


def addresses(pages: Pages) -> Iterator[tuple[str, str, GuardedRoute]]:
    for route in pages.routes():
        path = route.path
        for name, value in FILLED.items():
            path = path.replace(f"{{{name}}}", quote(value))
        for method in sorted(set(route.methods or ()) - {"HEAD"}):
            yield method, path, route


@pytest.mark.parametrize("right", list(Right))
def test_each_route_is_for_people_with_its_right_and_for_no_other(pages: Pages, right: Right) -> None:
    met = set()
    for method, path, route in addresses(pages):
        status, text = pages.ask(expand_rights([right]), method, path)
        may = not route.rights or bool(expand_rights([right]) & set(route.rights))
        assert (status != 403) == may, (method, path, status)
        if not may:
            assert "E940" in text
            assert "shop" not in text.replace("anna may not", "") or right is Right.LOOK, (path, text)
        met.add(route.path)
    assert met == {route.path for route in pages.routes()}


def test_a_person_without_rights_opens_nothing_of_the_project(pages: Pages) -> None:
    opened = {path for method, path, _ in addresses(pages) if pages.ask((), method, path)[0] != 403}
    assert opened == {"/livez", "/static/ui.css"}


def test_every_route_declares_its_right(pages: Pages) -> None:
    async def answer(_: object) -> Response:
        return Response()

    require_guarded(pages.routes())
    with pytest.raises(TypeError, match="declares no right"):
        require_guarded([*pages.routes(), Route("/open", answer)])
    with pytest.raises(TypeError, match="rights"):
        GuardedRoute("/open", answer, rules=pages.anna.rules)  # type: ignore[call-arg]


@pytest.mark.parametrize("verb", list(Verb))
def test_the_function_that_makes_a_change_checks_the_right_again(pages: Pages, verb: Verb) -> None:
    at = pages.live.load()
    by = Person("anna", ALL_RIGHTS - {right_of(verb), Right.ADMINISTER}, SignIn.TOKEN)
    proposal = replace(propose(at, "retry", "raw.inventory", "2026-09-22", 100), verb=verb)
    with pytest.raises(WaterclockError) as refused:
        decide(at, proposal, by=by, why="because")
    assert refused.value.code == "E940"


def test_notes_and_acknowledgments_check_the_right_again(pages: Pages) -> None:
    at, by = pages.live.load(), Person("anna", frozenset({Right.LOOK}), SignIn.TOKEN)
    with pytest.raises(WaterclockError, match="may not write a note on a rule"):
        store_rule_note(at, "raw.weather", "few_rows", "text", by)
    with pytest.raises(WaterclockError, match="may not acknowledge an alert"):
        acknowledge_alert(at, PageQuery.from_values({"alert": "1", "why": "seen"}), by)


def test_buttons_that_a_person_may_not_use_are_not_drawn(pages: Pages) -> None:
    for path in ("/errors", "/runs", "/tables/raw.weather", "/batches/raw.inventory/2026-09-22"):
        shown = pages.ask({Right.LOOK, Right.RUN}, "GET", path)[1]
        assert "/plan?verb=" in shown, path
        assert "/plan?verb=" not in pages.ask({Right.LOOK}, "GET", path)[1], path
    assert 'href="/query"' not in pages.ask({Right.LOOK}, "GET", "/errors")[1]
    assert 'href="/query"' in pages.ask({Right.LOOK, Right.QUERY}, "GET", "/errors")[1]


def test_a_release_needs_another_right_than_a_retry(own_pages: Pages) -> None:
    form = {"t": "raw.inventory", "l": "2026-09-22", "why": "because"}
    status, text = own_pages.ask({Right.LOOK, Right.RUN}, "GET", "/plan?verb=retry&t=raw.inventory&l=2026-09-22")
    assert (status, '<form action="/plan"' in text) == (200, True)
    status, text = own_pages.ask({Right.LOOK}, "GET", "/plan?verb=retry&t=raw.inventory&l=2026-09-22")
    assert (status, '<form action="/plan"' in text, "You may not do this" in text) == (200, False, True)
    digest = propose(own_pages.live.load(), "retry", "raw.inventory", "2026-09-22", 100).digest
    status, text = own_pages.ask({Right.LOOK, Right.RELEASE}, "POST", "/plan", verb="retry", digest=digest, **form)
    assert (status, "the right run is missing" in text) == (403, True)
    status, text = own_pages.ask(
        {Right.LOOK, Right.RUN}, "POST", "/plan", verb="retry", digest=digest, who="ben", **form
    )
    assert status == 303
    at = own_pages.live.load()
    assert at.ledger is not None
    assert [event.who for event in at.ledger.past.audit("raw.inventory", FAILED).events][-1] == "anna"
