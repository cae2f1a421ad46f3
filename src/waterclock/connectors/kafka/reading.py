"""Reads ranges of offsets as Arrow batches, in bounded memory: exactly the committed records in them.

The read of a range is complete when the client returns an offset at or after its end, of a record or of the end of the
log. So it never waits for a transaction marker or a compacted record. All partitions are read concurrently.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import methodcaller
from typing import TYPE_CHECKING, NamedTuple

from waterclock.connectors.avro_memory import MOST_OF_A_BATCH
from waterclock.connectors.kafka.avro import Decoder, unreadable
from waterclock.connectors.kafka.cluster import Cluster
from waterclock.connectors.kafka.login_errors import ErrorListener
from waterclock.connectors.kafka.ranges import OffsetSpan, dropped_records_error
from waterclock.errors import WaterclockError
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Consumer, KafkaError, Message

Headers = list[tuple[str, bytes | None]]

_FIRST_AT_ONCE, _MOST_AT_ONCE = 100, 5_000  # records that are asked for in one call, before their sizes are known
_WAIT = 0.05
_BATCH_BYTES = 16 * 1024 * 1024
_LOST_PLACE = frozenset({-140, 1})  # _AUTO_OFFSET_RESET, OFFSET_OUT_OF_RANGE
_DAMAGED = frozenset({-199, -198})  # _BAD_MSG, _BAD_COMPRESSION
_MOST_NAMED = 5
_STAMPS = (None, "create", "append")
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999  # milliseconds since 1970, of the years 1 and 9999
RAW = {
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestamp_type": "STRING",
}
"""The columns of a record, with their Spark types."""


@dataclass(frozen=True, slots=True)
class OffsetPart:
    """An offset range and the label to which it belongs."""

    label: datetime
    span: OffsetSpan


@dataclass(frozen=True, slots=True)
class KafkaExtract:
    """A read of offset spans of a topic. `decoder` converts Avro values to JSON.

    `refuses_odd`: header keys that are not UTF-8, and timestamps outside of the years 1 to 9999, raise an error. By
    default these headers and timestamps are NULL, as the client library cannot return such headers, and Spark has no
    such timestamps.
    """

    cluster: Cluster
    topic: str
    where: str
    parts: tuple[OffsetPart, ...]
    decoder: Decoder | None = None
    refuses_odd: bool = False

    @property
    def most(self) -> int:
        """The maximum number of records."""
        return sum(part.span.high - part.span.low for part in self.parts)

    def split_into_bundles(self, most: int) -> list[KafkaExtract]:
        """Split into extracts of at most `most` records each, in the order of the spans. A larger span is not split."""
        bundles: list[list[OffsetPart]] = []
        room = 0
        for part in self.parts:
            count = part.span.high - part.span.low
            if not bundles or count > room:
                bundles.append([])
                room = most
            bundles[-1].append(part)
            room -= count
        return [replace(self, parts=tuple(bundle)) for bundle in bundles]


def schema() -> pa.Schema:
    """Return the Arrow schema of records with their labels."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    kinds = (
        pa.binary(), pa.binary(), pa.list_(header), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"), pa.string()
    )  # fmt: skip
    return pa.schema([*zip(RAW, kinds, strict=True), (TIMELABEL, pa.string())])


def batches(extract: KafkaExtract) -> Generator[pa.RecordBatch, None, None]:
    """Yield the committed records of the spans, in the order of offsets within each partition.

    Raises E852 for records that no longer exist, E857 for an unreadable record, and E854 to E856 and E864 for errors of
    the cluster.
    """
    with (
        extract.cluster.translate_errors(extract.where, extract.topic),
        extract.cluster.open_consumer() as (consumer, listener),
    ):
        for parts in group_by_pass(extract.parts):
            for records in _read_in_parallel(consumer, listener, extract, parts):
                yield from _build_batches(records, extract)


@dataclass(slots=True)
class _SpanProgress:
    """The progress of reading a span: all records before the offset `reached` are read."""

    part: OffsetPart
    reached: int

    @property
    def remaining_span(self) -> OffsetSpan:
        """The part of the span that is not read yet."""
        return replace(self.part.span, low=self.reached)

    @property
    def most(self) -> int:
        """The maximum number of messages that remain to be read, including one that reports the end of the log."""
        return max(1, self.part.span.high - self.reached)


class _Record(NamedTuple):
    """A record that was received: its part, and its headers if they can be read."""

    part: OffsetPart
    message: Message
    headers: Headers | None


