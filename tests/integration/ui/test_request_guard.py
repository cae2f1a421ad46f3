from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from tests import stocks
from tests.pages import TOKEN
from waterclock.http.access_tokens import WrongTokens
from waterclock.ui.request_guard import Guard

PATHS = (
    "/", "/today", "/catalog", "/tables/marts.revenue", "/lineage", "/lineage/marts.revenue",
    "/batches/marts.revenue/2026-11-09", "/runs", "/errors",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_every_page_binds_the_browser_and_has_a_twin_in_json(page: TestClient, path: str) -> None:
    answer = page.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "style=" not in answer.text  # the policy would refuse it
    assert "<script>" not in answer.text
    assert page.get("/grid.json" if path == "/" else f"{path}.json").json()["version"] == 1


def test_a_name_that_is_not_ours_is_not_served(page: TestClient) -> None:
    for host in ("evil.example", "localhost.evil.example", "", "127.0.0.1.nip.io:8899"):
        assert page.get("/", headers={"Host": host}).status_code == 421
    for host in ("localhost:8899", "127.0.0.1", "[::1]:8899"):
        assert page.get("/", headers={"Host": host}).status_code == 200


def test_if_a_token_is_required_no_page_is_served_without_it(
    shop: stocks.Stocks, served: Callable[..., TestClient]
) -> None:
    guard = Guard(TOKEN, wrong=WrongTokens(seconds=0))
    page = served(shop.folder, guard=guard)
    for path in (*PATHS, "/static/ui.css", "/tables.json", "/livez"):
        answer = page.get(path)
        assert (answer.status_code, "shop" in answer.text) == (401, False)
    assert page.get("/", params={"token": TOKEN}).status_code == 401  # addresses are stored, logged and forwarded
    assert page.get("/", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert page.get("/grid.json", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert page.get("/", params={"link": "wrong"}).status_code == 401
    entered = page.get("/", params={"link": guard.links.new_code()}, follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert "HttpOnly" in entered.headers["set-cookie"]
    assert page.get("/").status_code == 200  # by the cookie


def test_bodies_and_methods_are_bounded(page: TestClient) -> None:
    own = {"Origin": "http://localhost"}
    assert page.post("/plan", content=b"x" * 70_000, headers=own).status_code == 413
    chunked = own | {"Content-Length": "3", "Transfer-Encoding": "chunked"}
    assert page.post("/plan", content=b"x" * 70_000, headers=chunked).status_code == 413
    assert page.post("/plan", content=b"&".join([b"a=1"] * 50), headers=own).status_code == 400
    assert page.request("DELETE", "/plan", headers=own).status_code == 405
    for path in ("/", "/grid.json"):
        refused = page.post(path, headers=own)
        assert (refused.status_code, sorted(refused.headers["allow"].split(", "))) == (405, ["GET", "HEAD"])


def test_names_are_written_as_text_and_not_as_markup(shop: stocks.Stocks, page: TestClient) -> None:
    file = shop.folder / "flows" / "shop.dpl"
    text = file.read_text().replace("How many days", "<script>alert(1)</script> How many days")
    file.write_text(text)
    for path in ("/", "/catalog", "/tables/marts.stock_health", "/tables/marts.stock_health/code"):
        answer = page.get(path)
        assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert(1)" in page.get("/tables/marts.stock_health").text
    assert "<script>alert" not in page.get("/", params={"t": "<script>alert(1)</script>"}).text


def test_an_unknown_address_is_reported_within_the_page_layout(page: TestClient) -> None:
    answer = page.get("/nowhere")
    assert answer.status_code == 404
    assert "there is no such page" in answer.text
    assert "Catalog" in answer.text
    assert page.get("/static/../app.py").status_code == 404
    assert page.get("/static/VERSIONS.md").status_code == 404
