"""Reads ranges of offsets as Arrow batches: all that is committed in them, in bounded memory, and not one beyond.

A range ends where an offset at or behind its end is met: a record there, or the end of the log as the client tells it.
So neither markers of transactions nor what compaction took leaves a reader waiting for an offset that never comes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.connectors.kafka.avro import Decoder
from waterclock.connectors.kafka.cluster import Cluster
from waterclock.connectors.kafka.ranges import Span, gone_error
from waterclock.errors import WaterclockError
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Consumer, Message

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
        for part in extract.parts:
            for messages in _messages(consumer, extract, part.span):
                yield _batch(messages, part, extract)


def _messages(consumer: Consumer, extract: Extract, span: Span) -> Iterator[list[Message]]:
    from confluent_kafka import KafkaError, TopicPartition

    consumer.assign([TopicPartition(extract.topic, span.partition, span.low)])
    found: list[Message] = []
    size, heard, is_over, told, reached = 0, time.monotonic(), False, "", span.low
    while not is_over:
        # no more than may be left: for more the client would wait, once at the end of every partition
        came = consumer.consume(min(_AT_ONCE, max(1, span.high - reached)), _WAIT)
        for message in came:
            error, offset = message.error(), message.offset() or 0
            if error is None:
                if offset < span.high:
                    found.append(message)
                    size += len(message.value() or b"") + len(message.key() or b"")
                    reached = offset + 1
                is_over = is_over or offset >= span.high - 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                is_over = is_over or offset >= span.high
            else:
                told = _unless_final(error, extract, replace(span, low=reached), told)
                if error.code() in _LOST_PLACE:
                    consumer.assign([TopicPartition(extract.topic, span.partition, reached)])
                continue
            heard = time.monotonic()
        if found and (is_over or not came or len(found) >= _AT_ONCE or size >= _BATCH_BYTES):
            yield found
            found, size, heard = [], 0, time.monotonic()  # whoever takes them may take long
        if time.monotonic() - heard > extract.cluster.timeout:
            raise _stalled(extract, span, told)
    consumer.unassign()


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
