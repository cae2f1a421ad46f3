"""Connects to a Kafka cluster, describes its topics, and translates its errors."""

from __future__ import annotations

import base64
import json
import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from waterclock.connectors.interface import Setting
from waterclock.connectors.kafka.login_errors import (
    ErrorListener,
    is_of_login,
    is_of_tls,
    missing_token_error,
    refused_login_error,
    refused_tls_error,
    speaks_tls,
)
from waterclock.connectors.kafka.option_definitions import BY_TOKEN
from waterclock.connectors.kafka.ranges import Log
from waterclock.errors import WaterclockError
from waterclock.similar_names import did_you_mean

if TYPE_CHECKING:
    from confluent_kafka import Consumer, IsolationLevel, KafkaError, Producer
    from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

_Answer = TypeVar("_Answer")
PATIENCE = 30.0
_DAY_MINUTES = 24 * 60
_DEFAULT_RETENTION_MINUTES = 7 * _DAY_MINUTES
# options of a connection, and their names in the client library
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
_POLL_SECONDS = 0.05
_TIMES_SECONDS = 3.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_TIME = 253_402_300_799_999  # milliseconds since 1970, of the year 9999
_TOKEN_SECONDS = 300.0
_REFUSALS = frozenset({"_INVALID_ARG", "MSG_SIZE_TOO_LARGE"})
_ELECTIONS = frozenset({"LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "OFFSET_NOT_AVAILABLE"})
_MISSING = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})


