"""Reads ranges of offsets as Arrow batches: all that is committed in them, in bounded memory, and not one beyond.

A range ends where an offset at or behind its end is met: a record there, or the end of the log as the client tells it.
So neither markers of transactions nor what compaction took leaves a reader waiting for an offset that never comes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.connectors.kafka.avro import Decoder
from waterclock.connectors.kafka.cluster import Cluster
from waterclock.connectors.kafka.ranges import Span, gone_error
from waterclock.errors import WaterclockError
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Consumer, Message, TopicPartition

_AT_ONCE = 5_000
_WAIT = 0.05
_BATCH_BYTES = 16 * 1024 * 1024
_LOST_PLACE = frozenset({-140, 1})  # _AUTO_OFFSET_RESET, OFFSET_OUT_OF_RANGE
_STAMPS = (None, "create", "append")
RAW = {
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestamp_type": "STRING",
}
"""The columns of a record, with their types."""


@dataclass(frozen=True, slots=True)
class Part:
    """A span that a label owns."""

    label: datetime
    span: Span


@dataclass(frozen=True, slots=True)
class Extract:
    """What is read: spans of a topic, in their order. `decoder` makes JSON of values in Avro."""

    cluster: Cluster
    topic: str
    where: str
    parts: tuple[Part, ...]
    decoder: Decoder | None = None

    @property
    def most(self) -> int:
        """How many records there are at most."""
        return sum(part.span.high - part.span.low for part in self.parts)

    def one_by_one(self) -> list[Extract]:
        """Return an extract for each span."""
        return [replace(self, parts=(part,)) for part in self.parts]


def schema() -> pa.Schema:
    """Return the Arrow schema of records with their label."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    kinds = (
        pa.binary(), pa.binary(), pa.list_(header), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"), pa.string()
    )  # fmt: skip
    return pa.schema([*zip(RAW, kinds, strict=True), (TIMELABEL, pa.string())])


def batches(extract: Extract) -> Iterator[pa.RecordBatch]:
    """Yield the committed records of the spans, by partition in the order of their offsets.

    Raises  E852 where the brokers drop them meanwhile, E854 to E856 as the cluster, E857 for a value that is no Avro
    """
    with extract.cluster.told(extract.where, extract.topic), extract.cluster.reading() as consumer:
        for parts in _side_by_side(extract.parts):
            for messages, part in _messages(consumer, extract, parts):
                yield _batch(messages, part, extract)


def _side_by_side(parts: Sequence[Part]) -> list[list[Part]]:
    """Put parts together that are read at once, each of a partition of its own: those of one come in their order."""
    rounds: list[list[Part]] = []
    met: Counter[int] = Counter()
    for part in parts:
        at = met[part.span.partition]
        met[part.span.partition] += 1
        if at == len(rounds):
            rounds.append([])
        rounds[at].append(part)
    return rounds


@dataclass(slots=True)
class _Open:
    """A part that is being read: how far it was, and what came of it and is not passed on yet."""

    part: Part
    reached: int
    found: list[Message] = field(default_factory=list)
    size: int = 0

    @property
    def left(self) -> Span:
        """What is still to come."""
        return replace(self.part.span, low=self.reached)

    @property
    def most(self) -> int:
        """How many messages may still come, the word of the log's end among them."""
        return max(1, self.part.span.high - self.reached)

    def take(self, message: Message, *, is_end: bool) -> bool:
        """Take a record, or the word that the log ends; tell whether the part is over."""
        offset, high = message.offset() or 0, self.part.span.high
        if is_end:
            return offset >= high
        if self.reached <= offset < high:
            self.found.append(message)
            self.size += len(message.value() or b"") + len(message.key() or b"")
            self.reached = offset + 1
        return offset >= high - 1

    def passed_on(self) -> list[Message]:
        """Give what came, and forget it."""
        found, self.found, self.size = self.found, [], 0
        return found


