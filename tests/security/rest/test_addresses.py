"""Credentials are sent only to the connection's API: no path, value or link redirects a request elsewhere."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote

import pytest

from tests.apis import patient
from tests.security.rest.servers import RecordingServer, recording_server, send
from tests.systems import setting_of, unit_of
from waterclock.connectors.rest import delivery
from waterclock.connectors.rest.addresses import OutsideApiError, fill_path, parse_below
from waterclock.connectors.rest.client import ApiRequest
from waterclock.connectors.rest.collection import RestSource, request_page
from waterclock.connectors.rest.option_checks import wrong_options
from waterclock.connectors.rest.option_definitions import resource_of
from waterclock.connectors.rest.paging import first_position
from waterclock.errors import WaterclockError

BASE = "https://api.example:8443/v1/shop"


@pytest.fixture
def own() -> Iterator[RecordingServer]:
    with recording_server() as server:
        yield server


@pytest.fixture
def other() -> Iterator[RecordingServer]:
    with recording_server() as server:
        yield server


@pytest.mark.parametrize(
    "address",
    [
        "http://api.example:8443/v1/shop/x",
        "https://api.example/v1/shop/x",
        "https://api.example:443/v1/shop/x",
        "https://evil.example:8443/v1/shop/x",
        "https://api.example.evil.example:8443/v1/shop/x",
        "https://api.example:8443@evil.example/v1/shop/x",
        "https://evil.example:8443\\@api.example:8443/v1/shop/x",
        "https://me:pw@api.example:8443/v1/shop/x",
        "https://api.example:8443/v1/shopping/x",
        "https://api.example:8443/v1",
        "https://api.example:8443/v1/shop/../../admin",
        "https://api.example:8443/v1/shop/%2e%2e/admin",
        "https://api.example:8443/v1/shop/%252e%252e/admin",
        "https://api.example:8443/v1/shop/..%2fadmin",
        "https://api.example:8443/v1/shop/..%5Cadmin",
        "https://api.example:8443/v1/shop/..\\admin",
        "https://api.example:8443/v1/shop/..;x=1/admin",
        "https://api.example:8443/v1/shop/%2e%2e%3b/admin",
        "https://api.example:8443/v1/shop/..%20/admin",
        "https://api.example:8443/v1/shop/x%00y",
        "https://api.example:8443/v1/shop/%c0%ae%c0%ae/admin",
        "https://api.example:99999999/v1/shop/x",
        "https://[/v1/shop",
        "//evil.example/v1/shop/x",
        "file:///v1/shop/x",
        "",
    ],
)
def test_an_address_that_is_not_below_the_url_is_refused(address: str) -> None:
    with pytest.raises(OutsideApiError):
        parse_below(BASE, address)


@pytest.mark.parametrize(
    "address", [BASE, f"{BASE}/x?page=2&to=http://x/..", f"{BASE}/a%2Fb%20c", f"{BASE}/a..b/...x", f"{BASE}/100%25"]
)
def test_an_address_below_the_url_is_sent(address: str) -> None:
    assert str(parse_below(BASE, address)) == address


def lenient(path: str) -> list[str]:
    """Return the steps of a path as resolved by a server that decodes twice and treats backslashes as slashes."""
    steps: list[str] = []
    for step in unquote(unquote(path)).replace("\\", "/").split("/"):
        plain = step.partition(";")[0].strip()
        if plain == "..":
            steps = steps[:-1]
        elif plain not in {"", "."}:
            steps.append(step)
    return steps


def test_no_value_leads_out_of_its_step_on_any_server() -> None:
    """Values made of the characters that servers resolve stay below the path before them, or are refused."""
    signs = ["..", ".", "/", "\\", "%2e", "%2F", "%5c", "%", "%25", ";", "?", "#", "@", ":", " ", "\t", "a", "", "ü"]
    rng = random.Random(38)
    kept = 0
    for _ in range(20_000):
        value = "".join(rng.choices(signs, k=rng.randint(0, 6)))
        try:
            path = fill_path("users/{id}/roles", {"id": [value]})
        except OutsideApiError:
            continue
        kept += 1
        steps = lenient(path)
        assert (steps[0], steps[-1]) == ("users", "roles"), value
        assert len(steps) >= 2
        assert path.startswith("users/")
        assert "?" not in path
    assert kept > 2_000


@pytest.mark.parametrize("value", ["..", ".", "", "../x", "x/..", "..\\x", "%2e%2e", "..;a", "a\nb", "a\0"])
def test_a_published_value_stays_in_its_step(value: str) -> None:
    row: Any = SimpleNamespace(values={"id": value}, text="")
    with pytest.raises(OutsideApiError):
        delivery._build_path("users/{id}/roles", "20261101000000", [row])


@pytest.mark.parametrize("value", ["a", "a/b", "100%", "ü?", "{id}", "a.b", "...", "x;y"])
def test_a_published_value_that_is_plain_is_sent(value: str) -> None:
    row: Any = SimpleNamespace(values={"id": value}, text="")
    path = delivery._build_path("users/{id}/{timelabel}", "20261101000000", [row])
    assert path == f"users/{quote(value, safe='')}/20261101000000"


@pytest.mark.parametrize("path", ["http://other/x", "HTTPS://other/x", "//other/x", "\\\\other/x", "file:///etc"])
@pytest.mark.parametrize("what", ["collect", "publish"])
def test_check_refuses_a_path_that_is_an_address(what: str, path: str) -> None:
    [wrong] = wrong_options(what, {"url": BASE, "path": path})
    assert (wrong.code, wrong.option, wrong.what) == ("E314", "path", "path is a complete address")


@pytest.mark.parametrize("path", ["../../admin", "a/../b", "./a", "%2e%2e/a", "a%2f..%2fb", "..\\a", "a\nb"])
@pytest.mark.parametrize("what", ["collect", "publish"])
def test_check_refuses_a_path_that_leads_elsewhere(what: str, path: str) -> None:
    [wrong] = wrong_options(what, {"url": BASE, "path": path})
    assert (wrong.code, wrong.what) == ("E314", "the path leaves the connection's url")


def test_every_request_path_stays_below_the_url_of_the_connection(
    own: RecordingServer, other: RecordingServer, tmp_path: Path
) -> None:
    api = patient(setting_of("api", tmp_path, **{"url": f"{own.url}/v1", "auth.token": "CANARY"}))
    api.request(ApiRequest("GET", f"{other.url}/x", {}), where="w")
    assert other.requests == []
    assert own.requests == [("GET", f"/v1/{other.url}/x", "Bearer CANARY")]
    with pytest.raises(WaterclockError) as caught:
        api.request(ApiRequest("GET", "../admin", {}), where="w")
    assert (caught.value.code, len(own.requests)) == ("E877", 1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(own: RecordingServer, other: RecordingServer, tmp_path: Path, status: int) -> None:
    own.answer = lambda handler: send(handler, b"", status, Location=f"{other.url}/x")
    api = patient(setting_of("api", tmp_path, **{"url": own.url, "auth.token": "CANARY"}))
    with pytest.raises(WaterclockError, match="E845"):
        api.request(ApiRequest("GET", "x", {}), where="w")
    assert other.requests == []


@pytest.mark.parametrize(
    "link",
    ["{other}/v1/x", "//{other_host}/v1/x", "../../admin", "/admin", "/v1/%2e%2e/admin", "http://[", "http://h:9x/",
     "{own_user}/v1/x", "https://{own_host}/v1/x", "javascript:alert(1)"],
)  # fmt: skip
def test_a_link_to_the_next_page_stays_below_the_url(
    own: RecordingServer, other: RecordingServer, tmp_path: Path, link: str
) -> None:
    host = own.url.removeprefix("http://")
    whole = link.format(
        other=other.url, other_host=other.url.removeprefix("http://"), own_user=f"http://me:pw@{host}", own_host=host
    )
    own.answer = lambda handler: send(handler, json.dumps({"data": [{"id": 1}], "next": whole}).encode())
    setting = setting_of("api", tmp_path, **{"url": f"{own.url}/v1", "auth.token": "CANARY"})
    options = {"rows": "data", "paging": "link", "next": "next"}
    resource = resource_of(setting.options, "things", options)
    reading = RestSource(patient(setting), setting, unit_of("api", "things", **options), resource)
    with pytest.raises(WaterclockError) as caught:
        request_page(reading, first_position(resource.paging), None, 1)
    assert (caught.value.code, other.requests, len(own.requests)) == ("E843", [], 1)
    # a page stored by an older version may contain such a link: it is not followed either
    with pytest.raises(WaterclockError, match="E877"):
        request_page(reading, {"link": whole if "://" in whole else f"{own.url}/admin"}, None, 2)
    assert (other.requests, len(own.requests)) == ([], 1)