@dataclass(frozen=True, slots=True)
class Cluster:
    """The addresses of a cluster and the settings of its clients, which may contain secrets.

    `timeout` is in seconds.
    """

    name: str
    servers: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    token_file: str = ""
    timeout: float = PATIENCE

    def consumer(self, listener: ErrorListener, **more: Any) -> Consumer:
        """Open a consumer that joins no group, reads only committed records, and commits no offsets.

        `listener` receives the client's errors; `more` are additional client settings.
        """
        from confluent_kafka import Consumer

        own = {
            "group.id": "waterclock",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",  # missing offsets are reported, never skipped
            "enable.partition.eof": True,
            "check.crcs": True,  # by default, the library returns records whose checksum is wrong
            # the client counts only values as kilobytes, and fetches more while a partition has fewer messages
            "queued.max.messages.kbytes": 32 * 1024,
            "queued.min.messages": 100,
            "fetch.queue.backoff.ms": 5,  # by default, a partition with enough messages is not fetched for a second
            "fetch.max.bytes": 16 * 1024 * 1024,  # in one response, of all partitions
            "fetch.wait.max.ms": 20,  # the records exist: a request that waits for more delays the next partition
        }
        return Consumer(self._client(listener, {**own, **more}), logger=_silent_logger())

    def producer(self, listener: ErrorListener, **more: Any) -> Producer:
        """Open a producer. `listener` receives the client's errors; `more` are additional client settings."""
        from confluent_kafka import Producer

        return Producer(self._client(listener, more), logger=_silent_logger())

    def admin(self, listener: ErrorListener) -> AdminClient:
        """Open an admin client.

        The caller must keep a reference to it: without one, its pending responses are lost.
        """
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._client(listener, {}), logger=_silent_logger())

    def log_of(self, topic: str, where: str) -> Log:
        """Return the id and the offset bounds of a topic. Cost: three requests, and more while leaders are elected.

        Raises E854 without a valid response, E855 or E864 for a refused client, and E856 for an unknown topic.
        """
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        with self.translate_errors(where, topic):
            listener = ErrorListener()
            admin = self.admin(listener)
            found = self._describe(admin, listener, topic)
            partitions = [part.id for part in found.partitions]
            if not partitions:
                raise self._impossible_answer_error(where, f"{topic} has no partitions")
            specs = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
            starts, ends = self._list_offsets(admin, listener, topic, partitions, specs, IsolationLevel.READ_COMMITTED)
            for part in partitions:
                # the client library treats a negative offset as a position, such as -1 as the end
                if not 0 <= starts[part] <= ends[part]:
                    reason = f"partition {part} of {topic} has the offsets {starts[part]} to {ends[part]}"
                    raise self._impossible_answer_error(where, reason)
            return Log(topic, str(found.topic_id), starts, ends)

    def newest_times(self, topic: str, partitions: Collection[int]) -> dict[int, datetime]:
        """Return the largest timestamp of the records of partitions, without empty partitions.

        Return none if the cluster does not report it within three seconds; brokers before 3.0 do not. Cost: a request.
        """
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        listener, spec = ErrorListener(), OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
        try:
            admin = self.admin(listener)
            futures = admin.list_offsets(
                {TopicPartition(topic, part): spec for part in partitions},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=min(self.timeout, _TIMES_SECONDS),
            )
            found = _wait_for_results(admin, listener, futures)
        except KafkaException:  # the read before this request reports errors of the cluster
            return {}
        return {
            part.partition: _EPOCH + timedelta(milliseconds=answer.timestamp)
            for part, answer in found.items()
            if 0 <= answer.timestamp <= _LAST_TIME
        }

    def id_of(self, topic: str, where: str) -> str:
        """Return the id of a topic. Cost: a request. Raises E854 to E856 and E864 as `log_of` does."""
        with self.translate_errors(where, topic):
            listener = ErrorListener()
            admin = self.admin(listener)
            return str(self._describe(admin, listener, topic).topic_id)

    def _describe(self, admin: AdminClient, listener: ErrorListener, topic: str) -> Any:
        from confluent_kafka import TopicCollection

        described = admin.describe_topics(TopicCollection([topic]), request_timeout=self.timeout)
        [found] = _wait_for_results(admin, listener, described).values()
        return found

    def offsets_since(self, log: Log, at: datetime, where: str) -> dict[int, int]:
        """Map each partition to the offset of its first record at or after `at`, or else to its end.

        Raises E854 without a response, E855 or E864 for a refused client, and E856 for an unknown topic.
        """
        from confluent_kafka import KafkaException, TopicPartition

        with self.translate_errors(where, log.name), self.open_consumer() as (consumer, _):
            milliseconds = int(at.timestamp() * 1000)
            partitions = [TopicPartition(log.name, part, milliseconds) for part in log.ends]

            def ask() -> dict[int, int]:
                answers = consumer.offsets_for_times(partitions, timeout=self.timeout)
                for answer in answers:
                    if answer.error is not None:  # its offset is still the requested time
                        raise KafkaException(answer.error)
                return {answer.partition: answer.offset for answer in answers}

            found = self._retry_during_elections(ask)
            return {part: found[part] if found[part] >= 0 else end for part, end in log.ends.items()}

    def offset_retention_minutes(self) -> int:
        """Return how many minutes the cluster keeps the offsets of a group without members.

        Return 7 days if the cluster does not report it.
        """
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

        listener = ErrorListener()
        try:
            admin = self.admin(listener)
            broker = next(iter(admin.list_topics(timeout=self.timeout).brokers))
            futures = admin.describe_configs(
                [ConfigResource(ConfigResource.Type.BROKER, str(broker))], request_timeout=self.timeout
            )
            [answer] = _wait_for_results(admin, listener, futures).values()
            return int(answer["offsets.retention.minutes"].value)
        except (KafkaException, KeyError, StopIteration, ValueError):
            return _DEFAULT_RETENTION_MINUTES

    def describe_topic(self, topic: str, log: Log, where: str) -> tuple[dict[str, str], dict[int, int]]:
        """Return the configuration of a topic, and the end of each partition including uncommitted records.

        Cost: two requests, and more while leaders are elected.
        """
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import ConfigResource, OffsetSpec  # type: ignore[attr-defined]

        with self.translate_errors(where, topic):
            listener = ErrorListener()
            admin = self.admin(listener)
            futures = admin.describe_configs(
                [ConfigResource(ConfigResource.Type.TOPIC, topic)], request_timeout=self.timeout
            )
            specs = [OffsetSpec.latest()]  # type: ignore[no-untyped-call]
            [ends] = self._list_offsets(admin, listener, topic, log.ends, specs, IsolationLevel.READ_UNCOMMITTED)
            [config] = _wait_for_results(admin, listener, futures).values()
            return {name: str(entry.value) for name, entry in config.items()}, ends

    def _list_offsets(
        self,
        admin: AdminClient,
        listener: ErrorListener,
        topic: str,
        partitions: Collection[int],
        specs: Sequence[OffsetSpec],
        isolation: IsolationLevel,
    ) -> list[dict[int, int]]:
        """Return the offset of each partition for each of `specs`. Raises KafkaException."""
        from confluent_kafka import TopicPartition

        def ask() -> list[dict[int, int]]:
            futures = [
                admin.list_offsets(
                    {TopicPartition(topic, part): spec for part in partitions},
                    isolation_level=isolation,
                    request_timeout=self.timeout,
                )
                for spec in specs
            ]
            return [
                {part.partition: answer.offset for part, answer in _wait_for_results(admin, listener, each).items()}
                for each in futures
            ]

        return self._retry_during_elections(ask)

    def _retry_during_elections(self, ask: Callable[[], _Answer]) -> _Answer:
        """Return the result of `ask`, which requests offsets. Repeat it while partitions elect their leaders.

        A leader that has just been elected does not know its offsets for a moment, and the client library does not wait
        for that. No repetition begins after `timeout` seconds. Raises KafkaException.
        """
        from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential

        return Retrying(
            retry=retry_if_exception(_is_election),
            wait=wait_exponential(multiplier=_POLL_SECONDS, max=1),
            stop=stop_after_delay(self.timeout),
            reraise=True,
        )(ask)

    @contextmanager
    def open_consumer(self, **more: Any) -> Iterator[tuple[Consumer, ErrorListener]]:
        """Open a consumer for the block. Yield it with the listener that receives its errors."""
        from confluent_kafka import KafkaException

        listener = ErrorListener()
        consumer = self.consumer(listener, **more)
        try:
            yield consumer, listener
        except KafkaException as error:
            raise listener.choose_error(error) from error
        finally:
            consumer.close()

    @contextmanager
    def translate_errors(self, where: str, topic: str) -> Iterator[None]:
        """Translate errors of the client library in the block to Waterclock errors."""
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise self.translate_error(error.args[0], where, topic) from None

    def translate_error(self, error: KafkaError, where: str, topic: str) -> WaterclockError:
        """Translate an error of the client library to a Waterclock error; it is `transient` if a retry can help."""
        permanent = self.translate_permanent_error(error, where, topic)
        return permanent or self._no_answer_error(f"{self.servers}: {error.str()}", where)

    def translate_permanent_error(self, error: KafkaError, where: str, topic: str) -> WaterclockError | None:
        """Translate an error of the client library that a retry cannot fix; None for any other."""
        name, why = error.name(), f"{self.servers}: {error.str()}"
        if name in _MISSING:
            return self._missing_topic_error(topic, where)
        if is_of_login(error):
            return refused_login_error(error, self.settings, where)
        if is_of_tls(error):
            return refused_tls_error(error, self.settings, where)
        if name in _REFUSALS or name.endswith("_AUTHORIZATION_FAILED"):
            return _permission_error(name, why, where, topic)
        return None

    def _impossible_answer_error(self, where: str, reason: str) -> WaterclockError:
        return WaterclockError(
            "E854",
            "Kafka gives an impossible answer",
            where=where,
            why=f"{self.servers} reports: {reason}",
            fix="it is tried again; check the brokers, and any proxy in front of them: nothing was read",
            transient=True,
        )

    def _no_answer_error(self, why: str, where: str) -> WaterclockError:
        first = self.servers.split(",")[0].strip()
        if "ssl" not in self.settings.get("security.protocol", "") and speaks_tls(first):
            return WaterclockError(
                "E864",
                "Kafka requires TLS",
                where=where,
                why=f"{first} responds with TLS, and the connection does not use it",
                fix="set security to 'ssl', or to 'sasl_ssl' if it requires a login",
            )
        return WaterclockError(
            "E854",
            "Kafka does not answer",
            where=where,
            why=why,
            fix="it is tried again; check that its brokers run, and that the addresses and security are right",
            transient=True,
        )

    def _missing_topic_error(self, topic: str, where: str) -> WaterclockError:
        from confluent_kafka import KafkaException

        try:
            known = sorted(
                name for name in self.admin(ErrorListener()).list_topics(timeout=5).topics if not name.startswith("__")
            )
        except KafkaException:
            known = []
        return WaterclockError(
            "E856",
            f"there is no topic {topic}",
            where=where,
            why=f"the cluster has {', '.join(known[:10])}{', …' if len(known) > 10 else ''}"
            if known
            else "the cluster shows no topics to this user",
            fix=did_you_mean(topic, known, otherwise="create the topic, or correct its name"),
        )

    def _client(self, listener: ErrorListener, more: Mapping[str, Any]) -> dict[str, Any]:
        own = {
            "bootstrap.servers": self.servers,
            "client.id": "waterclock",
            "error_cb": listener,
            **self.settings,
            **more,
        }
        if self.token_file:
            self._token("")  # raises an error for an invalid token, for which the client would only wait
            own["oauth_cb"] = self._token
        return own

    def _token(self, _: str) -> tuple[str, float]:
        """Read the current token from its file. Return it with its expiry time, by default in five minutes.

        Raises E855 if there is no file or no valid token in it.
        """
        try:
            token = Path(self.token_file).read_text(encoding="ascii").strip()
        except OSError:
            raise missing_token_error(f"no file {self.token_file}", self.name) from None
        except ValueError:  # its message contains part of the token
            token = ""
        if not token or any(sign.isspace() for sign in token):
            raise missing_token_error(f"{self.token_file} has no token: a token is one word of ASCII", self.name)
        now = time.time()
        try:
            body = token.split(".")[1]
            ends = float(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["exp"])
        except (IndexError, KeyError, TypeError, ValueError):
            ends = math.inf
        if ends <= now:
            raise missing_token_error(f"the token in {self.token_file} expired {now - ends:.0f} seconds ago", self.name)
        return token, ends if math.isfinite(ends) else now + _TOKEN_SECONDS


