"""A Kafka broker for tests: one KRaft node on loopback, in a temporary folder, once for each worker.

Its jars are in the user's cache, fetched once by Ivy: `python -m tests.kafka`, which bin/_servers calls. Without them
the tests that need a broker are skipped.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from waterclock.engine.spark.jars import _ivy_jar, _proxy_options, cache_directory
from waterclock.engine.spark.java import find_java
from waterclock.flow.declarations import Value

_HERE = Path(__file__).parent
_VERSION = "4.2.1"
_PATIENCE = 120
WORD = "Pass'w0rd/+%ä"
"""The password of `ann` and of `bob`, who may read no topic that is named `kept-from-bob...`."""
_DOORS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",  # requires a client certificate
    "STALE": "SSL",  # has an expired certificate
    "ELSEWHERE": "SSL",  # has a certificate of another host
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SETTINGS = Path(_ivy_jar.__code__.co_filename).with_name("ivysettings.xml")
Message = tuple[bytes | None, bytes | None]


def _folder() -> Path:
    return cache_directory() / f"kafka-{_VERSION}"


def _checksums() -> dict[str, str]:
    lines = (_HERE / "kafka-jars.sha256").read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def provide() -> str | None:
    """Fetch missing jars; return the reason if that is not possible."""
    folder, wanted = _folder(), _checksums()
    if all((folder / name).is_file() for name in wanted):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        settings = os.environ.get("WATERCLOCK_IVY_SETTINGS") or str(_SETTINGS)
        command = [
            *(find_java(), *_proxy_options(), "-jar", str(_ivy_jar()), "-settings", settings),
            *("-ivy", str(_HERE / "kafka-ivy.xml"), "-cache", f"{scratch}/ivy", "-types", "jar", "bundle"),
            *("-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]", "-warn"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        for name, digest in wanted.items():
            jar = Path(scratch, "jars", name)
            if not jar.is_file():
                return f"{name} cannot be fetched: {(done.stdout + done.stderr).strip()[-300:]}"
            if hashlib.sha256(jar.read_bytes()).hexdigest() != digest:
                return f"{name} is not the one that is known under this name"
            jar.replace(folder / name)
    return None


def has_broker() -> bool:
    """Return whether a broker can be started here."""
    return all((_folder() / name).is_file() for name in _checksums())


needs_broker = pytest.mark.skipif(
    not has_broker(), reason="the jars of a Kafka broker are missing. Fix: run bin/_servers"
)


@dataclass
class Broker:
    """A running broker; `kill` and `start` simulate an outage."""

    folder: Path
    port: int
    doors: dict[str, str]
    authority: Authority
    memory: str = "384m"
    process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """Its address."""
        return f"127.0.0.1:{self.port}"

    def start(self, *, alone: bool = True) -> None:
        """Start it, and wait until it responds; one that is not alone may wait for others."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*_java(self.memory), "kafka.Kafka", str(self.folder / "server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + (_PATIENCE if alone else 0)
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                break
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.1)
        if alone:
            until(lambda: self.admin().list_topics(timeout=3).brokers)

    def kill(self, how: int = signal.SIGKILL) -> None:
        """Stop it by a signal, by default at once."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def admin(self) -> Any:
        """Return an admin client."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0}, logger=_silent())

    def topic(self, name: str = "", partitions: int = 1, copies: int = 1, **config: str) -> str:
        """Create a topic, and return its name."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import NewTopic, OffsetSpec  # type: ignore[attr-defined]

        name = name or f"t-{uuid.uuid4().hex[:10]}"
        admin = self.admin()  # keep the client: its futures do not outlive it
        for made in admin.create_topics([NewTopic(name, partitions, copies, config=config)]).values():
            made.result(30)
        end = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(name, part): end for part in range(partitions)}
        until(lambda: [found.result(3) for found in admin.list_offsets(asked).values()])
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        admin = self.admin()
        for gone in admin.delete_topics([name]).values():
            gone.result(30)
        until(lambda: name not in admin.list_topics(timeout=3).topics)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Drop the records before an offset, as retention does."""
        from confluent_kafka import TopicPartition

        admin = self.admin()
        for gone in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            gone.result(30)

    def send(
        self,
        topic: str,
        messages: Iterable[Message],
        *,
        partition: int = 0,
        commits: bool | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int = 0,
    ) -> None:
        """Send messages; with `commits`, in a transaction that is committed or aborted."""
        from confluent_kafka import Producer

        config: dict[str, Any] = {"bootstrap.servers": self.servers, "linger.ms": 1, "log_level": 0}
        if commits is not None:
            config["transactional.id"] = uuid.uuid4().hex
        producer = Producer(config, logger=_silent())
        if commits is not None:
            producer.init_transactions(30)
            producer.begin_transaction()
        for key, value in messages:
            producer.produce(topic, value, key, partition=partition, headers=list(headers), timestamp=timestamp)
        producer.flush(30)
        if commits is not None:
            (producer.commit_transaction if commits else producer.abort_transaction)(30)

    def read(self, topic: str) -> list[Any]:
        """Return the committed messages of a topic, by partition and offset."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        parts = self.admin().list_topics(topic, timeout=10).topics[topic].partitions
        config = {
            "bootstrap.servers": self.servers,
            "group.id": uuid.uuid4().hex,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
        consumer = Consumer(config, logger=_silent())
        consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in parts])
        found: list[Any] = []
        ended: set[int | None] = set()
        end = time.monotonic() + 30
        while len(ended) < len(parts) and time.monotonic() < end:
            for message in consumer.consume(500, 0.5):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        consumer.close()
        return sorted(found, key=lambda each: (each.partition(), each.offset()))


def _silent() -> Any:
    import logging

    logger = logging.getLogger("tests.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def until(is_so: Callable[[], Any]) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        with suppress(Exception):
            if is_so():
                return
        assert time.monotonic() < end, "the broker does not respond"
        time.sleep(0.1)


def _java(memory: str = "384m") -> list[str]:
    tuned = [
        f"-Xmx{memory}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    ]
    return [find_java(), *tuned, "-cp", f"{_folder()}/*"]


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def known_by_password() -> dict[str, Value]:
    """Return the options of a connection that logs in to the broker with a user's password."""
    return {
        "servers": broker().doors["SASL_PLAINTEXT"], "security": "sasl_plaintext", "mechanism": "SCRAM-SHA-256",
        "username": "ann", "password": WORD,
    }  # fmt: skip


