"""The history of a table: each declared statement, its changes, and the batches made with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from starlette.testclient import TestClient

from tests import stocks


def edit(shop: stocks.Stocks, old: str, new: str) -> None:
    file = next(shop.folder.rglob("*.dpl"))
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    shop.__dict__.pop("project", None)


def test_each_statement_is_listed_with_its_changes_and_its_number_of_batches(
    shop: stocks.Stocks, served: Callable[..., TestClient]
) -> None:
    page = served(shop.folder)
    [first] = page.get("/tables/raw.weather/history.json").json()["codes"]
    assert (first["is_current"], first["changes"], first["who"]) == (True, [], "ann")
    assert first["statement"].startswith("COLLECT raw.weather PARTITIONED")
    assert first["statement"].endswith("weather';")
    shop.now = stocks.NOW + timedelta(days=2)
    edit(shop, "count(*) > 100 AS few_rows", "count(*) > 80 AS few_rows")
    shop.fill()
    page = served(shop.folder, now="2026-11-23T01:30Z")
    now, before = page.get("/tables/raw.weather/history.json").json()["codes"]
    assert (now["count"], before["count"]) == (2, first["count"])
    assert (now["is_current"], before["is_current"]) == (True, False)
    said = [(line["kind"], "few_rows" in line["text"]) for line in now["changes"] if line["kind"] in {"added", "gone"}]
    assert said == [("gone", True), ("added", True)]
    assert len(page.get("/tables/raw.sites/history.json").json()["codes"]) == 1  # which has not changed
    text = page.get("/tables/raw.weather/history").text
    assert '<span class="added">' in text
    assert "current declaration" in text


def test_a_change_that_comes_only_from_a_view_is_marked_as_such(
    shop: stocks.Stocks, served: Callable[..., TestClient]
) -> None:
    file = next(shop.folder.rglob("*.dpl"))
    text = file.read_text(encoding="utf-8") + (
        "CREATE VIEW core.dear AS SELECT sku, qty FROM raw.prices WHERE qty > 1;\n"
        "TRANSFORM core.dear_daily PARTITIONED EVERY DAY AS SELECT sku, qty FROM core.dear;\n"
    )
    file.write_text(text, encoding="utf-8")
    for limit in ("qty > 1", "qty > 2"):
        edit(shop, "qty > 1", limit)
        shop.fill(until=stocks.NOW)
    now, before = served(shop.folder).get("/tables/core.dear_daily/history.json").json()["codes"]
    assert now["is_same"]
    assert now["statement"] == before["statement"]


def test_batches_of_a_ledger_that_kept_no_text_yet_are_counted(
    shop: stocks.Stocks, served: Callable[..., TestClient]
) -> None:
    with shop.ledger() as ledger:
        connection = ledger._database._engine.raw_connection()
        connection.execute("DELETE FROM events WHERE kind = 'declared'")
        connection.commit()
        connection.close()
    page = served(shop.folder)
    [only] = page.get("/tables/raw.sites/history.json").json()["codes"]
    assert (only["statement"], only["count"], only["is_current"]) == (None, 60, True)
    assert "Before the text was stored" in page.get("/tables/raw.sites/history").text
