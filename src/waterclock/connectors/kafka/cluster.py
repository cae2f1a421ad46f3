"""A Kafka cluster as it is reached, asked about its topics, and as its errors are told."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.connectors.interface import Setting
from waterclock.connectors.kafka.ranges import Log
from waterclock.errors import WaterclockError, did_you_mean
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

PATIENCE = 30.0
_DAY_MINUTES = 24 * 60
_KEPT_MINUTES = 7 * _DAY_MINUTES
# an option of a connection, and what the client library calls it
_SETTINGS = {
    "security": "security.protocol",
    "mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "password": "sasl.password",
    "ca": "ssl.ca.location",
    "certificate": "ssl.certificate.location",
    "key": "ssl.key.location",
    "key_password": "ssl.key.password",
}
_FILES = frozenset({"ca", "certificate", "key"})
_REFUSALS = frozenset(
    {
        "_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "UNSUPPORTED_SASL_MECHANISM",
        "_INVALID_ARG", "MSG_SIZE_TOO_LARGE",
    }
)  # fmt: skip
_ABSENT = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster and how it is reached; `settings` may hold secrets."""

    name: str
    servers: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = PATIENCE

    def consumer(self, **more: Any) -> Consumer:
        """Open a consumer that is in no group, reads what is committed, and leaves no offsets behind."""
        from confluent_kafka import Consumer

        own = {
            "group.id": "waterclock",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",  # what is gone is told, never passed over
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": 32 * 1024,
            "fetch.wait.max.ms": 20,  # what is read is there: a request that waits for more holds up the next partition
        }
        return Consumer(self._client({**own, **more}), logger=_silent())

    def producer(self, **more: Any) -> Producer:
        """Open a producer."""
        from confluent_kafka import Producer

        return Producer(self._client(more), logger=_silent())

    def admin(self) -> AdminClient:
        """Open a client that asks about topics. Keep it in a name: its answers go with it."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._client({}), logger=_silent())

    def log_of(self, topic: str, where: str) -> Log:
        """Look at a topic. Cost: three requests.

        Raises  E854 to E856
        """
        from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        with self.told(where, topic):
            admin = self.admin()
            [asked] = admin.describe_topics(TopicCollection([topic]), request_timeout=self.timeout).values()
            found = asked.result()
            partitions = [part.id for part in found.partitions]
            looked: list[dict[int, int]] = []
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):  # type: ignore[no-untyped-call]
                answers = admin.list_offsets(
                    {TopicPartition(topic, part): spec for part in partitions},
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=self.timeout,
                )
                looked.append({part.partition: answer.result().offset for part, answer in answers.items()})
            return Log(topic, str(found.topic_id), *looked)

    def since(self, log: Log, at: datetime, where: str) -> dict[int, int]:
        """Return by partition the offset of the first record with a time at or after `at`; its end without one.

        Raises  E854 to E856 where a partition does not answer
        """
        from confluent_kafka import KafkaException, TopicPartition

        with self.told(where, log.name), self.reading() as consumer:
            milliseconds = int(at.timestamp() * 1000)
            asked = [TopicPartition(log.name, part, milliseconds) for part in log.ends]
            answers = consumer.offsets_for_times(asked, timeout=self.timeout)
            for answer in answers:
                if answer.error is not None:  # its offset is still the time that was asked for
                    raise KafkaException(answer.error)
            found = {answer.partition: answer.offset for answer in answers}
            return {part: found[part] if found[part] >= 0 else end for part, end in log.ends.items()}

    def kept_minutes(self) -> int:
        """Return how long the cluster keeps the offsets of a group without members; 7 days where it does not say."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

        try:
            admin = self.admin()
            broker = next(iter(admin.list_topics(timeout=self.timeout).brokers))
            asked = admin.describe_configs(
                [ConfigResource(ConfigResource.Type.BROKER, str(broker))], request_timeout=self.timeout
            )
            [answer] = asked.values()
            return int(answer.result()["offsets.retention.minutes"].value)
        except (KafkaException, KeyError, StopIteration, ValueError):
            return _KEPT_MINUTES

    @contextmanager
    def reading(self) -> Iterator[Consumer]:
        """Open a consumer, and close it."""
        consumer = self.consumer()
        try:
            yield consumer
        finally:
            consumer.close()

    @contextmanager
    def told(self, where: str, topic: str) -> Iterator[None]:
        """Tell in our words what the cluster refuses."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise self.said(error.args[0], where, topic) from None

    def said(self, error: KafkaError, where: str, topic: str) -> WaterclockError:
        """Say in our words what an error of the client library means; `transient` where waiting can help."""
        name, why = error.name(), f"{self.servers}: {error.str()}"
        if name in _ABSENT:
            return self._no_topic(topic, where)
        if name in _REFUSALS:
            return WaterclockError(
                "E855",
                "Kafka refuses",
                where=where,
                why=why,
                fix="see that user, password, certificates and rights of the connection are right",
            )
        return WaterclockError(
            "E854",
            "Kafka does not answer",
            where=where,
            why=why,
            fix="it is tried again; see that its brokers run, and that their addresses are right",
            transient=True,
        )

    def _no_topic(self, topic: str, where: str) -> WaterclockError:
        from confluent_kafka import KafkaException

        try:
            known = sorted(name for name in self.admin().list_topics(timeout=5).topics if not name.startswith("__"))
        except KafkaException:
            known = []
        return WaterclockError(
            "E856",
            f"there is no topic {topic}",
            where=where,
            why=f"the cluster holds {', '.join(known[:10])}{', …' if len(known) > 10 else ''}"
            if known
            else "the cluster shows no topics to this user",
            fix=did_you_mean(topic, known, otherwise="make the topic, or mend its name"),
        )

    def _client(self, more: Mapping[str, Any]) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers, "client.id": "waterclock", **self.settings, **more}


def cluster_of(setting: Setting) -> Cluster:
    """Return the connection's cluster.

    Raises  E803 without an address, E825 where the client library is not installed
    """
    options = setting.options
    servers = options.get("servers")
    if not servers:
        raise WaterclockError(
            "E803",
            f"the connection {setting.name} has no servers",
            where=setting.name,
            why="a connection of type kafka is a cluster, reached by some of its brokers",
            fix=f"connections.{setting.name} = {{ servers = 'broker1:9092,broker2:9092' }} in waterclock.toml",
        )
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise WaterclockError(
            "E825",
            "connections of type kafka need a client library that is not installed",
            where=setting.name,
            why=str(error),
            fix="install waterclock with it: pip install 'waterclock[kafka]'",
        ) from error
    found = {_SETTINGS[name]: str(value) for name, value in options.items() if name in _SETTINGS}
    for name in _FILES & options.keys():
        found[_SETTINGS[name]] = str(setting.folder / str(options[name]))
    registry = {name: str(value) for name, value in options.items() if name.startswith("registry")}
    return Cluster(setting.name, str(servers), found, registry, timeout=float(str(options.get("timeout", PATIENCE))))


def topic_of(unit: Unit) -> str:
    """Return the topic that a unit names."""
    return unit.path


def _silent() -> logging.Logger:
    """Return a logger that says nothing: what the library notices on its way is no error, and errors are raised."""
    logger = logging.getLogger("waterclock.kafka")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
