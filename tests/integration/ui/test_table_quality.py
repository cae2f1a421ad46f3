"""The pages of a table's quality and of lag: from the ledger alone, after any history."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from tests import sales, stocks
from tests.pages import client_of
from waterclock.ui.live_project import LiveProject


@pytest.fixture(scope="session")
def sold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a shop with measured sales; tests copy it and never change it."""
    shop = sales.make(tmp_path_factory.mktemp("sales") / "shop")
    shop.live()
    return shop.folder


@pytest.fixture
def measured(sold: Path, tmp_path: Path, served: Callable[..., TestClient]) -> TestClient:
    return served(shutil.copytree(sold, tmp_path / "sold"), now=sales.NOW)


def test_rules_are_counted_over_their_batches_with_the_rows_that_broke_them(measured: TestClient) -> None:
    told = measured.get("/tables/raw.sales/quality.json").json()["quality"]
    rules = {rule["rule"]: rule for rule in told["rules"]}
    assert {name: tuple(rule["counts"].values()) for name, rule in rules.items()} == {
        "as_usual": (59, 0, 1),
        "not_shrunk": (57, 2, 0),
        "positive": (53, 6, 0),
        "id": (59, 0, 0),
        "amount DECIMAL(10, 2)": (59, 0, 0),
    }
    assert told["rules"][0]["rule"] == "as_usual"
    assert (rules["positive"]["rows"], rules["positive"]["taken"]) == (12, 12)  # two in every tenth batch
    assert (rules["id"]["rows"], rules["id"]["taken"], rules["id"]["aside"]) == (6, 6, None)
    assert (rules["not_shrunk"]["rows"], rules["not_shrunk"]["taken"]) == (None, None)
    asked = parse_qs(urlsplit(rules["positive"]["aside"]).query)["q"]
    rows = "SELECT timelabel, row, broken FROM raw.sales_quarantine"
    assert asked == [f"{rows} WHERE array_contains(broken, 'positive') ORDER BY timelabel DESC"]
    assert [(each["label"], each["came"], each["quarantined"], each["dropped"]) for each in told["aside"]][:2] == [
        ("20261111000000", sales.rows_of(stocks.FIRST + timedelta(days=50)) + 3, 2, 1),
        ("20261101000000", sales.rows_of(stocks.FIRST + timedelta(days=40)) + 3, 2, 1),
    ]
    page = measured.get("/tables/raw.sales/quality").text
    assert '1 rule</em> of 5 does not hold. <em class="is-warned">1 window is near its deadline</em>.' in page
    assert "Rows quarantined by positive" in page
    assert "2 warned" in page


def test_measures_are_shown_over_time_with_usual_ranges_and_broken_rules(measured: TestClient) -> None:
    told = measured.get("/tables/raw.sales/quality.json").json()["quality"]
    measures = {each["name"]: each for each in told["measures"]}
    assert list(measures) == ["rows", "mean", "newest", "sum(amount)"]
    total = measures["sum(amount)"]
    assert (total["rules"], len(total["points"])) == (["as_usual"], 60)
    first, *_, before, held = total["points"]
    assert (first["low"], first["usual"]) == (None, None)  # there is no usual range yet
    assert (held["label"], held["value"]) == ("20261120000000", None)
    assert before["low"] < float(before["value"]) < before["high"]
    assert held["low"] < held["usual"] < held["high"]
    assert [(each["label"], each["state"]) for each in total["broken"]] == [("20261120000000", "held")]
    assert "as_usual" in total["broken"][0]["message"]
    assert [each["state"] for each in measures["rows"]["broken"]] == ["warned", "warned"]
    assert (measures["rows"]["rules"], measures["rows"]["points"][0]["value"]) == (["not_shrunk"], "900")
    assert (measures["newest"]["type"], measures["newest"]["drawn"]) == ("timestamp", None)
    [amount] = told["profile"]
    assert (amount["column"], amount["nulls"], amount["least"], amount["greatest"]) == ("amount", "2", "0.50", None)
    assert len(amount["null_shares"]) == 59
    page = measured.get("/tables/raw.sales/quality").text
    assert page.count('class="band"') == sum(point["low"] is not None for point in total["points"])
    assert page.count('class="fill-held hollow"') == 1


