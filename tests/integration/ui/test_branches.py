"""The pages of branches, and the rows of a table next to those in a branch or in its base."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.branches import Branched
from tests.integration.engine.branching.test_branches import NOW, OWN, copied, production
from tests.pages import client_of
from tests.tiny import day
from waterclock.errors import WaterclockError
from waterclock.operations.revision_rows import find_revision_elsewhere
from waterclock.permissions.users_and_roles import AccessRules, Person, Right, SignIn
from waterclock.ui.live_project import LiveProject
from waterclock.ui.page_query import PageQuery
from waterclock.ui.pages.branches import branches
from waterclock.ui.query_client import QueryClient

pytestmark = pytest.mark.spark
__all__ = ["copied", "production"]  # fixtures
EVE = Person("eve", frozenset({Right.LOOK}), SignIn.TOKEN)


@pytest.fixture
def pages(copied: Branched) -> Iterator[Callable[[str], TestClient]]:
    """Open the pages of an environment of the project."""
    opened: list[LiveProject] = []

    def serve(env: str) -> TestClient:
        opened.append(LiveProject(copied.root, env=env, now=NOW.isoformat()))
        return client_of(opened[-1])

    yield serve
    for live in opened:
        live.close()


def rows_of(page: TestClient, **asked: str) -> Any:
    return page.get("/tables/marts.net.json", params={"at": "2020-01-02", **asked}).json()["held"]


def test_a_branch_is_shown_with_its_tables_and_rows_next_to_those_of_its_base(
    copied: Branched, pages: Callable[[str], TestClient]
) -> None:
    prod = pages("prod")
    assert prod.get("/branches.json").json()["branches"][0]["describes"] == "not created yet"
    assert prod.get("/branches/try").status_code == 200
    unknown = prod.get("/branches/%3Cscript%3E")
    assert (unknown.status_code, "E470" in unknown.text, "<script>" in unknown.text.split("<main")[1]) == (
        404, True, False,
    )  # fmt: skip

    branch = copied.of("try")
    branch.create(NOW)
    branch.make()
    told = prod.get("/branches/try.json").json()
    assert (told["error"], told["borrowed"]) == (None, ["shop.sales", "shop.customers", "marts.same"])
    tables = {each["table"]: each for each in told["tables"]}
    assert set(tables) == set(OWN)
    assert (tables["marts.net"]["change"], tables["marts.best"]["change"]) == ("changed: query", "reads marts.net")
    assert (tables["marts.net"]["made"], tables["marts.net"]["adopted"]) == (3, 3)
    assert told["publishes"] == ["out.net"]
    text = prod.get("/branches/try").text
    assert 'href="/tables/marts.net?in=try#held"' in text
    assert "waterclock diff --all --env try --against prod" in text

    there = rows_of(prod, **{"in": "try"})
    assert (there["error"], there["environments"], there["differing"]) == (None, ["try"], 2)
    assert [(row["kind"], row["cells"][2]["text"], row["cells"][2]["was"]) for row in there["shown"]] == [
        ("changed", "3", "30"), ("changed", "4", "40"),
    ]  # fmt: skip
    own = pages("try")
    here = rows_of(own, **{"in": "prod"})
    assert [(row["cells"][2]["text"], row["cells"][2]["was"]) for row in here["shown"]] == [("30", "3"), ("40", "4")]
    assert 'href="/tables/marts.net?in=prod#held"' in own.get("/branches/try").text
    assert there["description"] == "2 of 2 rows differ; struck out: in try"
    page = own.get("/tables/marts.net", params={"at": "2020-01-02", "in": "prod"}).text
    assert '<option value="prod" selected>prod</option>' in page
    assert "<s>3</s> 30" in page

    # the rows of the other environment are current, whatever the pages have cached
    copied.shop("UPDATE sales SET amount = 9 WHERE id = 2")
    with copied.ledger() as ledger:
        ledger.decisions.request_restate("shop.sales", [day(2)], "recollect", who="a test")
    assert not copied.run(NOW).failed
    assert [row["cells"][2]["was"] for row in rows_of(own, **{"in": "prod"})["shown"]] == ["90", None]

    for asked in (prod.get("/branches/tyr").text, prod.get("/tables/marts.net", params={"in": "tyr"}).text):
        assert "there is no branch tyr" in asked
        assert "did you mean try?" in asked
    for env in ("clean", "<script>alert(1)</script>"):
        refused = prod.get("/tables/marts.net", params={"at": "2020-01-02", "in": env}).text
        assert "E470" in refused
        assert "<script>alert" not in refused


def test_a_person_needs_the_right_in_both_environments(copied: Branched) -> None:
    copied.of("try").create(NOW)
    project = copied.load()
    table = project.flow.tables["marts.net"]
    live = LiveProject(copied.root, env="prod", now=NOW.isoformat())
    try:
        at = live.load()
        assert find_revision_elsewhere(at, table, day(2), "try", EVE).folder.endswith("marts/net")
        other = replace(at, project=replace(project, access=AccessRules(users={}, proxies=("10.0.0.1",))))
        eves = PageQuery(values={"branch": "try"}, reader=QueryClient(person=EVE))
        assert (branches(at, eves)["error"], bool(branches(at, eves)["tables"])) == (None, True)
        hidden = branches(other, eves)
        assert (hidden["error"]["code"], hidden["tables"], hidden["borrowed"]) == ("E946", [], [])
        for person in (EVE, None):
            with pytest.raises(WaterclockError, match="E946"):
                find_revision_elsewhere(other, table, day(2), "try", person)
        with pytest.raises(WaterclockError, match=r"E516.*marts\.net@20200109000000 was not made in try"):
            find_revision_elsewhere(at, table, day(9), "try", EVE)
    finally:
        live.close()
