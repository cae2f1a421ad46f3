"""Topics are collected exactly once: gaps, brokers that die, deleted topics, and unreadable records."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests.kafka import broker, needs_broker
from tests.schema_registry import Registry, serving
from tests.tiny import TOML, Tiny, day, described, labels
from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.connectors.kafka import collection
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEW_YEAR = 1_577_836_800_000
pytestmark = [pytest.mark.spark, needs_broker]


def flow(columns: str, topic: str, options: str = "") -> str:
    said = f"OPTIONS ({options})" if options else ""
    return f"""
CREATE CONNECTION bus TYPE kafka;
COLLECT raw.t PARTITIONED ({columns}) FROM bus.`{topic}` {said} EVERY DAY START '2020-01-01' BY ARRIVAL TIME;
"""


@pytest.fixture
def tiny(tmp_path: Path, spark: SparkSession) -> Tiny:
    return with_bus(Tiny, tmp_path, spark)


def with_bus(make: type[Tiny], folder: Path, spark: SparkSession, more: str = "") -> Tiny:
    return make(folder, spark, toml=f'{TOML}connections.bus = {{{{ servers = "{broker().servers}"{more} }}}}\n')


def refusal(tiny: Tiny, at: int) -> tuple[str, str]:
    outcome = tiny.run(day(at))
    [report] = outcome.failed
    assert report.error is not None
    return report.error.code, report.error.render()


def again(tiny: Tiny, number: int) -> None:
    with tiny.ledger() as ledger:
        ledger.decisions.retry("raw.t", [day(number)], who="ann")


@pytest.mark.soak
def test_labels_own_offsets_though_transactions_leave_gaps(tiny: Tiny) -> None:
    bus = broker()
    topic = bus.topic(partitions=2)
    tiny.declare(flow("*", topic, "format 'raw'"))
    bus.send(
        topic, [(b"k", b"1"), (None, b"\xff\x00")], headers=[("h", b"1"), ("h", None)], timestamp=1_577_836_800_123
    )
    bus.send(topic, [(b"k", b"never")], commits=False)
    bus.send(topic, [(b"k", None)], commits=True, partition=1)
    bus.send(topic, [(b"k", b"never")], commits=False, partition=1)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    bus.send(topic, [(b"k", b"2")], commits=True)
    assert not tiny.run(day(3)).failed
    bus.send(topic, [(b"k", b"never")], commits=False)  # the topic has only an aborted record
    assert not tiny.run(day(4)).failed
    sql = "SELECT timelabel, partition, offset, key, value FROM raw.t ORDER BY partition, offset"
    first, second, third = labels(1, 2, 3)
    assert tiny.rows(sql) == [
        (first, 0, 0, bytearray(b"k"), bytearray(b"1")),
        (first, 0, 1, None, bytearray(b"\xff\x00")),
        (second, 0, 4, bytearray(b"k"), bytearray(b"2")),
        (first, 1, 0, bytearray(b"k"), None),
    ]
    [(headers, stamp, kind)] = tiny.rows(
        "SELECT to_json(headers), date_format(timestamp, 'yyyy-MM-dd HH:mm:ss.SSS'), timestamp_type"
        " FROM raw.t WHERE partition = 0 AND offset = 0"
    )
    assert (json.loads(headers), stamp, kind) == (
        [{"key": "h", "value": "MQ=="}, {"key": "h"}],
        "2020-01-01 00:00:00.123",
        "create",
    )
    assert tiny.done("raw.t") == [first, second, third]


@pytest.mark.soak
def test_whoever_tries_again_reads_the_same_offsets(tiny: Tiny) -> None:
    bus = broker()
    topic = bus.topic()
    tiny.declare(flow("id INT", topic))
    bus.send(topic, [(None, b'{"id": 1}'), (None, b'{"id": 2}')])

    def strike(at: str) -> None:
        if at == "sealed":
            bus.send(topic, [(None, b'{"id": 3}')])
            bus.kill()
            bus.start()
            raise RuntimeError("the machine went away")

    with inject_faults(strike):
        assert tiny.run(day(2)).failed
    again(tiny, 1)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    first, second = labels(1, 2)
    sql = "SELECT timelabel, id FROM raw.t ORDER BY id"
    assert tiny.rows(sql) == [(first, 1), (first, 2), (second, 3)]

    # made again from the same offsets; after their deletion the label keeps its rows
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("raw.t", [day(1)], RECOMPUTE, who="ann")
    assert not tiny.run(day(3)).failed
    bus.delete_before(topic, 0, 1)
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("raw.t", [day(1)], RECOMPUTE, who="ann")
    code, said = refusal(tiny, 3)
    assert (code, "0:0-1" in said) == ("E852", True)
    assert tiny.rows(sql) == [(first, 1), (first, 2), (second, 3)]

    # offsets listed in the collect are skipped, and the remaining records are read
    tiny.declare(flow("id INT", topic, "without '0:0-1'"))
    again(tiny, 1)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert tiny.rows(sql) == [(first, 2), (second, 3)]


def test_lost_offsets_are_reported_and_skipped_only_if_named_in_the_statement(tiny: Tiny) -> None:
    bus = broker()
    topic = bus.topic()
    tiny.declare(flow("id INT", topic))
    bus.send(topic, [(None, b'{"id": 1}')])
    assert not tiny.run(day(2)).failed
    bus.send(topic, [(None, b'{"id": 2}'), (None, b'{"id": 3}')])
    bus.delete_before(topic, 0, 2)
    code, said = refusal(tiny, 3)
    assert (code, "without '0:1-2'" in said) == ("E852", True)
    tiny.declare(flow("id INT", topic, "without '0:1-2'"))
    again(tiny, 2)
    assert not tiny.run(day(3)).failed
    bus.delete_topic(topic)
    bus.topic(topic)
    bus.send(topic, [(None, b'{"id": 4}')])
    code, said = refusal(tiny, 4)
    assert code == "E853"
    without = said.partition("without '")[2].partition("'")[0]
    tiny.declare(flow("id INT", topic, f"without '{without}'"))
    again(tiny, 3)
    assert not tiny.run(day(4)).failed
    assert [row[0] for row in tiny.rows("SELECT id FROM raw.t ORDER BY id")] == [1, 3, 4]
    bus.delete_topic(topic)
    code, said = refusal(tiny, 5)
    assert code == "E856"


def test_records_of_a_topic_that_is_created_again_during_the_read_are_not_committed(tiny: Tiny) -> None:
    bus = broker()
    topic = bus.topic()
    tiny.declare(flow("id INT", topic))
    bus.send(topic, [(None, b'{"id": 1}')])
    assert not tiny.run(day(2)).failed
    bus.send(topic, [(None, b'{"id": 2}')])
    read = collection._read_records

    def replace_topic(*asked: Any) -> Any:
        bus.delete_topic(topic)
        bus.topic(topic)
        bus.send(topic, [(None, b'{"id": 10}'), (None, b'{"id": 20}')])  # 20 has the offset of 2
        return read(*asked)

    with patch.object(collection, "_read_records", replace_topic):
        code, said = refusal(tiny, 3)
    assert code == "E853"
    assert "it was deleted and created again" in said
    assert tiny.rows("SELECT id FROM raw.t") == [(1,)]


def test_json_objects_are_read_into_columns_and_an_invalid_record_is_reported(tiny: Tiny) -> None:
    bus = broker()
    topic = bus.topic()
    tiny.declare(flow("id BIGINT, at TIMESTAMP, of STRUCT<a: INT>, *", topic, "metadata true"))
    bus.send(topic, [(b"k", b'{"id": 1, "at": "2020-01-01T08:00:00Z", "of": {"a": 7}, "note": "n", "tags": [1]}')])
    bus.send(topic, [(b"gone", None)])
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    sql = "SELECT id, of.a, note, tags, CAST(kafka_key AS STRING), kafka_offset FROM raw.t ORDER BY kafka_offset"
    assert tiny.rows(sql) == [(1, 7, "n", "[1]", "k", 0), (None, None, None, None, "gone", 1)]
    assert not tiny.run(day(3)).failed, "a label may be empty"
    bus.send(topic, [(None, b'{"id": 2, "Of": {"a": 8}}')])  # no object needs all fields
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert tiny.rows(sql)[2:] == [(2, 8, None, None, None, 2)]
    bus.send(topic, [(None, b'{"id": 2}'), (None, b"{broken")])
    code, said = refusal(tiny, 5)
    assert (code, "partition 0, offset 4" in said) == ("E857", True)
    bus.send(bus.topic(other := f"{topic}-2"), [(None, b'{"id": "x"}')])
    tiny.declare(flow("id BIGINT", other).replace("raw.t", "raw.u"))
    [report] = tiny.run(day(5)).failed
    assert report.error is not None
    assert "'x'" in report.error.render()


@pytest.mark.soak
def test_many_records_are_read_by_workers(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = broker()
    topic = bus.topic(partitions=3)
    tiny.declare(flow("value", topic, "format 'text'"))
    for part in range(3):
        bus.send(topic, [(None, f"{part}-{at}".encode()) for at in range(300)], partition=part, commits=True)
    monkeypatch.setattr(collection, "DIRECT_ROWS", 10)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT count(*), count(DISTINCT value) FROM raw.t") == [(900, 900)]


SCHEMAS: list[dict[str, Any]] = [
    {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]},
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
    },
]


def test_avro_records_are_read_with_the_newest_schema_of_the_registry(tmp_path: Path, spark: SparkSession) -> None:
    import fastavro

    def encoded(number: int, record: dict[str, Any]) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, SCHEMAS[number - 1], record)
        return struct.pack(">bI", 0, number) + body.getvalue()

    bus = broker()
    topic = bus.topic()
    bus.send(topic, [(None, encoded(1, {"id": 1})), (None, encoded(2, {"id": 2, "note": "n"})), (b"k", None)])
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "registry").write_text("w0rd")
    with serving(Registry(SCHEMAS, login="ann:w0rd")) as registry:
        login = 'registry_user = "ann", registry_password = {{ secret = "registry" }}'
        tiny = with_bus(Tiny, tmp_path, spark, more=f', registry = "{registry.address}", {login}')
        tiny.declare(flow("*", topic, "format 'avro'"))
        outcome = tiny.run(day(2))
        assert not outcome.failed, described(outcome)
        assert tiny.rows("SELECT id, note FROM raw.t ORDER BY id") == [(None, None), (1, None), (2, "n")]
        bus.send(topic, [(None, b"\x01\x00")])
        code, said = refusal(tiny, 3)
        assert (code, "offset 3" in said) == ("E857", True)


def test_a_replica_has_the_keys_values_headers_partitions_times_and_order_of_its_origin(tiny: Tiny) -> None:
    bus = broker()
    origin, replica = bus.topic(partitions=3), bus.topic(partitions=3)
    tiny.declare(
        flow("*", origin, "format 'raw'") + f"PUBLISH raw.t TO bus.`{replica}` OPTIONS (format 'raw', keep 'all');"
    )

    def told(topic: str) -> list[tuple[Any, ...]]:
        return [(m.partition(), m.key(), m.value(), m.headers(), m.timestamp()) for m in bus.read(topic)]

    for number in (1, 2):
        for part in range(3):
            keys = [f"{at % 5}".encode() if at % 3 else None for at in range(99)]
            messages = [(key, f"{at}".encode() if at % 7 else None) for at, key in enumerate(keys)]
            headers = [("h", b"\x00\xff"), ("h", None), ("g", b"")]
            bus.send(origin, messages, partition=part, commits=True, headers=headers, timestamp=NEW_YEAR + part)
        outcome = tiny.run(day(number + 1))
        assert not outcome.failed, described(outcome)
    assert told(replica) == told(origin)
    assert len(told(replica)) == 2 * 3 * 99