def _wait_for_results(
    admin: AdminClient, listener: ErrorListener, futures: Mapping[Any, Future[Any]]
) -> dict[Any, Any]:
    """Wait for the responses to `futures` and return their results by key.

    Raises KafkaException as soon as all brokers refuse the client.
    """
    from confluent_kafka import KafkaException

    while wait(futures.values(), _POLL_SECONDS).not_done:
        admin.poll(0)
        listener.raise_if_refused()
    try:
        return {key: answer.result() for key, answer in futures.items()}
    except KafkaException as error:
        raise listener.choose_error(error) from error


def _is_election(error: BaseException) -> bool:
    """Return whether a request failed because a partition has no leader yet, or one that has just been elected."""
    from confluent_kafka import KafkaException

    return isinstance(error, KafkaException) and error.args[0].name() in _ELECTIONS


def _permission_error(name: str, why: str, where: str, topic: str) -> WaterclockError:
    rights = {
        "TOPIC_AUTHORIZATION_FAILED": f"to read or write the topic {topic}",
        "GROUP_AUTHORIZATION_FAILED": "to use groups whose names begin with waterclock",
        "CLUSTER_AUTHORIZATION_FAILED": "to write idempotently, or to describe the cluster",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "to write in transactions whose ids begin with waterclock",
    }
    if name not in rights:
        fix = "check the options of the connection, and the maximum size of records (max.message.bytes)"
        return WaterclockError("E855", "Kafka refuses the request", where=where, why=why, fix=fix)
    return WaterclockError(
        "E855",
        "Kafka denies permission",
        where=where,
        why=f"{why}; the user has no right {rights[name]}",
        fix="grant that right to the connection's user (kafka-acls), or use another user",
    )