@dataclass(slots=True)
class _ReceivedRecords:
    """Records that were received but not yielded yet. `size` is in bytes."""

    records: list[_Record] = field(default_factory=list)
    size: int = 0

    @property
    def is_enough(self) -> bool:
        """True if there are enough records for a batch."""
        return len(self.records) >= _MOST_AT_ONCE or self.size >= _BATCH_BYTES

    def add(self, record: _Record) -> None:
        """Add a record."""
        self.records.append(record)
        self.size += len(record.message.value() or b"") + len(record.message.key() or b"")
        self.size += sum(len(key) + len(value or b"") for key, value in record.headers or ())


def group_by_pass(parts: Sequence[OffsetPart]) -> list[list[OffsetPart]]:
    """Group parts into as few lists as possible, with each partition once per list.

    A consumer has one position per partition, so it can read one list at a time.
    """
    found: list[list[OffsetPart]] = []
    seen: Counter[int] = Counter()
    for part in parts:
        wave = seen[part.span.partition]
        seen[part.span.partition] += 1
        if wave == len(found):
            found.append([])
        found[wave].append(part)
    return found


def _read_in_parallel(
    consumer: Consumer, listener: ErrorListener, extract: KafkaExtract, parts: Sequence[OffsetPart]
) -> Iterator[list[_Record]]:
    from confluent_kafka import TopicPartition

    places = {part.span.partition: _SpanProgress(part, part.span.low) for part in parts}
    _assign(consumer, extract, places)
    received, last, last_error = _ReceivedRecords(), time.monotonic(), ""
    at_once = _FIRST_AT_ONCE
    while places:
        # at most as many as remain, as the client would wait for more at the end of each range
        messages = consumer.consume(min(at_once, sum(place.most for place in places.values())), _WAIT)
        size, count = received.size, len(received.records)
        done: list[TopicPartition] = []
        is_lost = False
        for message in messages:
            place = places.get(-1 if (partition := message.partition()) is None else partition)
            if (error := message.error()) is not None and error.name() != "_PARTITION_EOF":
                last_error = _raise_permanent(
                    error, extract, None if place is None else place.remaining_span, last_error
                )
                is_lost = is_lost or error.code() in _LOST_PLACE
                continue
            last = time.monotonic()
            if place is not None and _add_message(place, message, received, extract):
                del places[place.part.span.partition]
                done.append(TopicPartition(extract.topic, place.part.span.partition))
        if taken := len(received.records) - count:  # large records are fetched while the call waits for more of them
            at_once = max(1, min(_MOST_AT_ONCE, _BATCH_BYTES * taken // max(1, received.size - size)))
        if done and places:
            consumer.pause(done)  # records after the span are not fetched
        if is_lost:
            _assign(consumer, extract, places)
        if received.records and (received.is_enough or not messages or not places):
            yield received.records
            received, last = _ReceivedRecords(), time.monotonic()  # the caller may take long with them
        if time.monotonic() - last > extract.cluster.timeout:
            raise _stalled_read_error(
                extract, [place.remaining_span for place in places.values()], listener, last_error
            )
    consumer.unassign()


def _assign(consumer: Consumer, extract: KafkaExtract, places: Mapping[int, _SpanProgress]) -> None:
    from confluent_kafka import TopicPartition

    at = [TopicPartition(extract.topic, part, place.reached) for part, place in places.items()]
    consumer.assign(at)
    consumer.resume(at)  # a paused partition stays paused when it is assigned again


def _add_message(place: _SpanProgress, message: Message, received: _ReceivedRecords, extract: KafkaExtract) -> bool:
    """Add a record that belongs to the span, unless it was added before. Return whether the span is complete."""
    span, offset = place.part.span, message.offset() or 0
    if message.error() is not None:
        return offset >= span.high
    if place.reached <= offset < span.high:
        received.add(_Record(place.part, message, _headers_of(message, extract)))
        place.reached = offset + 1
    return offset >= span.high - 1


def _raise_permanent(error: KafkaError, extract: KafkaExtract, span: OffsetSpan | None, last_error: str) -> str:
    """Raise the error if a retry cannot fix it. Otherwise return the message to report if the read stalls."""
    if error.code() in _LOST_PLACE and span is not None:
        log = extract.cluster.log_of(extract.topic, extract.where)
        if (begins := log.starts.get(span.partition, span.low)) > span.low:
            gone = OffsetSpan(span.partition, span.low, min(begins, span.high))
            raise dropped_records_error(extract.topic, [gone], where=extract.where, is_owned=True)
        return error.str()  # a broker that has just become the partition's leader may not know yet: it is retried
    if error.code() in _DAMAGED:
        raise _damaged_batch_error(extract, error.str())
    # the reason for a timeout is not determined here: this takes seconds, and there may be thousands of errors
    permanent = extract.cluster.translate_permanent_error(error, extract.where, extract.topic)
    if permanent is not None:
        raise permanent
    return last_error or error.str()


def _damaged_batch_error(extract: KafkaExtract, why: str) -> WaterclockError:
    return WaterclockError(
        "E857",
        f"records of {extract.topic} are damaged",
        where=extract.where,
        why=f"{extract.cluster.servers}: {why}",
        fix="it is tried again; if it stays, check the network and the disks of the partition's brokers",
        transient=True,
    )


def _stalled_read_error(
    extract: KafkaExtract, left: Sequence[OffsetSpan], listener: ErrorListener, last_error: str
) -> WaterclockError:
    if listener.refusal is not None:
        return extract.cluster.translate_error(listener.refusal, extract.where, extract.topic)
    last_error = last_error or (listener.last.str() if listener.last else "")
    named = ", ".join(map(str, left[:_MOST_NAMED])) + (", …" if len(left) > _MOST_NAMED else "")
    return WaterclockError(
        "E854",
        "Kafka does not answer",
        where=extract.where,
        why=f"{extract.cluster.servers}: offsets {named} of {extract.topic} were not read completely"
        f"{last_error and f': {last_error}'}",
        fix="it is tried again, and reads the same offsets; check that the brokers of the partition run",
        transient=True,
    )


def _build_batches(records: Sequence[_Record], extract: KafkaExtract) -> Generator[pa.RecordBatch, None, None]:
    """Yield the records as a batch. Avro values make several batches if they are large when decoded."""
    decoder, begin, size = extract.decoder, 0, 0
    values: list[bytes | None] = []
    for at, record in enumerate(records, 1):
        message = record.message
        value = message.value()
        if decoder is not None:
            value = decoder.json_of(value, message.partition() or 0, message.offset() or 0)
            size += len(value or b"")
        values.append(value)
        if size >= MOST_OF_A_BATCH:
            yield _build_batch(records[begin:at], values, extract)
            values, begin, size = [], at, 0
    if values:
        yield _build_batch(records[begin:], values, extract)


def _build_batch(records: Sequence[_Record], values: Sequence[bytes | None], extract: KafkaExtract) -> pa.RecordBatch:
    import pyarrow as pa

    messages = [record.message for record in records]
    labels = {part.label: label_of(part.label) for part in extract.parts}
    columns = [
        [message.key() for message in messages],
        values,
        [_header_values(record.headers) for record in records],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [_microseconds_of(message, extract) for message in messages],
        [_STAMPS[message.timestamp()[0]] for message in messages],
        [labels[record.part.label] for record in records],
    ]
    fields = schema()
    return pa.record_batch([pa.array(it, field.type) for it, field in zip(columns, fields, strict=True)], schema=fields)


def _headers_of(message: Message, extract: KafkaExtract) -> Headers | None:
    """Return the headers of a record; None if they cannot be read.

    For invalid headers, the library returns an incomplete list and also sets an error. Python's optimized calls do not
    notice this error, but `methodcaller` does. So the headers are read through it, and only once.
    """
    try:
        found: Headers | None = methodcaller("headers")(message)
    except (SystemError, UnicodeDecodeError) as error:
        if extract.refuses_odd:
            raise _unreadable_record_error(message, extract, "the key of a header is not UTF-8 text") from error
        return None
    return found


def _header_values(headers: Headers | None) -> list[dict[str, str | bytes | None]] | None:
    return None if headers is None else [{"key": key, "value": value} for key, value in headers]


def _microseconds_of(message: Message, extract: KafkaExtract) -> int | None:
    kind, milliseconds = message.timestamp()
    if not kind:
        return None
    if _FIRST <= milliseconds <= _LAST:
        return milliseconds * 1000
    if extract.refuses_odd:
        why = f"its timestamp of {milliseconds} ms since 1970 is outside of the years 1 to 9999"
        raise _unreadable_record_error(message, extract, why)
    return None


def _unreadable_record_error(message: Message, extract: KafkaExtract, why: str) -> WaterclockError:
    return unreadable(extract.where, extract.topic, message.partition() or 0, message.offset() or 0, why)
