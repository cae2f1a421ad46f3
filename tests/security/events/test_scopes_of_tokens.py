"""Access tokens at the receiver: for a stream, for all, without scope, revoked, and of users who may not send."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.receiving import Receiver, free_port, post, project_with_door
from waterclock.cli.actions.receive import endpoint_of
from waterclock.cli.app import app
from waterclock.connectors.receiver.endpoint import Endpoint
from waterclock.errors import WaterclockError
from waterclock.operations.project_opening import open_project

TOKEN = "the token of the connection"
FLOW = """\
CREATE CONNECTION door TYPE receiver;
CREATE CONNECTION gate TYPE receiver;
COLLECT web.events PARTITIONED (id BIGINT, _received TIMESTAMP) FROM door.events EVERY 1 MINUTE BY ARRIVAL TIME;
COLLECT web.orders PARTITIONED (id BIGINT, _received TIMESTAMP) FROM door.orders EVERY 1 MINUTE BY ARRIVAL TIME;
COLLECT web.passes PARTITIONED (id BIGINT, _received TIMESTAMP) FROM gate.passes EVERY 1 MINUTE BY ARRIVAL TIME;
"""
SETTINGS = """\
[project]
name = "shop"

[roles]
viewer = ["look"]
sender = ["send"]
[users.anna]
roles = ["viewer"]
[users.meter]
roles = ["sender", "viewer"]

[env.dev]
connections.door = { path = "data/door", token = { secret = "door/token" } }
connections.gate = { path = "data/gate" }
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WATERCLOCK_SECRET_DOOR_TOKEN", TOKEN)
    return project_with_door(tmp_path / "shop", FLOW, SETTINGS)


def ask(project: Path, *arguments: str) -> str:
    found = CliRunner().invoke(app, [*arguments, "--project", str(project)])
    assert found.exit_code == 0, found.output
    return found.stdout


def token(project: Path, name: str, may: str, user: str = "meter") -> str:
    return ask(project, "token", "create", name, "--for", user, "--may", may).split()[-1]


def endpoint(project: Path, *, is_open: bool) -> Endpoint:
    return endpoint_of(open_project(project, None), is_open=is_open)


def test_tokens_send_where_their_scope_allows_and_nowhere_else(project: Path) -> None:
    limited = token(project, "limited", "look,send:door/events")
    everywhere = token(project, "everywhere", "send")
    looks = token(project, "looks", "look")
    ended = token(project, "ended", "send")
    ask(project, "token", "revoke", "ended")
    [listed] = [each for each in json.loads(ask(project, "token", "--json"))["tokens"] if each["name"] == "limited"]
    assert (listed["rights"], listed["streams"]) == (["look", "send"], ["door/events"])
    receiver = Receiver(project, free_port())
    try:
        assert receiver.is_ready()

        def send(sent: str, path: str = "/door/events", **more: str) -> int:
            headers = {"Authorization": f"Bearer {sent}"} if sent else {}
            return post(receiver.port, b'{"id": 1}', path, **headers, **more)

        assert [send(TOKEN), send(TOKEN, "/door/orders")] == [202, 202]  # as before
        assert [send(limited), send(limited, "/door/events/")] == [202, 202]
        # a limited token does not learn which other streams exist
        assert [send(limited, path) for path in ("/door/orders", "/gate/passes", "/door/none")] == [403, 403, 403]
        assert [send(everywhere, path) for path in ("/door/orders", "/gate/passes", "/none/a")] == [202, 202, 404]
        # the gate is open to senders of this machine, but not to a token that may not send there
        assert [send("", "/gate/passes"), send(looks, "/gate/passes"), send(ended, "/gate/passes")] == [202, 403, 403]
        assert [send(looks), send(ended), send(f"{limited}x"), send("wct_"), send("")] == [403, 403, 403, 403, 401]
        assert send(everywhere, "/gate/passes", Origin="https://evil.example") == 202
        assert send("", "/gate/passes", Origin="https://evil.example") == 403
        assert receiver.end()[0] == 0
    finally:
        receiver.kill()
    found = json.loads(ask(project, "access", "--json"))["accesses"]
    counted: dict[tuple[str, str, bool], int] = {}
    for each in found:
        key = each["who"], each["action"], each["refusal"] is None
        counted[key] = counted.get(key, 0) + each["times"]
    assert counted["meter", "send to door/events", True] == 2
    assert counted["meter", "send to gate/passes", True] == 2
    assert counted["meter", "send to gate/passes", False] == 2  # `limited` and `looks`
    assert counted["", "send events", False] == 4  # two ended tokens, and two invalid ones
    assert {each["address"] for each in found if each["action"].startswith("send")} == {"127.0.0.1"}


def test_a_token_is_for_streams_that_exist_and_for_users_who_may_send(project: Path) -> None:
    for may, user, what, fix in (
        ("send:door/event", "meter", "unknown stream door/event", "did you mean door/events?"),
        ("send:door/events,send", "meter", "with a stream and without one", "leave one of them out"),
        ("send:door/events", "anna", "anna does not have the right send", "give anna another role"),
    ):
        arguments = ["token", "create", "a", "--for", user, "--may", may, "--project", str(project)]
        found = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
        assert found.exit_code != 0
        assert what in found.output
        assert fix in found.output


def test_a_connection_without_a_token_is_open_to_other_machines_only_for_access_tokens(project: Path) -> None:
    assert endpoint(project, is_open=True).streams["gate/passes"].limits.needs_token
    assert not endpoint(project, is_open=False).streams["gate/passes"].limits.needs_token
    file = project / "waterclock.toml"
    file.write_text(SETTINGS.replace('["send"]', '["run"]'))
    with pytest.raises(WaterclockError) as refused:
        endpoint(project, is_open=True)
    assert refused.value.code == "E873"
