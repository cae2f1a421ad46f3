"""Ledger statements and response size of a page are counted, for projects of any size."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from tests import stocks
from tests.pages import client_of
from waterclock.operations.display_states import State
from waterclock.operations.freshness import Freshness
from waterclock.operations.project_opening import instant_of_question
from waterclock.operations.timeline_bars import BarPiece, TimeAxis, TimelineBar
from waterclock.planner.plan import Plan
from waterclock.planner.planning import Planner
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import Period, TimeUnit
from waterclock.ui.live_project import LiveProject
from waterclock.ui.page_query import PageQuery
from waterclock.ui.pages import grid
from waterclock.ui.rendering import render

LOOKED_AT_AGAIN = (
    "/",
    "/today",
    "/catalog",
    "/tables/marts.revenue",
    "/tables/marts.revenue/batches",
    "/tables/marts.revenue/quality",
    "/tables/marts.revenue/code",
    "/tables/marts.revenue/history",
    "/lag",
    "/pii",
    "/quality",
    "/batches/marts.revenue/2026-11-09",
    "/batches/marts.stock_health/2026-11-09",
    "/runs",
    "/errors",
)


@pytest.fixture
def asked(shop: stocks.Stocks) -> Iterator[tuple[TestClient, list[str]]]:
    live, said = LiveProject(shop.folder, now="2026-11-21T01:30Z"), list[str]()
    page = client_of(live)
    page.get("/")
    assert live._ledger is not None
    sa.event.listen(live._ledger._database._engine, "before_cursor_execute", lambda *told: said.append(told[2]))
    yield page, said
    live.close()


@pytest.mark.parametrize("path", LOOKED_AT_AGAIN)
def test_an_unchanged_page_runs_at_most_five_sql_statements(asked: tuple[TestClient, list[str]], path: str) -> None:
    page, said = asked
    for headers in ({}, {"HX-Request": "true"}):
        page.get(path, headers=headers)
        said.clear()
        assert page.get(path, headers=headers).status_code == 200
        assert len(said) <= 5, said


def test_a_cached_page_is_valid_for_one_ledger_state_and_one_minute(
    shop: stocks.Stocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = ["2026-11-21T01:30Z"]
    monkeypatch.setattr(
        "waterclock.ui.live_project.instant_of_question",
        lambda project, _, ledger: instant_of_question(project, now[0], ledger),
    )
    live = LiveProject(shop.folder)
    page = client_of(live)
    first = page.get("/grid.json").json()
    assert page.get("/grid.json").json() == first
    now[0] = "2026-11-22T01:30Z"
    assert page.get("/grid.json").json()["counts"]["due"] > 0
    now[0] = "2026-11-21T01:30Z"
    with shop.ledger() as ledger:
        ledger.decisions.retry("raw.prices", [stocks.NOW.replace(day=20, hour=0, minute=0)], who="ann")
    assert page.get("/grid.json").json()["counts"]["failed"] == 1
    live.close()


def test_all_that_a_page_loads_beside_itself_is_kept_by_the_browser(page: TestClient) -> None:
    for path in LOOKED_AT_AGAIN:
        loaded = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.get(path).text)
        assert 1 <= len(loaded) <= 5
        for file in loaded:
            assert "immutable" in page.get(file).headers["cache-control"]
            assert "?" in file  # named by its content


def test_scripts_that_are_imported_are_loaded_once_and_are_not_kept_by_the_browser(page: TestClient) -> None:
    scripts = {each.name: each.read_text() for each in files("waterclock.ui").joinpath("static").iterdir()}
    imported = {
        name for text in scripts.values() for name in re.findall(r'^import .* from "\./(.+)";', text, re.MULTILINE)
    }
    assert imported
    for name in imported:
        assert page.get(f"/static/{name}").headers["cache-control"] == "no-cache"
        assert page.get(f"/static/{name}?0123456789ab").headers["cache-control"] == "no-cache"
    for path in LOOKED_AT_AGAIN:  # a script of a page that is imported too would run twice
        loaded = {name.partition("?")[0] for name in re.findall(r'src="/static/([^"]+)"', page.get(path).text)}
        assert not loaded & imported


def test_a_grid_of_500_tables_and_90_labels_is_less_than_100_kilobytes(
    tmp_path: Path,
) -> None:
    """Every table fails in other places, so that few neighbours are alike."""
    flow = "CREATE CONNECTION erp TYPE sqlite;\n" + "".join(
        f"COLLECT raw.a_table_number_{n} PARTITIONED (sku STRING, at TIMESTAMP) FROM erp.t EVERY DAY BY DATA TIME at;\n"
        for n in range(500)
    )
    shop = stocks.make(tmp_path / "wide", flow=flow)
    with closing(LiveProject(shop.folder, now="2026-12-21T01:30Z")) as live:
        at = live.load()
    by = Cadence(Period(TimeUnit.DAY))
    axis = TimeAxis.over(by, (stocks.FIRST, stocks.FIRST + timedelta(days=90)))
    drawn = [TimelineBar(name, tuple(pieces(axis, n))) for n, name in enumerate(at.flow.order)]
    fresh = {name: Freshness(axis.columns[-1], 1, 0, None, State.FAILED) for name in at.flow.order}
    rows = [grid._describe_table(at, ribbon, fresh[ribbon.table], is_root=False) for ribbon in drawn]
    told = page_of(axis, rows)
    assert len(gzip.compress(told.encode(), 9)) <= 100_000  # size as sent


def test_the_page_of_a_batch_does_not_plan_the_whole_backlog(
    shop: stocks.Stocks, served: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[int] = []
    plan = Planner.plan

    def noted(*asked: Any) -> Plan:
        made = plan(*asked)
        listed.append(max(Counter(batch.table for batch in made.batches).values()))
        return made

    monkeypatch.setattr(Planner, "plan", noted)
    page = served(shop.folder, now="2036-11-21T01:30Z")
    assert page.get("/batches/raw.inventory/2026-11-09.json").json()["state"] == "failed"
    assert max(listed) <= 1000  # of 87,000 hours


def pieces(axis: TimeAxis, number: int) -> list[BarPiece]:
    """Return a ribbon cut at random places: three failures, a warning and ok between them."""
    cuts = sorted({(number * step) % 90 for step in (7, 31, 53, 71)})
    found, before = [], 0
    for cut in [*cuts, 90]:
        if cut > before:
            low, high = axis.columns[before], axis.columns[cut] if cut < 90 else axis.end
            found.append(BarPiece(before, cut - before, State.OK, cut - before, cut - before, low, high))
        if cut < 90:
            high = axis.columns[cut + 1] if cut < 89 else axis.end
            found.append(BarPiece(cut, 1, State.FAILED, 1, 1, axis.columns[cut], high))
        before = cut + 1
    return found


def page_of(axis: TimeAxis, rows: list[dict[str, object]]) -> str:
    told = {
        "title": [], "more": [], "counts": {"failed": 4 * len(rows)}, "tables": len(rows), "cell": 15,
        "columns": list(grid._describe_columns(axis)),
        "took": [], "ticks": False, "are_closed": True, "leads_into_columns": True,
        "layers": [{"schema": "raw", "tables": len(rows), "fresh": 0, "rows": rows}],
    }  # fmt: skip
    return render("_grid.html", content=told, params=PageQuery())
