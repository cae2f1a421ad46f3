from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from tests import slices, stocks
from waterclock.planner.planning import Planner
from waterclock.planner.request import PlanRequest
from waterclock.storage.lake import Lake

SCHEMA = pa.schema([("timelabel", pa.string()), ("sku", pa.string()), ("qty", pa.int32()), ("at", pa.timestamp("us"))])
TABLE = "raw.products"
LABEL = datetime(2026, 11, 18, tzinfo=UTC)
ADDRESS = f"/tables/{TABLE}.json"


def rows(**stock: int) -> list[dict[str, object]]:
    return [{"sku": sku, "qty": qty, "at": LABEL.replace(tzinfo=None)} for sku, qty in stock.items()]


def seal(shop: stocks.Stocks, claim: int, made: list[dict[str, object]]) -> None:
    slices.sealed(Lake(shop.project.storage).folder(TABLE), LABEL, claim, made, schema=SCHEMA)


@pytest.fixture
def claims(shop: stocks.Stocks) -> tuple[int, int]:
    """Make a label again with other rows; return the claims of both revisions."""
    flow = shop.project.flow
    with shop.ledger() as ledger:
        first = ledger.past.audit(TABLE, LABEL).cell.current_claim
        ledger.decisions.request_restate(TABLE, [LABEL], "recompute", who="ann")
        asked = PlanRequest(only=[TABLE], clock=ledger.now())
        [group] = Planner(flow).ready(ledger.reads.snapshot(flow), shop.now, asked)
        second = stocks.take(ledger, shop.project, group, shop.now)
        stocks.record(ledger, second, group, rows=4)
    assert first is not None
    seal(shop, first, rows(kettle=3, toaster=7, lamp=1))
    seal(shop, second.number, rows(kettle=3, toaster=19, radio=2))
    return first, second.number


def test_the_rows_that_are_there_now_are_shown(claims: tuple[int, int], page: TestClient) -> None:
    told = page.get(ADDRESS, params={"at": "2026-11-18"}).json()["held"]
    assert told["columns"] == ["sku", "qty", "at"]
    assert told["numbers"] == [False, True, False]
    assert [row["cells"][1]["text"] for row in told["shown"]] == ["3", "19", "2"]
    assert [each["claim"] for each in told["revisions"]] == [claims[1], claims[0]]
    assert told["revisions"][0]["words"].startswith("now, revision 2")


def test_another_label_in_the_form_is_shown_as_it_is_known_now(
    claims: tuple[int, int], shop: stocks.Stocks, page: TestClient
) -> None:
    with shop.ledger() as ledger:
        other = ledger.past.audit(TABLE, LABEL - timedelta(days=1)).cell.current_claim
    assert other is not None
    folder = Lake(shop.project.storage).folder(TABLE)
    slices.sealed(folder, LABEL - timedelta(days=1), other, rows(pan=1), schema=SCHEMA)
    asked = {"at": "2026-11-17", "of": "20261118000000", "known": str(claims[0]), "against": str(claims[1])}
    told = page.get(ADDRESS, params=asked).json()["held"]
    assert (told["error"], told["known"], told["label"]) == (None, other, "20261117000000")
    same = page.get(ADDRESS, params=asked | {"at": "2026-11-18"}).json()["held"]
    assert (same["known"], same["against"]) == claims


def test_columns_that_are_only_noted_of_rows_are_not_shown(shop: stocks.Stocks, page: TestClient) -> None:
    with shop.ledger() as ledger:
        claim = ledger.past.audit(TABLE, LABEL).cell.current_claim
    assert claim is not None
    noted = SCHEMA.append(pa.field("_waterclock_aside", pa.string()))
    made = [row | {"_waterclock_aside": None} for row in rows(kettle=3)]
    slices.sealed(Lake(shop.project.storage).folder(TABLE), LABEL, claim, made, schema=noted)
    assert page.get(ADDRESS, params={"at": "2026-11-18"}).json()["held"]["columns"] == ["sku", "qty", "at"]


