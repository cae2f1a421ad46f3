"""The page of a run: the batches it made, when, and those that wait while it continues."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from starlette.testclient import TestClient

from tests import stocks
from waterclock.batches.audit_records import RunClaim
from waterclock.ui.pages.run_comparison import side_by_side


def begun(shop: stocks.Stocks) -> str:
    with shop.ledger() as ledger:
        return ledger.past.begin_run(who="ann", command="run --watch", now=stocks.NOW)


def test_the_page_of_a_run_lists_its_batches_failures_and_waiting_tables(
    shop: stocks.Stocks, served: Callable[..., TestClient]
) -> None:
    name = begun(shop)
    shop.now = stocks.NOW + timedelta(days=1)
    shop.fails = {("raw.sites", stocks.NOW.replace(hour=0, minute=0)): "E731 no such file\n  sites.csv"}
    shop.fill(run=name)
    page = served(shop.folder, now="2026-11-22T01:30Z")
    told = page.get(f"/runs/{name}.json").json()
    assert (told["command"], told["who"], told["is_going_on"]) == ("run --watch", "ann", True)
    assert told["counts"]["failed"] == 1
    assert told["batches"] == sum(each["count"] for each in told["claims"] if each["status"] == "done") > 20
    [failed] = [each for each in told["claims"] if each["status"] == "failed"]
    assert (failed["table"], failed["words"], failed["error"]) == ("raw.sites", "21 Nov", "E731 no such file")
    assert [each["step"] for each in told["steps"]] == ["make", "seal"]
    waits = {each["table"]: each["reason"] for each in told["waits"]}
    assert "raw.sites" in waits["core.sites_now"]
    assert told["spark"] is None
    with shop.ledger() as ledger:
        ledger.past.add_event("spark page", who="ann", run=name, data={"address": "http://vm:4040"})
    assert '<a href="http://vm:4040" rel="noreferrer">' in page.get(f"/runs/{name}").text
    with shop.ledger() as ledger:
        ledger.past.add_event("spark page", who="ann", run=name, data={"address": "javascript:alert(1)"})
        assert page.get(f"/runs/{name}.json").json()["spark"] is None
        ledger.past.end_run(name, "failed", who="ann")
    ended = page.get(f"/runs/{name}.json").json()
    assert (ended["outcome"], ended["waits"]) == ("failed", [])
    text = page.get(f"/runs/{name}").text
    assert f"/runs/{name}" in page.get("/runs").text
    assert text.count("<rect") == len(told["claims"])


def test_bars_of_claims_that_overlap_lie_below_each_other(shop: stocks.Stocks, page: TestClient) -> None:
    name = begun(shop)
    shop.now = stocks.NOW + timedelta(days=1)
    shop.fill(run=name, stop=lambda group: group.table in {"raw.sites", "raw.prices"})
    chart = page.get(f"/runs/{name}.json").json()["chart"]
    assert chart["lanes"] >= 3  # two for open claims, and the others
    for lane in range(chart["lanes"]):
        bars = sorted((bar["x"], bar["width"]) for bar in chart["bars"] if bar["lane"] == lane)
        assert all(x + width <= later + 2.1 for (x, width), (later, _) in itertools.pairwise(bars))
        assert all(0 <= x <= x + width <= chart["width"] + 2.1 for x, width in bars)


def test_a_runner_killed_on_this_machine_is_shown_as_ended(shop: stocks.Stocks, page: TestClient) -> None:
    named = "from waterclock.engine.runner_name import runner_name; print(runner_name())"
    ended = subprocess.run([sys.executable, "-c", named], capture_output=True, text=True, check=True).stdout.strip()
    with shop.ledger() as ledger:
        for name in (ended, "elsewhere:1:a"):
            ledger.runners.register(name, who="ann", command="run", flow="f", lease_seconds=1e9)
    told = page.get("/runs.json").json()
    assert {each["runner"]: each["is_alive"] for each in told["runners"]} == {ended: False, "elsewhere:1:a": True}
    assert page.get("/grid", headers={"HX-Request": "true"}).headers["waterclock-runners"] == "1 runner"


def test_a_run_that_made_nothing_and_one_that_is_not_known(
    tmp_path: Path, shop: stocks.Stocks, page: TestClient, served: Callable[..., TestClient]
) -> None:
    assert "It made no batch so far" in page.get(f"/runs/{begun(shop)}").text
    answer = page.get("/runs/nobody")
    assert (answer.status_code, "there is no run nobody" in answer.text) == (404, True)
    assert served(stocks.make(tmp_path / "new").folder).get("/runs/nobody").status_code == 404


def ran(shop: stocks.Stocks, days: int, *, command: str = "run") -> str:
    with shop.ledger() as ledger:
        name = ledger.past.begin_run(who="ann", command=command, now=stocks.NOW)
    shop.now = stocks.NOW + timedelta(days=days)
    shop.fill(run=name)
    with shop.ledger() as ledger:
        ledger.past.end_run(name, "done", who="ann")
    return name


def test_a_run_is_compared_with_the_previous_run_of_the_same_command(
    shop: stocks.Stocks, served: Callable[..., TestClient]
) -> None:
    first, other, second = ran(shop, 1), ran(shop, 2, command="run --watch"), ran(shop, 4)
    page = served(shop.folder, now="2026-11-25T01:30Z")
    assert page.get(f"/runs/{first}.json").json()["against"] is None
    told = page.get(f"/runs/{second}.json").json()["against"]
    assert (told["run"], told["is_named"]) == (first, False)
    hours = {each["table"]: (each["before"]["batches"], each["now"]["batches"]) for each in told["tables"]}[
        "raw.orders"
    ]
    assert hours == (24, 48)
    assert not any(each["has_other_code"] for each in told["tables"])
    named = page.get(f"/runs/{second}.json", params={"against": other}).json()["against"]
    assert (named["run"], named["is_named"]) == (other, True)
    text = page.get(f"/runs/{second}").text
    assert f'<a href="/runs/{first}">' in text
    unknown = page.get(f"/runs/{second}", params={"against": "nobody"})
    assert (unknown.status_code, "there is no run nobody" in unknown.text) == (404, True)


def test_slower_tables_and_those_with_changed_code_are_listed_first() -> None:
    def claim(table: str, seconds: float, *, code: str = "a" * 12, count: int = 1) -> RunClaim:
        return RunClaim(
            claim=1,
            table=table,
            code=code,
            first=stocks.NOW,
            last=stocks.NOW,
            count=count,
            status="done",
            claimed_at=stocks.NOW,
            closed_at=stocks.NOW + timedelta(seconds=seconds),
            rows=count,
            seconds={},
            error=None,
        )

    before = [claim("same", 10), claim("coded", 10), claim("slow", 20, count=10), claim("gone", 1)]
    rows = side_by_side(
        [claim("same", 11), claim("coded", 10, code="b" * 12), claim("slow", 6), claim("new", 1)], before
    )
    assert [(row["table"], row["change"], row["has_other_code"]) for row in rows] == [
        ("slow", "3.0 times as long", False), ("coded", "", True), ("same", "", False), ("new", "", False),
        ("gone", "", False),
    ]  # fmt: skip
    assert {row["table"]: (row["now"] is None, row["before"] is None) for row in rows}["gone"] == (True, False)
