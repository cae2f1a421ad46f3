"""Rows become messages: keys, headers, tombstones, unchanged bytes; and the records of deliveries stay small."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.systems import unit_of
from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.kafka.delivery import PublishRecord
from waterclock.connectors.kafka.messages import SentMessage, resolve_message_format
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Value
from waterclock.flow.enums import Mode

OWN = (("timelabel", b"20200101000000"), ("claim", b"7"))
AT = datetime(2020, 1, 1, 8, tzinfo=UTC)
KINDS = {"id": "string", "at": "timestamp", "n": "int", "raw": "binary", "of": "struct<a:int>"}
ROW: dict[str, Any] = {"id": "a", "at": AT, "n": 3, "raw": b"\xff", "of": {"a": 1}}


def delivery(
    folder: Path, table: pa.Table, kinds: dict[str, str], *, mode: Mode = Mode.APPEND, **more: Any
) -> Delivery:
    pq.write_table(table, folder / "part.parquet")
    files = (folder / "part.parquet",)
    label = "20200101000000"
    return Delivery(
        project="p", publish="a.b", claim=7, label=AT, label_text=label, mode=mode, is_from_partitioned=True,
        columns=tuple(kinds.items()), files=files, **more,
    )  # fmt: skip


def rows(folder: Path, *found: dict[str, Any], **more: Any) -> Delivery:
    fields = [("id", pa.string()), ("at", pa.timestamp("us", "UTC")), ("n", pa.int32()), ("raw", pa.binary())]
    schema = pa.schema([*fields, ("of", pa.struct([("a", pa.int32())])), ("gone", pa.bool_())])
    return delivery(folder, pa.Table.from_pylist(list(found), schema=schema), KINDS, **more)


def sent(of: Delivery, **options: Value) -> list[SentMessage]:
    return list(resolve_message_format(unit_of("bus", "t", **options), of).messages(of))


def test_a_row_becomes_a_json_object_with_a_key_and_headers(tmp_path: Path) -> None:
    [found] = sent(rows(tmp_path, ROW), key="id", headers="n, raw")
    assert found == SentMessage(
        b"a", b'{"id": "a", "at": "2020-01-01 08:00:00Z", "of": {"a": 1}}', (("n", b"3"), ("raw", b"ff"), *OWN)
    )


def test_a_deleted_key_becomes_a_tombstone(tmp_path: Path) -> None:
    gone = {"id": "b", "gone": True}
    of = rows(tmp_path, ROW, gone, mode=Mode.MERGE, keys=("id",), deleted_column="gone")
    first, second = sent(of)
    assert (first.key, first.is_gone) == (b"a", False)
    assert second == SentMessage(b"b", None, OWN, is_gone=True)


def test_a_text_is_one_column(tmp_path: Path) -> None:
    of = rows(tmp_path, ROW)
    [found] = sent(replace(of, columns=(("id", "string"), ("n", "int"))), format="text", key="n")
    assert (found.key, found.value) == (b"3", b"a")
    with pytest.raises(WaterclockError, match="sends one column") as caught:
        sent(of, format="text", key="n")
    assert caught.value.code == "E856"


def test_a_missing_column_is_reported_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(WaterclockError) as caught:
        sent(rows(tmp_path, ROW), key="idd")
    assert (caught.value.code, caught.value.fix) == ("E856", "did you mean id?")
    with pytest.raises(WaterclockError) as caught:
        sent(rows(tmp_path, ROW), format="raw", keep="all")
    assert "no column key" in caught.value.what


def test_raw_messages_are_sent_by_partition_in_offset_order(tmp_path: Path) -> None:
    kinds = {
        "key": "binary", "value": "binary", "headers": "array<struct<key:string,value:binary>>", "partition": "int",
        "offset": "bigint", "timestamp": "timestamp",
    }  # fmt: skip
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    schema = pa.schema(
        [
            ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(header)), ("partition", pa.int32()),
            ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")),
        ]
    )  # fmt: skip
    found = [
        {"key": None, "value": b"2", "headers": None, "partition": 1, "offset": 9, "timestamp": AT},
        {"key": b"k", "value": None, "partition": 1, "offset": 4, "timestamp": AT + timedelta(milliseconds=1)},
        {"key": b"", "value": b"", "headers": [{"key": "h", "value": None}], "partition": 0, "offset": 5},
    ]
    of = delivery(tmp_path, pa.Table.from_pylist(found, schema=schema), kinds)
    assert sent(of, format="raw", keep="all") == [
        SentMessage(b"", b"", (("h", None),), 0, None),
        SentMessage(b"k", None, (), 1, 1_577_865_600_001),
        SentMessage(None, b"2", (), 1, 1_577_865_600_000),
    ]


def test_a_record_keeps_the_newest_claims_and_fits_an_offset(tmp_path: Path) -> None:
    del tmp_path
    records = PublishRecord("id")
    for claim in range(1, 40):
        outcome = DeliveryOutcome.KILLED if claim % 5 == 0 else DeliveryOutcome.DELIVERED
        label = "" if claim % 5 == 0 else f"202001{claim:02d}000000"
        records = records.with_claim(
            Delivered(1_795_434_094_967 + claim, outcome, label, 10**9, 10**9, "replace where")
        )
    text = records.to_text()
    assert len(text) < 4096
    assert PublishRecord.from_offset_metadata(text) == records
    known = records.find(1_795_434_094_967 + 35)
    assert known is not None
    assert known.outcome is DeliveryOutcome.KILLED
    older = records.find(1_795_434_094_967 + 3)
    assert older is not None
    assert older.outcome is DeliveryOutcome.DELIVERED
    assert records.find(1_795_434_094_967 + 99) is None
    assert records.last is not None
    assert records.last.label_text == "20200139000000"


def test_numbers_that_json_cannot_express_are_sent_as_text(tmp_path: Path) -> None:
    table = pa.table({"id": ["a"], "x": [float("nan")], "y": [float("-inf")]})
    (one,) = sent(delivery(tmp_path, table, {"id": "string", "x": "double", "y": "double"}))
    assert one.value == b'{"id": "a", "x": "NaN", "y": "-Infinity"}'
