"""A cluster by its options, its errors in our words, and its secrets nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from tests.systems import setting_of
from waterclock.connectors.kafka.cluster import Cluster, cluster_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Value


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


def test_a_connection_without_servers_is_told(tmp_path: Path) -> None:
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
def test_what_the_client_says_is_told_in_our_words(number: int, code: str, is_transient: bool) -> None:
    told = Cluster("bus", "127.0.0.1:9").said(KafkaError(number), "bus.orders", "orders")
    assert (told.code, told.transient, told.where) == (code, is_transient, "bus.orders")
    assert told.fix


def test_a_cluster_that_is_away_is_told_as_passing() -> None:
    with pytest.raises(WaterclockError) as caught:
        Cluster("bus", "127.0.0.1:9", timeout=1).log_of("orders", "bus.orders")
    assert (caught.value.code, caught.value.transient) == ("E854", True)