def cluster_of(setting: Setting) -> Cluster:
    """Build the cluster of a connection from its options. Raises E803 without an address."""
    options = setting.options
    servers = options.get("servers")
    if not servers:
        raise WaterclockError(
            "E803",
            f"the connection {setting.name} has no servers",
            where=setting.name,
            why="a connection of type kafka needs the address of at least one broker",
            fix=f"add connections.{setting.name} = {{ servers = 'broker1:9092,broker2:9092' }} to waterclock.toml",
        )
    found = {_SETTINGS[name]: str(value) for name, value in options.items() if name in _SETTINGS}
    for name in _FILES & options.keys():
        found[_SETTINGS[name]] = str(setting.folder / str(options[name]))
    registry = {name: str(value) for name, value in options.items() if name.startswith("registry")}
    if "registry_ca" in registry:
        registry["registry_ca"] = str(setting.folder / registry["registry_ca"])
    is_by_token = options.get("mechanism") == BY_TOKEN
    token_file = str(setting.folder / str(options.get("token_file", ""))) if is_by_token else ""
    timeout = float(str(options.get("timeout", PATIENCE)))
    return Cluster(setting.name, str(servers), found, registry, token_file, timeout)


def _silent_logger() -> logging.Logger:
    """Return a logger without output, as the library also logs events that are not errors. Errors are raised."""
    logger = logging.getLogger("waterclock.kafka")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
