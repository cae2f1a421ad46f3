"""A cluster with its options, its errors converted to ours, and its secrets never shown."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from tests.systems import setting_of
from waterclock.connectors.kafka.cluster import Cluster, cluster_of
from waterclock.connectors.kafka.login_errors import ErrorListener
from waterclock.connectors.kafka.ranges import Log
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Value

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def cluster(folder: Path) -> Cluster:
    options: dict[str, Value] = {"security": "sasl_ssl", "mechanism": "PLAIN", "username": "ann", "ca": "ca.pem"}
    options |= {"password": "s3cret", "key_password": "k3y", "registry": "https://r", "registry_password": "r3g"}
    return cluster_of(setting_of("bus", folder, servers="127.0.0.1:9", timeout=1, **options))


def test_options_become_the_clients_settings(tmp_path: Path) -> None:
    found = cluster(tmp_path)
    assert found.settings["security.protocol"] == "sasl_ssl"
    assert found.settings["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert found.registry == {"registry": "https://r", "registry_password": "r3g"}
    assert not [secret for secret in ("s3cret", "k3y", "r3g") if secret in repr(found)]


def test_a_connection_without_servers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WaterclockError) as caught:
        cluster_of(setting_of("bus", tmp_path))
    assert caught.value.code == "E803"


@pytest.mark.parametrize(
    ("number", "code", "is_transient"),
    [
        (KafkaError._ALL_BROKERS_DOWN, "E854", True),
        (KafkaError._TIMED_OUT, "E854", True),
        (KafkaError.NOT_LEADER_FOR_PARTITION, "E854", True),
        (KafkaError._AUTHENTICATION, "E855", True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "E855", False),
        (KafkaError.MSG_SIZE_TOO_LARGE, "E855", False),
    ],
)
def test_a_client_error_is_translated_to_a_code_with_a_fix(number: int, code: str, is_transient: bool) -> None:
    told = Cluster("bus", "127.0.0.1:9").translate_error(KafkaError(number), "bus.orders", "orders")
    assert (told.code, told.transient, told.where) == (code, is_transient, "bus.orders")
    assert told.fix


def told_token(ends: object) -> bytes:
    body = base64.urlsafe_b64encode(json.dumps({"exp": ends}).encode()).rstrip(b"=")
    return b"s3cret." + body + b".s1gned"


@pytest.mark.parametrize(
    ("holds", "why"),
    [
        (None, "no file"),
        (b"", "has no token"),
        (b" \n", "has no token"),
        (b"s3cret s3cret", "has no token"),
        (b"s3cret\xff", "has no token"),
        (told_token(1), "seconds ago"),
    ],
)
def test_a_missing_invalid_or_expired_token_is_reported_at_once(tmp_path: Path, holds: bytes | None, why: str) -> None:
    """The client would wait for ten seconds, and report only that no token is set."""
    if holds is not None:
        (tmp_path / "token").write_bytes(holds)
    options: dict[str, Value] = {"security": "sasl_plaintext", "mechanism": "OAUTHBEARER", "token_file": "token"}
    found = cluster_of(setting_of("bus", tmp_path, servers="127.0.0.1:9", timeout=1, **options))
    with pytest.raises(WaterclockError, match=why) as caught:
        found.log_of("orders", "bus.orders")
    assert (caught.value.code, caught.value.transient) == ("E855", True)
    assert "s3cret" not in f"{caught.value} {caught.value.__cause__!r}"


@pytest.mark.parametrize("holds", [b"s3cret\n", b"a.b.c", told_token(float("inf")), told_token("soon")])
def test_a_token_that_does_not_say_when_it_ends_is_good_for_some_minutes(tmp_path: Path, holds: bytes) -> None:
    (tmp_path / "token").write_bytes(holds)
    token, ends = Cluster("bus", "127.0.0.1:9", token_file=str(tmp_path / "token"))._token("")
    assert token == holds.decode().strip()
    assert 200 < ends - time.time() < 400


def test_an_unreachable_cluster_is_a_transient_error() -> None:
    with pytest.raises(WaterclockError) as caught:
        Cluster("bus", "127.0.0.1:9", timeout=1).log_of("orders", "bus.orders")
    assert (caught.value.code, caught.value.transient) == ("E854", True)


class ElectingAdmin:
    """Answers the first `times` requests for offsets with an error, as brokers do while they elect a leader."""

    def __init__(self, times: float) -> None:
        self.requests = 0
        self.times = times

    def poll(self, _: float) -> None:
        return

    def list_offsets(self, asked: Mapping[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        self.requests += 1
        found: dict[Any, Future[Any]] = {}
        for part in asked:
            found[part] = Future()
            if self.requests <= self.times:
                found[part].set_exception(KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE)))
            else:
                found[part].set_result(SimpleNamespace(offset=7))
        return found


def offsets_of(admin: ElectingAdmin, timeout: float) -> list[dict[int, int]]:
    cluster = Cluster("bus", "127.0.0.1:9", timeout=timeout)
    level = IsolationLevel.READ_COMMITTED
    specs: list[Any] = [OffsetSpec.latest()]  # type: ignore[no-untyped-call]
    return cluster._list_offsets(cast("AdminClient", admin), ErrorListener(), "orders", [0, 1], specs, level)


def test_offsets_are_requested_again_while_a_leader_is_elected() -> None:
    admin = ElectingAdmin(2)
    assert offsets_of(admin, 30) == [{0: 7, 1: 7}]
    assert admin.requests == 3


def test_an_election_that_does_not_end_is_an_error() -> None:
    with pytest.raises(KafkaException, match="high watermark"):
        offsets_of(ElectingAdmin(math.inf), 0.2)


def test_offsets_of_a_time_are_requested_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [KafkaError(KafkaError.LEADER_NOT_AVAILABLE), None]

    class Electing:
        def offsets_for_times(self, asked: Any, **_: Any) -> list[Any]:
            error = answers.pop(0)
            return [SimpleNamespace(partition=part.partition, offset=3, error=error) for part in asked]

        def close(self) -> None:
            return

    monkeypatch.setattr(Cluster, "consumer", lambda *_, **__: Electing())
    found = Cluster("bus", "127.0.0.1:9").offsets_since(Log("orders", "id", {0: 0}, {0: 9}), NOON, "bus.orders")
    assert (found, answers) == ({0: 3}, [])