def test_an_older_revision_is_held_against_the_newer_by_its_keys(claims: tuple[int, int], page: TestClient) -> None:
    asked = {"at": "2026-11-18", "against": str(claims[0])}
    told = page.get(ADDRESS, params=asked).json()["held"]
    said = [
        (row["kind"], row["cells"][0]["text"], row["cells"][1]["text"], row["cells"][1]["was"]) for row in told["shown"]
    ]
    assert said == [
        ("same", "kettle", "3", None), ("changed", "toaster", "19", "7"), ("new", "radio", "2", None),
        ("gone", "lamp", "1", None),
    ]  # fmt: skip
    assert told["description"] == "3 of 4 rows differ"
    only = page.get(ADDRESS, params={**asked, "differing": "1"}).json()["held"]
    assert [row["kind"] for row in only["shown"]] == ["changed", "new", "gone"]
    text = page.get(f"/tables/{TABLE}", params=asked).text
    assert "<s>7</s>" in text
    assert "4 of 4 rows" in text


def test_a_label_is_held_against_another_one(shop: stocks.Stocks, claims: tuple[int, int], page: TestClient) -> None:
    before = LABEL - timedelta(days=1)
    with shop.ledger() as ledger:
        claim = ledger.past.audit(TABLE, before).cell.current_claim
    assert claim is not None
    slices.sealed(Lake(shop.project.storage).folder(TABLE), before, claim, rows(kettle=3, toaster=5), schema=SCHEMA)
    asked = {"at": "2026-11-18", "known": str(claims[1]), "beside": "2026-11-17"}
    told = page.get(ADDRESS, params=asked).json()["held"]
    said = [(row["kind"], row["cells"][0]["text"], row["cells"][1]["was"]) for row in told["shown"]]
    assert said == [("same", "kettle", None), ("changed", "toaster", "5"), ("new", "radio", None)]
    assert (told["beside"], told["description"]) == ("2026-11-17", "2 of 3 rows differ")
    assert "beside=2026-11-17&amp;differing=1" in page.get(f"/tables/{TABLE}", params=asked).text
    for wrong, code in (("2031-01-01", "E513"), ("soon", "E512")):
        told = page.get(ADDRESS, params=asked | {"beside": wrong}).json()["held"]
        assert told["error"]["code"] == code


def test_a_label_without_rows_is_held_against_one_with_some(
    shop: stocks.Stocks, claims: tuple[int, int], page: TestClient
) -> None:
    assert claims
    empty = LABEL - timedelta(days=1)
    with shop.ledger() as ledger:
        claim = ledger.past.audit(TABLE, empty).cell.current_claim
    assert claim is not None
    slices.sealed(Lake(shop.project.storage).folder(TABLE), empty, claim, [], schema=SCHEMA)
    told = page.get(ADDRESS, params={"at": "2026-11-17", "known": str(claim), "beside": "2026-11-18"}).json()["held"]
    assert told["description"] == "3 of 3 rows differ"
    assert [(row["kind"], row["cells"][0]["text"]) for row in told["shown"]] == [
        ("gone", "kettle"), ("gone", "toaster"), ("gone", "radio"),
    ]  # fmt: skip


def test_missing_files_are_reported_and_the_rest_of_the_page_is_shown(
    shop: stocks.Stocks, claims: tuple[int, int], page: TestClient
) -> None:
    for file in Path(Lake(shop.project.storage).folder(TABLE)).rglob("*.parquet"):
        file.unlink()
    told = page.get(ADDRESS, params={"at": "2026-11-18", "known": str(claims[1])}).json()
    assert told["held"]["error"]["code"] == "E605"
    answer = page.get(f"/tables/{TABLE}", params={"at": "2026-11-18"})
    assert (answer.status_code, "Rows per batch" in answer.text) == (200, True)


@pytest.mark.parametrize("asked", [{"known": "999999"}, {"at": "2026-11-18", "against": "999999"}])
def test_a_claim_that_is_not_a_revision_is_reported(
    claims: tuple[int, int], page: TestClient, asked: dict[str, str]
) -> None:
    assert claims
    assert page.get(ADDRESS, params=asked).json()["held"]["error"]["code"] == "E516"


def test_a_label_that_the_table_does_not_have_is_refused(page: TestClient) -> None:
    assert page.get(ADDRESS, params={"at": "2031-01-01"}).status_code == 404
    assert page.get(ADDRESS, params={"at": "soon"}).status_code == 422


def test_a_page_of_a_running_batch_shows_no_rows_yet(tmp_path: Path, served: Callable[..., TestClient]) -> None:
    shop = stocks.make(tmp_path / "shop")
    shop.now = datetime.now(UTC)  # the lease uses the real clock
    shop.fill(until=stocks.FIRST + timedelta(days=2), stop=lambda group: group.table == "raw.products")
    page = served(shop.folder, now="2026-09-24")
    told = page.get(ADDRESS).json()
    assert told["state"] == "running"
    assert told["held"] is None
