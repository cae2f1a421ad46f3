"""Delivers sealed slices to a topic, each claim in one transaction.

1. `init_transactions` with the id `waterclock.<project>.<publish>` fences every older runner, and ends a transaction
   that an older runner left open. Only then is the record of deliveries read.
2. The record is an offset that the consumer group of that name has committed for partition 0 of the topic. The offset
   is a claim's number, far beyond the log's end. Its metadata contains the newest claims. The first outcome of a claim
   is final.
3. Messages and record are one transaction, so a reader of committed messages sees all messages of a claim or none, and
   never twice.

Kafka removes the offsets of a group without members after some days. If a claim is older than that and has no record,
its messages are searched for in the topic, by their headers (`old_claim_search`). If the topic cannot show whether they
were sent, the delivery fails with E859 and sends nothing.

With the option `ends`, each partition gets a record without a value after the records of a label. Its headers are the
label, the claim, and the number of the label's records in the partition. So a reader can detect a label that has no
rows, or no longer has any.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.kafka.cluster import Cluster
from waterclock.connectors.kafka.login_errors import ErrorListener
from waterclock.connectors.kafka.messages import SentMessage, end_markers, resolve_message_format
from waterclock.connectors.kafka.old_claim_search import find_sent_messages
from waterclock.connectors.kafka.ranges import Log
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaException, Message, Producer

_MOST_CLAIMS = 12
_POLL_EVERY = 1_000
_LEAST_PATIENCE = 60.0
_ABORT_PATIENCE = 10.0
_DAY = 86_400
_QUEUE_KBYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class PublishRecord:
    """The record of a publish: the outcomes of the newest claims, in order, and the delivery of the newest label."""

    topic_id: str
    claims: tuple[Delivered, ...] = ()
    last: Delivered | None = None

    def find(self, claim: int) -> Delivered | None:
        """Return the outcome of a claim; None if unknown. A claim older than all recorded ones counts as delivered."""
        for known in self.claims:
            if known.claim == claim:
                return known
        if self.claims and claim < self.claims[0].claim:
            return Delivered(claim, DeliveryOutcome.DELIVERED, "", 0)
        return None

    def with_claim(self, found: Delivered) -> PublishRecord:
        """Return the record with the outcome of a claim added. If it has too many claims, the oldest is removed."""
        others = (one for one in self.claims if one.claim != found.claim)  # one entry per claim: its newest label
        claims = tuple(sorted((*others, replace(found, is_repeat=False)), key=lambda one: one.claim))[-_MOST_CLAIMS:]
        is_newest = found.outcome is DeliveryOutcome.DELIVERED and (
            self.last is None or found.label_text >= self.last.label_text
        )
        return replace(self, claims=claims, last=found if is_newest else self.last)

    def to_text(self) -> str:
        """Return the record as text, which is stored as the metadata of an offset."""
        last = None if self.last is None else _delivered_to_list(self.last)
        return json.dumps(
            [self.topic_id, [_delivered_to_list(one) for one in self.claims], last], separators=(",", ":")
        )

    @staticmethod
    def from_offset_metadata(text: str) -> PublishRecord:
        """Parse the result of `to_text`."""
        topic_id, claims, last = json.loads(text)
        return PublishRecord(
            topic_id, tuple(map(_delivered_from_list, claims)), None if last is None else _delivered_from_list(last)
        )


@dataclass(frozen=True, slots=True)
class _OpenDelivery:
    """The open resources of a delivery: topic, transactional producer, and a consumer of the group with the record."""

    cluster: Cluster
    unit: Unit
    log: Log
    producer: Producer
    consumer: Consumer

    def records(self) -> PublishRecord:
        """Read the record of the publish. No other runner can change it, as `init_transactions` has fenced them."""
        return _read_records(self.consumer, self.unit, self.cluster)

    def put(self, claim: int, records: PublishRecord, patience: float) -> None:
        """Add the record to the transaction. `patience` is a timeout in seconds."""
        from confluent_kafka import TopicPartition

        number = max(claim, *(one.claim for one in records.claims))
        at = TopicPartition(self.unit.path, 0, number, replace(records, topic_id=self.log.id).to_text())
        self.producer.send_offsets_to_transaction([at], self.consumer.consumer_group_metadata(), patience)


@dataclass(frozen=True, slots=True)
class KafkaDeliverer:
    """Delivers to the topics of a cluster."""

    cluster: Cluster

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Send the slices of one claim in one transaction, once (see the module docstring).

        Raises E854 to E856 for errors of the cluster, E858 if another runner has taken over, and E859 if it is unknown
        whether the claim was sent before.
        """
        first = deliveries[0]
        with self._open_transaction(unit, first.project, first.publish, unit.options.get("in_flight")) as held:
            producer, records = held.producer, held.records()
            recorded = records.find(first.claim)
            if recorded is not None:
                return tuple(replace(recorded, label_text=one.label_text, is_repeat=True) for one in deliveries)
            recorded = self._search_topic(held, records, first.claim, [one.label_text for one in deliveries])
            if recorded is not None:
                return tuple(replace(recorded, label_text=one.label_text, is_repeat=True) for one in deliveries)
            if unit.options.get("keep") == "all":
                self._require_partitions(unit, set(held.log.ends), deliveries)
            producer.begin_transaction()
            fault("deliver.begun")
            answers: list[Delivered] = []
            for delivery in deliveries:
                answers.append(self._send_label(held, delivery, records))
                records = records.with_claim(answers[-1])
            fault("deliver.rows")
            held.put(first.claim, records, self._patience)
            fault("deliver.recorded")
            producer.commit_transaction(self._patience)
            fault("deliver.committed")
            return tuple(answers)

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Record the claim as killed, unless it has an outcome. Return the recorded outcome."""
        with self._open_transaction(unit, project, publish, None) as held:
            producer, records = held.producer, held.records()
            recorded = records.find(claim)
            if recorded is not None:
                return replace(recorded, is_repeat=True)
            recorded = self._search_topic(held, records, claim, [])
            if recorded is not None:
                return replace(recorded, is_repeat=True)
            killed = Delivered(claim, DeliveryOutcome.KILLED, "", 0)
            producer.begin_transaction()
            held.put(claim, records.with_claim(killed), self._patience)
            producer.commit_transaction(self._patience)
            return killed

    def find(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered | None:
        """Return the recorded outcome of a claim; None if there is none."""
        with self.cluster.translate_errors(str(unit), unit.path):
            return self._records(unit, project, publish).find(claim)

    def last(self, unit: Unit, project: str, publish: str) -> Delivered | None:
        """Return the delivery of the newest label; None before the first delivery."""
        self.cluster.log_of(unit.path, str(unit))
        with self.cluster.translate_errors(str(unit), unit.path):
            return self._records(unit, project, publish).last

    def find_loss(self, unit: Unit, project: str, publish: str, claim: int) -> str | None:
        """Return a message if the topic was replaced or has no record of the claim; else None.

        Messages are not checked. A record that is so old that Kafka may have removed it counts as intact.
        """
        log = self.cluster.log_of(unit.path, str(unit))
        with self.cluster.translate_errors(str(unit), unit.path):
            records = self._records(unit, project, publish)
        if records.topic_id and records.topic_id != log.id:
            return f"the topic {unit.path} was deleted and created again"
        found = records.find(claim)
        is_there = found is not None and found.outcome is not DeliveryOutcome.KILLED
        if is_there or (not records.claims and self._may_be_forgotten(claim)):
            return None
        return f"there is no record of claim {claim}"

    def _send_label(self, held: _OpenDelivery, delivery: Delivery, records: PublishRecord) -> Delivered:
        """Send the messages of one label, unless a newer state was delivered before."""
        last = records.last
        if not delivery.is_by_label and last is not None and last.label_text > delivery.label_text:
            return Delivered(delivery.claim, DeliveryOutcome.OLDER, delivery.label_text, 0, 0, delivery.note)
        failed: list[Any] = []
        arrived: Counter[int] = Counter()

        def record_delivery(error: Any, message: Message) -> None:
            if error is not None:
                failed.append(error)
            else:
                arrived[message.partition() or 0] += 1

        producer, unit = held.producer, held.unit
        rows = gone = 0
        for message in resolve_message_format(unit, delivery).messages(delivery):
            self._produce(producer, unit, message, record_delivery)
            gone += message.is_gone
            rows += not message.is_gone
            if (rows + gone) % _POLL_EVERY == 0:
                producer.poll(0)
        if producer.flush(self._patience) or failed:
            raise self._make_exception(failed)
        if unit.options.get("ends"):
            for message in end_markers(delivery, {part: arrived[part] for part in held.log.ends}):
                self._produce(producer, unit, message, record_delivery)
            if producer.flush(self._patience) or failed:
                raise self._make_exception(failed)
        return Delivered(delivery.claim, DeliveryOutcome.DELIVERED, delivery.label_text, rows, gone, delivery.note)

    def _produce(self, producer: Producer, unit: Unit, message: SentMessage, listener: Any) -> None:
        more: dict[str, Any] = {} if message.partition is None else {"partition": message.partition}
        if message.milliseconds is not None:
            more["timestamp"] = message.milliseconds
        end = time.monotonic() + self._patience
        while True:
            try:
                producer.produce(
                    unit.path, message.value, message.key, headers=list(message.headers), on_delivery=listener, **more
                )
            except BufferError:  # the client's queue is full: wait until some messages are sent
                if time.monotonic() > end:
                    raise self._make_exception([]) from None
                producer.poll(0.5)
            else:
                return

    @staticmethod
    def _make_exception(errors: Sequence[Any]) -> KafkaException:
        from confluent_kafka import KafkaError, KafkaException

        return KafkaException(errors[0] if errors else KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - its public name

    def _records(self, unit: Unit, project: str, publish: str) -> PublishRecord:
        with self._open_group(project, publish) as consumer:
            return _read_records(consumer, unit, self.cluster)

    @contextmanager
    def _open_group(self, project: str, publish: str) -> Iterator[Consumer]:
        with self.cluster.open_consumer(**{"group.id": name_of(project, publish)}) as (consumer, _):
            yield consumer

    @contextmanager
    def _open_transaction(self, unit: Unit, project: str, publish: str, in_flight: object) -> Iterator[_OpenDelivery]:
        from confluent_kafka import KafkaException

        config: dict[str, Any] = {
            "transactional.id": name_of(project, publish),
            "partitioner": "murmur2_random",  # as Java clients do
            "linger.ms": 20,
            "queue.buffering.max.kbytes": _QUEUE_KBYTES,
        }
        if in_flight is not None:
            config["max.in.flight.requests.per.connection"] = int(str(in_flight))
        where = str(unit)
        with self.cluster.translate_errors(where, unit.path), self._open_group(project, publish) as consumer:
            log = self.cluster.log_of(unit.path, where)
            listener = ErrorListener()
            producer = self.cluster.producer(listener, **config)
            try:
                producer.init_transactions(self._patience)
                yield _OpenDelivery(self.cluster, unit, log, producer, consumer)
            except BaseException as error:
                # an open transaction blocks readers; if it cannot be aborted here, the next runner ends it
                producer.purge()
                with suppress(KafkaException):
                    producer.abort_transaction(_ABORT_PATIENCE)
                if isinstance(error, KafkaException):
                    raise self._translate_producer_error(listener.choose_error(error), unit) from None
                raise

    def _translate_producer_error(self, error: KafkaException, unit: Unit) -> WaterclockError:
        cause = error.args[0]
        if cause.name() in {"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}:
            return WaterclockError(
                "E858",
                f"another runner delivers to {unit.path}",
                where=str(unit),
                why="it began after this one, and Kafka no longer accepts this one: nothing was sent twice",
                fix="nothing to fix: the other runner delivers",
                transient=True,
            )
        return self.cluster.translate_error(cause, str(unit), unit.path)

    def _search_topic(
        self, held: _OpenDelivery, records: PublishRecord, claim: int, labels: Sequence[str]
    ) -> Delivered | None:
        """Search the topic for an old claim whose record Kafka may have removed; None if it was never sent.

        Raises E859 if the topic may no longer have the messages of that time.
        """
        if records.claims or not self._may_be_forgotten(claim):
            return None
        found = find_sent_messages(self.cluster, held.unit, held.log, claim, labels)
        if not isinstance(found, str):
            return found
        days = (time.time() - claim / 1000) / _DAY
        raise WaterclockError(
            "E859",
            f"it is unknown whether claim {claim} was delivered to {held.unit.path}",
            where=str(held.unit),
            why=f"it is {days:.1f} days old, and Kafka has removed the record of the publish, if there was one"
            f" (offsets.retention.minutes); {found}. It is not sent again",
            fix="search the topic for messages whose header claim has that number; if there are none:"
            " waterclock recompute",
        )

    def _may_be_forgotten(self, claim: int) -> bool:
        """Return whether a claim is so old that the cluster may have removed its group's offsets.

        A claim's number is a time in milliseconds.
        """
        return time.time() - claim / 1000 > self.cluster.offset_retention_minutes() * 60

    @staticmethod
    def _require_partitions(unit: Unit, there: set[int], deliveries: Sequence[Delivery]) -> None:
        """Raise E856 if the topic does not have all partitions to which the rows belong."""
        from waterclock.connectors.slice_rows import batches_of

        wanted: set[int] = set()
        for delivery in deliveries:
            for batch in batches_of(delivery.files, ["partition"]):
                wanted |= set(batch["partition"].unique().to_pylist())
        if wanted - there:
            raise WaterclockError(
                "E856",
                f"{unit.path} has fewer partitions than the delivered records need",
                where=str(unit),
                why=f"keep 'all' sends each record to its own partition; missing: {sorted(wanted - there)}",
                fix=f"give the topic {max(wanted) + 1} partitions, or leave keep out",
            )

    @property
    def _patience(self) -> float:
        return max(self.cluster.timeout, _LEAST_PATIENCE)


def _read_records(consumer: Consumer, unit: Unit, cluster: Cluster) -> PublishRecord:
    from confluent_kafka import TopicPartition

    [found] = consumer.committed([TopicPartition(unit.path, 0)], timeout=cluster.timeout)
    if found.error is not None:
        raise cluster.translate_error(found.error, str(unit), unit.path)
    return (
        PublishRecord.from_offset_metadata(found.metadata)
        if found.offset >= 0 and found.metadata
        else PublishRecord("")
    )


def name_of(project: str, publish: str) -> str:
    """Return the transactional id of a publish, which is also the name of the consumer group with its record."""
    return f"waterclock.{project}.{publish}"


def _delivered_to_list(found: Delivered) -> list[Any]:
    return [found.claim, found.outcome.value, found.label_text, found.rows, found.deleted, found.note]


def _delivered_from_list(kept: Sequence[Any]) -> Delivered:
    claim, outcome, label, rows, deleted, note = kept
    return Delivered(claim, DeliveryOutcome(outcome), label, rows, deleted, note)
