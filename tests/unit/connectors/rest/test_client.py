"""A client of one API over real connections: retries, authentication, and secrets that are never shown."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.apis import Space, patient
from waterclock.connectors.rest import client
from waterclock.connectors.rest.addresses import OutsideApiError
from waterclock.connectors.rest.client import ApiRequest
from waterclock.connectors.rest.response_headers import Response
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Value

ALL = ApiRequest("GET", "all", {})


@pytest.fixture
def space() -> Space:
    made = Space()
    made.set(rows=[{"id": "a"}])
    return made


def ask(space: Space, folder: Path, waited: list[float] | None = None, **options: Value) -> Any:
    return patient(space.setting(folder, **{"timeout": 5, **options}), waited).request(ALL, where="api.all")


@pytest.mark.parametrize("fault", [429, 500, 503, 408, "cut", "slow"])
def test_transient_faults_are_retried(space: Space, tmp_path: Path, fault: object) -> None:
    space.set(faults=[fault, fault])
    assert b'"a"' in ask(space, tmp_path, timeout=0.5 if fault == "slow" else 5).content
    assert len(space.asked) == 3


@pytest.mark.parametrize(
    ("status", "code"), [(400, "E845"), (404, "E845"), (422, "E845"), (403, "E844"), (301, "E845")]
)
def test_a_refused_request_is_not_retried(space: Space, tmp_path: Path, status: int, code: str) -> None:
    space.set(faults=[status])
    with pytest.raises(WaterclockError) as caught:
        ask(space, tmp_path)
    assert (caught.value.code, caught.value.transient) == (code, False)
    assert str(status) in str(caught.value.why)
    assert len(space.asked) == 1


@pytest.mark.parametrize(("fault", "code"), [(503, "E841"), ("slow", "E841"), ("cut", "E842")])
def test_a_persistent_server_fault_is_reported_as_transient_after_all_tries(
    space: Space, tmp_path: Path, fault: object, code: str
) -> None:
    space.set(faults=[fault] * 3)
    with pytest.raises(WaterclockError) as caught:
        ask(space, tmp_path, tries=2, timeout=0.5 if fault == "slow" else 5)
    assert (caught.value.code, caught.value.transient) == (code, True)
    assert len(space.asked) == 2


def test_an_html_response_is_reported_as_html(space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asker = patient(space.setting(tmp_path, tries=2))
    page = Response(200, {}, b"\n<html><body>Please log in</body></html>")
    monkeypatch.setattr(asker, "_send", lambda *_: page)
    with pytest.raises(WaterclockError) as caught:
        asker.request(ALL, where="api.all", read=lambda answer: json.loads(answer.content))
    said = "GET all: the response is HTML or XML, and not JSON: 200: <html><body>Please log in</body></html> (2 tries)"
    assert (caught.value.code, caught.value.why) == ("E842", said)
    assert "url and path" in str(caught.value.fix)


def test_an_unreachable_server_is_reported_after_all_tries(tmp_path: Path, space: Space) -> None:
    with pytest.raises(WaterclockError) as caught:
        ask(space, tmp_path, url="http://127.0.0.1:9/v1", tries=2)
    assert (caught.value.code, caught.value.transient) == ("E840", True)
    assert "2 tries" in str(caught.value.why)


def test_a_retry_waits_for_the_time_in_retry_after(space: Space, tmp_path: Path) -> None:
    waited: list[float] = []
    space.set(faults=[429], retry_after="7")
    ask(space, tmp_path, waited)
    assert [round(seconds, 3) for seconds in waited] == [7.0]


def test_a_date_to_wait_for_is_one_of_the_server_s_clock(space: Space, tmp_path: Path) -> None:
    waited: list[float] = []
    space.set(faults=[503], retry_after="date", skew=86_400.0 * 365)
    ask(space, tmp_path, waited)
    assert 1.0 <= waited[0] <= 3.0


def test_a_too_long_retry_after_fails_the_request_at_once(space: Space, tmp_path: Path) -> None:
    space.set(faults=[429] * 5, retry_after="900")
    with pytest.raises(WaterclockError) as caught:
        ask(space, tmp_path)
    assert caught.value.code == "E841"
    assert "asks to wait 900 seconds" in str(caught.value.why)
    assert len(space.asked) == 1


CREDENTIALS: dict[str, tuple[str, dict[str, Value]]] = {
    "bearer": ("bearer:t0ken-of-mine", {"auth.token": "t0ken-of-mine"}),
    "basic": ("basic:me:pa55 word/", {"auth.user": "me", "auth.password": "pa55 word/"}),
    "header": ("header:k3y-of-mine", {"auth.key": "k3y-of-mine"}),
    "param": ("param:k3y&of=mine", {"auth.key": "k3y&of=mine", "auth.param": "key"}),
    "header of its own": ("header:k3y-of-mine", {"headers.X-API-Key": "k3y-of-mine"}),
}
CLIENT: dict[str, Value] = {
    "auth.token_url": "token",
    "auth.client_id": "client",
    "auth.client_secret": "s3cret/of client",
}


@pytest.mark.parametrize("kind", CREDENTIALS)
def test_each_authorization_method_works_and_its_secrets_are_never_shown(
    space: Space, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    credential, options = CREDENTIALS[kind]
    caplog.set_level(logging.DEBUG)
    space.set(credential=credential)
    assert ask(space, tmp_path, None, **options).is_good
    space.set(credential="bearer:another")
    with pytest.raises(WaterclockError) as caught:  # the server echoes all headers that it received
        ask(space, tmp_path, None, **options)
    assert caught.value.code == "E844"
    told = caught.value.render() + caplog.text
    for secret in ("t0ken-of-mine", "pa55", "k3y", "bWU6cGE1NSB3b3JkLw=="):
        assert secret not in told


@pytest.mark.parametrize("place", ["header", "body"])
def test_a_token_is_had_once_and_again_when_it_runs_out_or_is_refused(space: Space, tmp_path: Path, place: str) -> None:
    space.set(credential="oauth")
    api = patient(space.setting(tmp_path, **CLIENT, **{"auth.client_in": place, "auth.scope": "read"}))
    for _ in range(3):
        api.request(ALL, where="api.all")
    assert [one["path"] for one in space.asked].count("token") == 1
    space.set(tokens={})  # the server forgot the token
    api.request(ALL, where="api.all")
    assert [one["path"] for one in space.asked].count("token") == 2
    assert space.asked[0]["params"]["scope"] == "read"


def test_a_token_that_runs_out_is_renewed_before_it_is_refused(space: Space, tmp_path: Path) -> None:
    space.set(credential="oauth", token_life=0.4)
    api = patient(space.setting(tmp_path, **CLIENT))
    api.request(ALL, where="api.all")
    threading.Event().wait(0.3)
    api.request(ALL, where="api.all")
    assert [one["path"] for one in space.asked] == ["token", "all", "token", "all"]


def test_threads_share_one_token(space: Space, tmp_path: Path) -> None:
    space.set(credential="oauth")
    api = patient(space.setting(tmp_path, **CLIENT))
    threads = [threading.Thread(target=api.request, args=(ALL,), kwargs={"where": "x"}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one["path"] for one in space.asked].count("token") == 1
    assert [one["path"] for one in space.asked].count("all") == 8


def test_rejected_client_credentials_are_reported_without_the_secret(space: Space, tmp_path: Path) -> None:
    with pytest.raises(WaterclockError) as caught:
        ask(space, tmp_path, None, **{**CLIENT, "auth.client_secret": "wr0ng-secret"})
    assert caught.value.code == "E844"
    assert "wr0ng" not in caught.value.render()
    assert "Y2xpZW50Ondyb25nLXNlY3JldA" not in str(caught.value.why), "the text of an error may contain line breaks"


def test_a_secret_echoed_by_the_server_is_hidden_in_any_encoding(space: Space, tmp_path: Path) -> None:
    api = patient(space.setting(tmp_path, **{**CLIENT, "auth.client_secret": "a&b c/d"}))
    for told in ("a&b c/d", "a&amp;b c/d", "a%26b%20c%2Fd", "a%26b+c%2Fd", "Y2xpZW50OmElMjZiJTIwYyUyRmQ="):
        assert api.hide(f"you sent {told}") == "you sent ***"


@pytest.mark.parametrize("option", ["auth.token", "auth.key", "headers.X-Tenant"])
@pytest.mark.parametrize(
    "secret", ["hunter2hunter2\0", "hunter2\nhunter2", "hunter2-ü", "hunter2\x7f", "hunter2hunter2 "]
)
def test_a_secret_that_no_header_can_carry_is_neither_sent_nor_shown(
    space: Space, tmp_path: Path, option: str, secret: str
) -> None:
    with pytest.raises(WaterclockError) as refused:
        ask(space, tmp_path, None, **{option: secret})
    assert (refused.value.code, refused.value.transient) == ("E844", False)
    assert "hunter2" not in refused.value.render()
    assert space.asked == []


def test_a_secret_is_hidden_where_an_error_shows_it_escaped(space: Space, tmp_path: Path) -> None:
    api = patient(space.setting(tmp_path, **{"auth.token": "hün\tter\\2"}))
    for told in (repr("hün\tter\\2"), ascii("hün\tter\\2"), repr("hün\tter\\2".encode())):
        assert api.hide(told).strip("b'") == "***"


@pytest.mark.parametrize(
    ("link", "whole"),
    [
        ("?page=2", "/v1/shop/orders?page=2"),
        ("orders?page=2", "/v1/shop/orders?page=2"),
        ("/v1/shop/orders?page=2", "/v1/shop/orders?page=2"),
        ("https://api.example:443/v1/x?key=k3y&a=b+c", "/v1/x?a=b+c"),
    ],
)
def test_a_link_is_resolved_relative_to_the_requested_url(space: Space, tmp_path: Path, link: str, whole: str) -> None:
    options = {"url": "https://api.example/v1", "auth.key": "k3y", "auth.param": "key"}
    api = patient(space.setting(tmp_path, **options))
    found = api.resolve_link(link, ApiRequest("GET", "shop/orders", {}))
    assert found.removeprefix("https://api.example").removeprefix(":443") == whole
    with pytest.raises(OutsideApiError, match="another host"):
        api.resolve_link(found.replace("https:", "http:"), ApiRequest("GET", "shop/orders", {}))


def test_an_answer_that_never_ends_is_no_answer(space: Space, tmp_path: Path) -> None:
    space.set(faults=["drip"])
    with pytest.raises(WaterclockError) as caught:
        ask(space, tmp_path, timeout=0.15, tries=1)
    assert caught.value.code == "E841"
    assert "incomplete after 3 seconds" in str(caught.value.why)


def test_a_too_large_page_is_reported_and_not_requested_again(
    space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MOST_BYTES", 4)
    with pytest.raises(WaterclockError) as caught:
        ask(space, tmp_path)
    assert (caught.value.code, caught.value.transient) == ("E842", False)
    assert len(space.asked) == 1


def test_reach_checks_that_an_api_is_reachable_and_accepts_the_credentials(space: Space, tmp_path: Path) -> None:
    patient(space.setting(tmp_path)).reach("nowhere/at/all")
    space.set(credential="bearer:good")
    with pytest.raises(WaterclockError) as caught:
        patient(space.setting(tmp_path, **{"auth.token": "wr0ng-token"})).reach("all")
    assert caught.value.code == "E844"
    with pytest.raises(WaterclockError) as caught:
        patient(space.setting(tmp_path, url="http://127.0.0.1:9/v1")).reach("all")
    assert caught.value.code == "E840"
