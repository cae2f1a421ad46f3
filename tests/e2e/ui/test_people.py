"""Two users and a service use the pages in a real Chromium: each has only the rights of the role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import stocks
from tests.e2e.ui.conftest import SOON, WIDE, World
from waterclock.permissions.access_tokens import digest_of_token, new_access_token
from waterclock.permissions.users_and_roles import Right

USERS = """
[roles]
viewer = ["look"]
operator = ["look", "run"]
robot = ["look", "query"]
[users.anna]
roles = ["operator"]
[users.ben]
roles = ["viewer"]
[users.nightly]
roles = ["robot"]
"""
FAILED = datetime(2026, 11, 9, tzinfo=UTC)
RETRY = 'a[href^="/plan?verb=retry"]'


def token_of(shop: stocks.Stocks, user: str, rights: set[Right]) -> str:
    value = new_access_token()
    with shop.ledger() as ledger:
        until = datetime.now(UTC) + timedelta(days=1)  # the pages accept tokens by the machine's clock
        digest = digest_of_token(value) or ""
        ledger.access.create_token(f"of {user}", digest, user=user, rights=rights, until=until, who="ops")
    return value


@pytest.fixture
def address(shop: stocks.Stocks, serve: Callable[..., str]) -> str:
    """Return the address of pages with users, whose link is unopened."""
    file = shop.folder / "waterclock.toml"
    file.write_text(file.read_text(encoding="utf-8") + USERS, encoding="utf-8")
    return serve(shop.folder)


@pytest.fixture
def window(browser: Browser, closed_world: World) -> Iterator[Callable[[], Page]]:
    """Return a function that opens a window of a user who has not signed in."""
    with ExitStack() as stack:

        def open_window() -> Page:
            context = browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]}, service_workers="block")
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(SOON)
            closed_world.watch(page)
            return page

        yield open_window


def sign_in(page: Page, address: str, token: str) -> None:
    page.goto(f"{address}sign-in")
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("table", name="Tables by label")).to_be_visible()


def test_two_users_and_a_service_have_the_rights_of_their_roles(
    shop: stocks.Stocks, address: str, window: Callable[[], Page]
) -> None:
    stranger = window()
    for path in ("", "errors.json", "tables/raw.inventory", "query"):
        assert stranger.request.get(f"{address}{path}", max_redirects=0).status in {303, 401}, path
    viewer, operator = window(), window()
    sign_in(viewer, address, token_of(shop, "ben", {Right.LOOK, Right.RUN}))  # more than the role of the user
    sign_in(operator, address, token_of(shop, "anna", {Right.LOOK, Right.RUN}))
    for page in (viewer, operator):
        page.goto(f"{address}batches/raw.inventory/20261109000000")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    retry = operator.locator(RETRY).first
    expect(retry).to_be_visible()
    expect(viewer.locator(RETRY)).to_have_count(0)
    plan = retry.get_attribute("href") or ""
    form: dict[str, str | float | bool] = {
        "verb": "retry",
        "t": "`raw.inventory`",
        "l": "20261109000000",
        "digest": "",
        "why": "forged",
    }
    own = {"Origin": address.rstrip("/")}
    assert viewer.request.post(f"{address}plan", form=form, headers=own).status == 403
    for page in (viewer, operator):
        assert page.request.get(f"{address}query.json?q=SELECT+1").status == 403
    operator.goto(f"{address}{plan.lstrip('/')}")
    operator.get_by_role("textbox", name="Reason, kept with the batches").fill("MUC2 sent its file")
    operator.keyboard.press("Enter")
    expect(operator.get_by_role("table", name="Tables by label")).to_be_visible()
    with shop.ledger() as ledger:
        event = ledger.past.audit("raw.inventory", FAILED).events[-1]
    assert (event.kind, event.who, event.data) == ("retried", "anna", {"why": "MUC2 sent its file"})
    service = {"Authorization": f"Bearer {token_of(shop, 'nightly', {Right.LOOK})}"}
    assert stranger.request.get(f"{address}errors.json", headers=service).status == 200
    assert stranger.request.get(f"{address}query.json?q=SELECT+1", headers=service).status == 403
    assert stranger.request.get(f"{address}errors.json").status in {303, 401}  # a bearer token starts no session
