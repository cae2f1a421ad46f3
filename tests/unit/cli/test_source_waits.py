"""Waits for sources that a run found are shown by commands that query no source."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.unit.cli.conftest import Shop, day
from waterclock.engine.collect.source_clocks import UnfinishedSource
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.source_waits import record_source_waits
from waterclock.operations.project_opening import open_read_only
from waterclock.timelabel.window import Window
from waterclock.ui.page_query import PageQuery
from waterclock.ui.pages.batch import batch


def look(shop: Shop, *waiting: int, only: tuple[str, ...] | None = None) -> None:
    """Record the result of a run: the windows of orders that wait for their source; only the oldest one is known."""
    work: Any = SimpleNamespace(
        flow=shop.project.flow, ledger=shop.ledger, settings=SimpleNamespace(who="ann"), run="r1"
    )
    held = tuple(
        UnfinishedSource("shop.orders", Window(day(number), day(number + 1)), day(number)) for number in waiting[:1]
    )
    record_source_waits(work, RunOutcome(held_back=held), only)


def test_windows_that_wait_for_their_source_are_counted_apart_from_the_oldest_on(shop: Shop) -> None:
    before = shop.json("plan", "shop.orders")["summary"]["ready"]
    assert "waiting for their source" not in shop.ask("plan").stdout
    look(shop, 18, 19)
    said = shop.ask("plan", "shop.orders").stdout
    assert said.startswith(f"{before} due: {before - 2} ready, 2 waiting for their source;")
    assert "shop.orders@20241118000000 waits for its source, as a run found at 20" in said
    assert said.splitlines()[-1].strip() == "waits for its source"
    told = shop.json("plan", "shop.orders")
    assert [(it["table"], it["label"]) for it in told["waits_for_source"]] == [("shop.orders", "20241118000000")]
    assert told["summary"]["ready"] == before
    assert "2 waiting for their source" in shop.ask("status", "shop.orders").stdout
    assert [it["label"] for it in shop.json("status")["waits_for_source"]] == ["20241118000000"]


def test_the_page_of_a_batch_shows_that_it_waits_for_its_source(shop: Shop) -> None:
    with open_read_only(shop.folder, None, "2024-11-20T08:00") as at:
        assert batch(at, PageQuery("", "", {"table": "shop.orders", "labels": "2024-11-19"}))["reason"] == "due"
    look(shop, 18)
    with open_read_only(shop.folder, None, "2024-11-20T08:00") as at:
        page = batch(at, PageQuery("", "", {"table": "shop.orders", "labels": "2024-11-19"}))
        assert (page["reason"], page["way"]) == ("waits for its source", [])
        before = batch(at, PageQuery("", "", {"table": "shop.orders", "labels": "2024-11-17"}))
        assert before["reason"] == "due"
        reader = batch(at, PageQuery("", "", {"table": "sales.by_country", "labels": "2024-11-19"}))
        assert (reader["way"][-1]["description"], reader["way"][-1]["detail"]) == (
            "which is ready",
            "waits for its source",
        )


def test_a_wait_for_a_source_is_recorded_once_and_ends_when_a_run_finds_it_over(shop: Shop) -> None:
    look(shop, 18)
    written = shop.ledger.sequence()
    look(shop, 18)
    look(shop, only=("web.visits",))
    assert shop.ledger.sequence() == written  # watching processes are not woken by known facts
    look(shop)
    assert "waiting for their source" not in shop.ask("plan").stdout
    assert shop.json("plan")["waits_for_source"] == []