@lru_cache
def broker() -> Broker:
    """Return the worker's broker, started if needed; tests that kill it start it again."""
    if not has_broker():
        pytest.skip("the jars of a Kafka broker are missing. Fix: run bin/_servers")
    folder = Path(tempfile.mkdtemp(prefix="waterclock-kafka-"))
    ports = _free_ports(len(_DOORS) + 1)
    doors = {name: f"127.0.0.1:{port}" for name, port in zip((*_DOORS, "CONTROLLER"), ports, strict=True)}
    authority = Authority(folder / "certificates")
    properties = {**_PLAIN, **_listening(doors), **_secured(authority), "log.dirs": str(folder / "data")}
    _format(folder, properties, "--standalone")
    made = Broker(folder, ports[0], doors, authority)

    def end() -> None:
        made.kill()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    made.start()
    return made


_PLAIN = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # tests send old records
    "auto.create.topics.enable": "false",
    "broker.session.timeout.ms": "30000",  # a busy machine is not an outage
    # a killed node may register again after its session: by default both take a minute, and it gives up
    "initial.broker.registration.timeout.ms": "180000",
    "offsets.retention.minutes": "1000000000",  # claims of the suites are numbered from 1, as if made in 1970
}


@contextmanager
def three_brokers() -> Iterator[list[Broker]]:
    """Start three brokers as one cluster, any two of which continue without the third."""
    if not has_broker():
        pytest.skip("the jars of a Kafka broker are missing. Fix: run bin/_servers")
    folder = Path(tempfile.mkdtemp(prefix="waterclock-kafka-"))
    ports = _free_ports(6)
    controllers = [f"127.0.0.1:{port}" for port in ports[3:]]
    voters = ",".join(f"{at}@{controller}" for at, controller in enumerate(controllers, 1))
    made = []
    cluster = _identity()
    for node, (port, controller) in enumerate(zip(ports[:3], controllers, strict=True), 1):
        doors = {"PLAINTEXT": f"127.0.0.1:{port}", "CONTROLLER": controller}
        own = folder / f"node-{node}"
        own.mkdir()
        properties = {
            **_PLAIN,
            **_listening(doors),
            **{name: "3" for name in _PLAIN if name.endswith("replication.factor")},
            **{name: "2" for name in _PLAIN if name.endswith("min.isr")},
            "broker.session.timeout.ms": "9000",  # until then the partitions of a dead broker have no leader
            "node.id": str(node),
            "controller.quorum.voters": voters,
            "log.dirs": str(own / "data"),
        }
        del properties["controller.quorum.bootstrap.servers"]
        _format(own, properties, cluster=cluster)
        made.append(Broker(own, port, doors, Authority(own / "certificates"), memory="256m"))
    try:
        for each in made:
            each.start(alone=False)
        until(lambda: len(made[0].admin().list_topics(timeout=3).brokers) == 3)
        yield made
    finally:
        for each in made:
            each.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _listening(doors: dict[str, str]) -> dict[str, str]:
    listeners = ",".join(f"{name}://{address}" for name, address in doors.items())
    protocols = {**_DOORS, "CONTROLLER": "PLAINTEXT"}
    return {
        "controller.quorum.bootstrap.servers": doors["CONTROLLER"],
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(f"{name}:{protocols[name]}" for name in doors),
        "num.network.threads": "1",
    }