def test_the_lag_page_lists_deadlines_silent_sources_and_lag_worst_first(measured: TestClient) -> None:
    told = measured.get("/lag.json").json()
    assert "".join(part["text"] for part in told["title"]) == (
        "1 window has missed its deadline, 1 window is near its deadline, 1 source is silent, 2 tables are behind."
    )
    missed, near = told["deadlines"]
    assert (missed["table"], missed["situation"], missed["label"]) == ("marts.revenue", "missed", "20261120000000")
    assert (missed["cause"]["table"], missed["cause"]["status"]) == ("raw.sales", "held")
    assert missed["cause"]["address"] == "/batches/raw.sales/20261120000000"
    assert (near["table"], near["situation"], near["cause"]["is_itself"]) == ("raw.sales", "near", True)
    [silent] = told["silent"]
    assert (silent["table"], silent["since"], silent["labels"]) == ("raw.returns", "20261117000000", 4)
    lags = {each["table"]: each for each in told["lags"]}
    assert (lags["raw.sales"]["labels"], lags["raw.sales"]["fresh_to"]) == (1, "2026-11-20T00:00:00Z")
    assert (lags["marts.revenue"]["behind"], lags["marts.revenue"]["rows"]) == (25.5 * 3600, 0)
    delays = lags["raw.returns"]["done_after"]
    assert delays["labels"] == 59  # the first was over when it began
    assert timedelta(hours=1) <= timedelta(seconds=delays["p50"]) <= timedelta(seconds=delays["max"])
    assert delays["late"] is None
    page = measured.get("/lag").text
    assert "Cause: raw.sales 20 Nov" in page
    assert "no rows arrived from erp" in page
    assert page.count("! behind</td>") == 2  # the tables that the title counts
    assert ">Behind<" not in page  # the age of a table that is in time is no lag
    assert measured.get("/lag.json", params={"t": "raw.*"}).json()["with_deadline"] == 1
    of_table = measured.get("/tables/marts.revenue/quality.json").json()["quality"]["in_time"]
    assert [each["situation"] for each in of_table["deadlines"]] == ["missed"]
    assert [each["table"] for each in of_table["lags"]] == ["marts.revenue"]


def test_column_versions_are_shown_in_the_history_of_a_table(measured: TestClient) -> None:
    told = measured.get("/tables/raw.returns/history.json").json()
    assert [(each["of"], each["version"], each["label"], each["new"]) for each in told["schemas"]] == [
        ("table", 2, "20261001000000", {"reason": "string"}),
        ("table", 1, "20260922000000", {}),
        ("source", 2, "20261001000000", {"reason": "string"}),
        ("source", 1, "20260922000000", {}),
    ]
    page = measured.get("/tables/raw.returns/history").text
    assert "new: reason string" in page
    assert "3 columns of version 2" in page


def test_a_table_that_never_ran_and_one_without_rules_have_a_page_of_quality(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    page = served(sales.make(tmp_path / "new").folder, now=sales.NOW)
    told = page.get("/tables/raw.sales/quality.json").json()["quality"]
    assert (told["measures"][0]["points"] if told["measures"] else [], told["aside"], told["profile"]) == ([], [], [])
    assert "5 rules, not checked for any batch yet" in page.get("/tables/raw.sales/quality").text
    assert "No rule is declared" in page.get("/tables/marts.quiet/quality").text
    assert page.get("/lag").status_code == 200


def statements(folder: Path, path: str) -> list[int]:
    """Count the ledger statements of a page, for its first request and for the next one."""
    live, said = LiveProject(folder, now=sales.NOW), list[str]()
    page = client_of(live)
    page.get("/query")  # opens and reads the ledger
    assert live._ledger is not None
    sa.event.listen(live._ledger._database._engine, "before_cursor_execute", lambda *told: said.append(told[2]))
    counts = []
    for _ in range(2):
        said.clear()
        assert page.get(path).status_code == 200
        counts.append(sum(each.lstrip().upper().startswith(("SELECT", "WITH")) for each in said))
    live.close()
    return counts


def test_pages_ask_a_number_of_statements_that_does_not_grow_with_the_history(sold: Path, tmp_path: Path) -> None:
    young = sales.make(tmp_path / "young")
    young.live(days=20)
    asked = {
        path: (statements(young.folder, path), statements(sold, path))
        for path in ("/tables/raw.sales/quality.json", "/lag.json", "/tables/raw.returns/history.json")
    }
    assert asked == {  # including the queries for a missed deadline of the first window, and for silent sources
        "/tables/raw.sales/quality.json": ([8, 1], [7, 1]),
        "/lag.json": ([5, 1], [6, 1]),
        "/tables/raw.returns/history.json": ([5, 1], [5, 1]),
    }