def _messages(consumer: Consumer, extract: Extract, parts: Sequence[Part]) -> Iterator[tuple[list[Message], Part]]:
    """Yield the messages of parts, each of a partition of its own; they are fetched together, and none waits for one.

    Raises  as `batches`
    """
    from confluent_kafka import KafkaError, TopicPartition

    still = {part.span.partition: _Open(part, part.span.low) for part in parts}
    consumer.assign(_places(extract, still))
    heard, told = time.monotonic(), ""
    while still:
        # no more than may be left: for more the client would wait, at the end of each range
        came = consumer.consume(min(_AT_ONCE, sum(one.most for one in still.values())), _WAIT)
        over: list[_Open] = []
        for message in came:
            error, partition = message.error(), message.partition()
            is_end = error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 - its public name
            if error is not None and not is_end:
                told = _troubled(consumer, extract, still, message, told)
                continue
            heard = time.monotonic()
            # what comes behind the end of a range that is over is passed over
            if partition in still and still[partition].take(message, is_end=is_end):
                over.append(still.pop(partition))
        if over and still:
            consumer.pause([TopicPartition(extract.topic, one.part.span.partition) for one in over])
        for one in [*over, *(still.values() if _is_enough(still.values()) or not came else ())]:
            if one.found:
                yield one.passed_on(), one.part
                heard = time.monotonic()  # whoever takes them may take long
        if still and time.monotonic() - heard > extract.cluster.timeout:
            raise _stalled(extract, next(iter(still.values())).part.span, told)
    consumer.unassign()


def _is_enough(parts: Iterable[_Open]) -> bool:
    counts = [(len(one.found), one.size) for one in parts]
    return sum(count for count, _ in counts) >= _AT_ONCE or sum(size for _, size in counts) >= _BATCH_BYTES


def _places(extract: Extract, still: Mapping[int, _Open]) -> list[TopicPartition]:
    from confluent_kafka import TopicPartition

    return [TopicPartition(extract.topic, partition, one.reached) for partition, one in still.items()]


def _troubled(consumer: Consumer, extract: Extract, still: Mapping[int, _Open], message: Message, told: str) -> str:
    """Go on behind an error that passes: of a partition that is still read, or of the client as a whole.

    Raises  as `_unless_final`
    """
    error, partition = message.error(), message.partition()
    one = next(iter(still.values()), None) if partition is None or partition < 0 else still.get(partition)
    if error is None or one is None:
        return told
    told = _unless_final(error, extract, one.left, told)
    if error.code() in _LOST_PLACE:
        consumer.assign(_places(extract, still))
    return told


def _unless_final(error: Any, extract: Extract, span: Span, told: str) -> str:
    """Raise what waiting does not mend; else return what is to be said if it goes on."""
    if error.code() in _LOST_PLACE:
        log = extract.cluster.log_of(extract.topic, extract.where)
        if (begins := log.starts.get(span.partition, span.low)) > span.low:
            gone = Span(span.partition, span.low, min(begins, span.high))
            raise gone_error(extract.topic, [gone], where=extract.where, is_owned=True)
        return str(
            error.str()
        )  # a broker that has just begun to lead the partition may not know yet; it is asked again
    said = extract.cluster.said(error, extract.where, extract.topic)
    if not said.transient:
        raise said
    return told or error.str()


def _stalled(extract: Extract, span: Span, told: str) -> WaterclockError:
    return WaterclockError(
        "E854",
        "Kafka does not answer",
        where=extract.where,
        why=f"{extract.cluster.servers}: offsets {span} of {extract.topic} did not come whole{told and f': {told}'}",
        fix="it is tried again, and reads the same offsets; see that the brokers of the partition run",
        transient=True,
    )


def _batch(messages: Sequence[Message], part: Part, extract: Extract) -> pa.RecordBatch:
    import pyarrow as pa

    decoder = extract.decoder
    values = [message.value() for message in messages]
    if decoder is not None:
        offsets = [message.offset() or 0 for message in messages]
        values = [decoder.json_of(value, part.span.partition, at) for value, at in zip(values, offsets, strict=True)]
    stamps = [message.timestamp() for message in messages]
    columns = [
        [message.key() for message in messages],
        values,
        [
            None if (found := message.headers()) is None else [{"key": it[0], "value": it[1]} for it in found]
            for message in messages
        ],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [milliseconds * 1000 if kind else None for kind, milliseconds in stamps],
        [_STAMPS[kind] for kind, _ in stamps],
        [label_of(part.label)] * len(messages),
    ]
    fields = schema()
    return pa.record_batch([pa.array(it, field.type) for it, field in zip(columns, fields, strict=True)], schema=fields)