def _secured(authority: Authority) -> dict[str, str]:
    """Return the security of the listeners: certificates and passwords; a PLAINTEXT client may do everything."""
    shown = {
        "": authority.pair("broker"),
        "stale.": authority.pair("stale", is_over=True),
        "elsewhere.": authority.pair("elsewhere", host="127.0.0.2"),
    }
    found = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }
    for door, pair in shown.items():
        prefix = f"listener.name.{door}" if door else ""
        store = pair.certificate.with_suffix(".store")
        store.write_text(pair.both)
        found |= {f"{prefix}ssl.keystore.type": "PEM", f"{prefix}ssl.keystore.location": str(store)}
    package = "org.apache.kafka.common.security"
    users = " ".join(f'user_{name}="{_escaped(WORD)}"' for name in ("ann", "bob"))
    token = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"'
    logins = {
        "plain": f"{package}.plain.PlainLoginModule required {users};",
        "scram-sha-256": f"{package}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{package}.scram.ScramLoginModule required;",
        "oauthbearer": f"{package}.oauthbearer.{token};",
    }
    for door in ("sasl_plaintext", "sasl_ssl"):
        found |= {f"listener.name.{door}.{name}.sasl.jaas.config": login for name, login in logins.items()}
    return found


def _identity() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"')


def _format(folder: Path, properties: dict[str, str], *how: str, cluster: str = "") -> None:
    """Write a node's settings and format its folder, with the users of SCRAM."""
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    ascii_text = text.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")
    (folder / "server.properties").write_text(ascii_text)
    tool = [
        "kafka.tools.StorageTool",
        "format",
        *how,
        f"--cluster-id={cluster or _identity()}",  # some begin with a dash
        "-c",
        str(folder / "server.properties"),
    ]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        tool += ["--add-scram", f"{mechanism}=[name=ann,password={WORD}]"]
    subprocess.run([*_java(), *tool], check=True, capture_output=True)


if __name__ == "__main__":
    said = provide()
    if said:
        sys.exit(said)
