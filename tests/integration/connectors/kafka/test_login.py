"""Authentication between Waterclock and a cluster: by users, tokens and certificates; refusals are reported."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.certificates import Authority, Pair
from tests.kafka import WORD, broker, needs_broker
from tests.systems import setting_of, unit_of
from waterclock.connectors.interface import Positions
from waterclock.connectors.kafka.cluster import Cluster, cluster_of
from waterclock.connectors.kafka.connector import CONNECTOR, KafkaCollector
from waterclock.connectors.kafka.ranges import first_range, spans_of
from waterclock.connectors.kafka.reading import KafkaExtract, OffsetPart, batches
from waterclock.engine.connections import Connections
from waterclock.errors import WaterclockError
from waterclock.flow.about import About
from waterclock.flow.declarations import Connection, Place, Secret, Value
from waterclock.flow.enums import Mode
from waterclock.secrets.reader import SecretPlaces, Secrets
from waterclock.testing.deliveries import Slices, row

pytestmark = [needs_broker, pytest.mark.slow]
HERE = Place("waterclock.toml", 1, 1)
WRONG = "Wr0ng'w0rd/+%ä"
LOCK = "k3y-w0rd"


@pytest.fixture(scope="module")
def topic() -> str:
    name = broker().topic(partitions=2)
    for part in range(2):
        broker().send(name, [(b"k", b"v")], partition=part)
    return name


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return an authority that the broker does not trust."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


def known() -> dict[str, Value]:
    return {"username": "ann", "password": WORD}


def trusting(door: str = "ssl") -> dict[str, Value]:
    return {"security": door, "ca": str(broker().authority.certificate)}


def shown(pair: Pair) -> dict[str, Value]:
    return {"certificate": str(pair.certificate), "key": str(pair.key)}


def cluster(folder: Path, door: str, options: Mapping[str, Value]) -> Cluster:
    return cluster_of(setting_of("bus", folder, servers=broker().doors[door], timeout=20, **options))


def values(found: Cluster, topic: str) -> list[bytes]:
    """Return the values read from a topic."""
    log = found.log_of(topic, "bus.t")
    parts = tuple(OffsetPart(datetime(2020, 1, 1, tzinfo=UTC), span) for span in spans_of(first_range(log, log.starts)))
    return [
        value for batch in batches(KafkaExtract(found, topic, "bus.t", parts)) for value in batch["value"].to_pylist()
    ]


def token(folder: Path, name: str = "ann") -> str:
    """Write an unsigned token, which a broker accepts if it is configured to accept any."""
    parts = [{"alg": "none"}, {"sub": name, "iat": time.time() - 60, "exp": time.time() + 600}]
    told = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    (folder / "token").write_text(f"{told}.\n")
    return "token"


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "ssl", "mutual", "locked"])
def test_a_topic_is_read_by_each_way_to_be_known(way: str, topic: str, tmp_path: Path) -> None:
    authority = broker().authority
    ways: dict[str, Callable[[], tuple[str, Mapping[str, Value]]]] = {
        "PLAIN": lambda: ("SASL_PLAINTEXT", {"security": "sasl_plaintext", "mechanism": way, **known()}),
        "SCRAM-SHA-256": lambda: ("SASL_PLAINTEXT", {"security": "sasl_plaintext", "mechanism": way, **known()}),
        "SCRAM-SHA-512": lambda: ("SASL_SSL", {**trusting("sasl_ssl"), "mechanism": way, **known()}),
        "OAUTHBEARER": lambda: ("SASL_SSL", {**trusting("sasl_ssl"), "mechanism": way, "token_file": token(tmp_path)}),
        "ssl": lambda: ("SSL", trusting()),
        "mutual": lambda: ("MUTUAL", {**trusting(), **shown(authority.pair("client"))}),
        "locked": lambda: (
            "MUTUAL",
            {**trusting(), **shown(authority.pair("locked", password=LOCK)), "key_password": LOCK},
        ),
    }
    door, options = ways[way]()
    assert values(cluster(tmp_path, door, options), topic) == [b"v", b"v"]


def _wrong(case: str, folder: Path, stranger: Authority) -> tuple[str, Mapping[str, Value]]:
    pair, over, locked = stranger.pair("theirs"), stranger.pair("over", is_over=True), stranger.pair("l", password=LOCK)
    by_user = {"security": "sasl_plaintext", "mechanism": "SCRAM-SHA-256", **known()}
    (folder / "token").write_text("no-token")
    by_token = {"security": "sasl_plaintext", "mechanism": "OAUTHBEARER"}
    found: dict[str, tuple[str, Mapping[str, Value]]] = {
        "password": ("SASL_PLAINTEXT", {**by_user, "password": WRONG}),
        "plain password": ("SASL_PLAINTEXT", {**by_user, "mechanism": "PLAIN", "password": WRONG}),
        "user": ("SASL_PLAINTEXT", {**by_user, "username": "zed"}),
        "no users": ("PLAINTEXT", by_user),
        "token": ("SASL_PLAINTEXT", {**by_token, "token_file": "token"}),
        "no token": ("SASL_PLAINTEXT", {**by_token, "token_file": "nowhere"}),
        "ca": ("SSL", {**trusting(), "ca": str(stranger.certificate)}),
        "no ca": ("SSL", {"security": "ssl"}),
        "expired": ("STALE", trusting()),
        "other host": ("ELSEWHERE", trusting()),
        "no certificate": ("MUTUAL", trusting()),
        "strange certificate": ("MUTUAL", {**trusting(), **shown(pair)}),
        "own expired": ("MUTUAL", {**trusting(), **shown(over)}),
        "lock": ("MUTUAL", {**trusting(), **shown(locked), "key_password": WRONG}),
        "no lock": ("MUTUAL", {**trusting(), **shown(locked)}),
        "other key": ("MUTUAL", {**trusting(), **shown(pair), "key": str(over.key)}),
        "no file": ("SSL", {**trusting(), "ca": "nowhere.pem"}),
        "no pem": ("SSL", {**trusting(), "ca": "token"}),
        "tls": ("SSL", {"timeout": 3}),
    }
    return found[case]


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("case", "code", "what", "fix"),
    [
        ("password", "E855", "refuses the login", "check username and password"),
        ("plain password", "E855", "refuses the login", "check username and password"),
        ("user", "E855", "refuses the login", "for SCRAM-SHA-256"),
        ("no users", "E855", "does not support the mechanism SCRAM-SHA-256", "requires a login"),
        ("token", "E855", "refuses the login", "token_file"),
        ("no token", "E855", "no token", "token_file"),
        ("ca", "E864", "not trusted", "stranger.pem is from another one"),
        ("no ca", "E864", "not trusted", "set ca"),
        ("expired", "E864", "has expired", "renew it"),
        ("other host", "E864", "another host", "advertised.listeners"),
        ("no certificate", "E864", "requires a client certificate", "set certificate and key"),
        ("strange certificate", "E864", "refuses the client certificate", "ssl.truststore"),
        ("own expired", "E864", "the client certificate is not valid", "renew it"),
        ("lock", "E864", "cannot be opened", "key_password"),
        ("no lock", "E864", "cannot be opened", "as a secret"),
        ("other key", "E864", "does not belong to certificate", "was created with"),
        ("no file", "E864", "no file for ca", "correct ca"),
        ("no pem", "E864", "ca cannot be read", "to PEM"),
        ("tls", "E864", "requires TLS", "set security"),
    ],
)
def test_a_refused_login_is_reported_at_once_with_its_fix(
    case: str, code: str, what: str, fix: str, topic: str, tmp_path: Path, stranger: Authority
) -> None:
    door, options = _wrong(case, tmp_path, stranger)
    setting = setting_of("bus", tmp_path, **{"servers": broker().doors[door], "timeout": 60, **options})
    begins = time.monotonic()
    with pytest.raises(WaterclockError) as caught:
        cluster_of(setting).log_of(topic, "bus.t")
    said = caught.value
    assert (said.code, what in said.what, fix in str(said.fix)) == (code, True, True), said.render()
    assert time.monotonic() - begins < 45  # no timeout is reached
    assert not [word for word in (WORD, WRONG, LOCK) if word in said.render()]


def test_rights_that_a_user_lacks_are_named(tmp_path: Path) -> None:
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    kept = broker().topic()
    admin = broker().admin()
    deny = AclBinding(
        ResourceType.TOPIC, kept, ResourcePatternType.LITERAL, "User:bob", "*", AclOperation.ALL, AclPermissionType.DENY
    )
    for made in admin.create_acls([deny]).values():
        made.result(30)
    options = {"security": "sasl_plaintext", "mechanism": "PLAIN", "username": "bob", "password": WORD}
    with pytest.raises(WaterclockError) as caught:
        cluster(tmp_path, "SASL_PLAINTEXT", options).log_of(kept, "bus.t")
    assert (caught.value.code, caught.value.transient, kept in str(caught.value.why)) == ("E855", False, True)


def test_a_changed_password_is_used_at_the_next_poll(topic: str, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "bus").write_text("old w0rd\n")
    set_password("cyd", "old w0rd")
    options = {
        "servers": broker().doors["SASL_SSL"],
        **trusting("sasl_ssl"),
        "mechanism": "SCRAM-SHA-512",
        "username": "cyd",
        "password": Secret("bus"),
    }
    said = Connection("bus", "kafka", options, About(), HERE)
    connections = Connections(tmp_path, tmp_path / "archive", {"bus": said}, Secrets.from_places(SecretPlaces(secrets)))

    def look() -> Positions | None:
        collector = connections.collector("bus")
        assert isinstance(collector, KafkaCollector)
        return collector.next_range(unit_of("bus", topic), None, datetime(2020, 1, 1, tzinfo=UTC))

    before = look()
    assert before is not None
    set_password("cyd", "new w0rd")
    with pytest.raises(WaterclockError) as caught:
        look()
    assert (caught.value.code, caught.value.transient) == ("E855", True)
    assert "w0rd" not in caught.value.render()
    (secrets / "bus").write_text("new w0rd\n")
    assert look() == before


def set_password(user: str, word: str) -> None:
    from confluent_kafka.admin import (  # type: ignore[attr-defined]
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin = broker().admin()
    for done in admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, word.encode())]).values():
        done.result(30)


@pytest.mark.soak
def test_a_delivery_by_a_user_over_tls_arrives_once(tmp_path: Path) -> None:
    name = broker().topic()
    options = {**trusting("sasl_ssl"), "mechanism": "SCRAM-SHA-256", **known()}
    setting = setting_of("bus", tmp_path, servers=broker().doors["SASL_SSL"], **options)
    (tmp_path / "sealed").mkdir()
    unit = unit_of("bus", name)
    delivery = Slices(tmp_path / "sealed", str(unit)).of("20130101000000", [row("a", 1)], Mode.APPEND)
    for _ in range(2):
        CONNECTOR.deliverer(setting).deliver(unit, [delivery])
    assert [message.value() for message in broker().read(name)] == [b'{"id": "a", "amount": 1}']
