"""Avro becomes JSON: wire format, older schemas, types, and bytes that are not Avro."""

from __future__ import annotations

import io
import json
import pickle
import struct
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from time import process_time
from typing import Any

import fastavro
import pytest

from tests.certificates import Authority
from tests.schema_registry import Registry, serving
from waterclock.connectors.kafka import avro
from waterclock.connectors.kafka.avro import Decoder, decoder_of
from waterclock.errors import WaterclockError

WORD = "Pass'w0rd/+%ä"
OLD: dict[str, Any] = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
NEW: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}], "default": None},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
         "default": None},
        {"name": "raw", "type": ["null", "bytes"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}  # fmt: skip


def encoded(schema: dict[str, Any], record: dict[str, Any], number: int | None = None) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, json.loads(json.dumps(schema)), record)
    return (b"" if number is None else struct.pack(">bI", 0, number)) + body.getvalue()


@pytest.fixture
def decoder(monkeypatch: pytest.MonkeyPatch) -> Decoder:
    def asked(registry: dict[str, str], path: str, where: str) -> dict[str, str]:
        del registry, where
        return {"schema": json.dumps({"/schemas/ids/1": OLD, "/schemas/ids/2": NEW}.get(path, NEW))}

    monkeypatch.setattr(avro, "_request_registry", asked)
    return decoder_of("orders", "bus.orders", {"registry": "http://registry"}, None)


def test_values_are_decoded_with_the_newest_schema(decoder: Decoder) -> None:
    at = datetime(2020, 1, 1, 8, tzinfo=UTC)
    record = {"id": 2, "at": at, "price": Decimal("1.50"), "raw": b"\xff", "tags": ["a"]}
    for each in (decoder, pickle.loads(pickle.dumps(decoder))):
        older, newer = each.json_of(encoded(OLD, {"id": 1}, 1), 0, 0), each.json_of(encoded(NEW, record, 2), 0, 1)
        assert json.loads(older or b"") == {"id": 1, "at": None, "price": None, "raw": None, "tags": []}
        told = {"id": 2, "at": "2020-01-01T08:00:00+00:00", "price": "1.50", "raw": "/w==", "tags": ["a"]}
        assert json.loads(newer or b"") == told
    assert decoder.json_of(None, 0, 2) is None
    assert decoder.columns() == {
        "id": "BIGINT", "at": "TIMESTAMP", "price": "DECIMAL(9, 2)", "raw": "BINARY", "tags": "STRING",
    }  # fmt: skip


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x01\x00\x00\x00\x02\x02", b"\x00\x00\x00\x00\x02"])
def test_bytes_that_are_not_avro_are_reported_with_partition_and_offset(decoder: Decoder, value: bytes) -> None:
    with pytest.raises(WaterclockError) as caught:
        decoder.json_of(value, 3, 41)
    assert caught.value.code == "E857"
    assert "partition 3, offset 41" in str(caught.value.why)


def _of_items(*fields: dict[str, Any]) -> dict[str, Any]:
    item = {"type": "record", "name": "item", "fields": list(fields)}
    return {"type": "record", "name": "r", "fields": [{"name": "items", "type": {"type": "array", "items": item}}]}


@pytest.mark.parametrize("by", ["values without bytes", "defaults of the reader"])
def test_a_small_record_that_would_fill_the_memory_is_not_decoded(monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    one = {"name": "a", "type": "boolean"}
    if by == "defaults of the reader":
        writer = _of_items(one)
        reader = _of_items(one, {"name": "b", "type": "string", "default": "x" * 10_000})
    else:
        writer = reader = _of_items(one, *({"name": f"n{number}", "type": "null"} for number in range(60)))
    answers = {"/schemas/ids/1": writer}
    monkeypatch.setattr(
        avro, "_request_registry", lambda _, path, __: {"schema": json.dumps(answers.get(path, reader))}
    )
    monkeypatch.setattr(avro, "MOST_MEMORY", 1 << 20)
    decoder = decoder_of("orders", "bus.orders", {"registry": "http://registry"}, None)
    few, many = ({"items": [{"a": True, **{f"n{at}": None for at in range(60)}}] * count} for count in (2, 500))
    assert json.loads(decoder.json_of(encoded(writer, few, 1), 0, 0) or b"")["items"][1]["a"] is True
    assert len(encoded(writer, many, 1)) < 600
    with pytest.raises(WaterclockError, match="GiB of memory") as refused:
        decoder.json_of(encoded(writer, many, 1), 3, 41)
    assert refused.value.code == "E857"
    assert "partition 3, offset 41" in str(refused.value.why)


HOSTILE = "0)) IS NOT NULL OR raise_error('injected') <=> CAST(1 AS DECIMAL(1, 0"


@pytest.mark.parametrize(
    "schema",
    [
        {**OLD, "fields": [{"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10,
                                                 "scale": HOSTILE}}]},
        {**OLD, "fields": [{"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": HOSTILE,
                                                 "scale": 0}}]},
        {**OLD, "fields": [{"name": "d", "type": "no type"}]}, {**OLD, "fields": 3}, 5, [], {"type": "record"},
    ],
)  # fmt: skip
def test_an_invalid_schema_is_refused_and_never_used_in_a_query(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, schema: Any
) -> None:
    monkeypatch.setattr(avro, "_request_registry", lambda *_: {"schema": json.dumps(schema)})
    file = tmp_path / "schema.avsc"
    file.write_text(json.dumps(schema), encoding="utf-8")
    for registry, path in (({"registry": "http://registry"}, None), ({}, file)):
        with pytest.raises(WaterclockError) as refused:
            decoder_of("orders", "bus.orders", registry, path)
        assert refused.value.code == "E857"


@pytest.mark.parametrize(("precision", "scale"), [(9, True), (True, 0), (HOSTILE, 0), (9, HOSTILE), (9, 10), (9, -1)])
def test_a_decimal_s_type_has_whole_numbers_only(precision: Any, scale: Any) -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    fields = [{"name": "d", "type": kind}, {"name": "e", "type": {**kind, "precision": 9, "scale": 2}}]
    columns = Decoder("orders", "bus.orders", json.dumps({**OLD, "fields": fields})).columns()
    assert columns == {"d": "STRING", "e": "DECIMAL(9, 2)"}


def test_an_invalid_writer_schema_is_an_error_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(_registry: Any, path: str, _where: str) -> dict[str, str]:
        return {"schema": json.dumps({"type": "record"} if path == "/schemas/ids/7" else NEW)}

    monkeypatch.setattr(avro, "_request_registry", asked)
    decoder = decoder_of("orders", "bus.orders", {"registry": "http://registry"}, None)
    with pytest.raises(WaterclockError, match="a record of orders cannot be read") as refused:
        decoder.json_of(encoded(OLD, {"id": 1}, 7), 0, 0)
    assert refused.value.code == "E857"


LINK = {"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}
ENDLESS = {**LINK, "fields": [{"name": "next", "type": "r"}]}
FOREIGN = {**OLD, "__fastavro_parsed": True, "__named_schemas": {"long": ENDLESS, "r": ENDLESS}}


@pytest.mark.parametrize(
    ("written", "read", "value"),
    [
        (LINK, LINK, b"\x02" * 1_500 + b"\0"),
        (LINK, LINK, b"\x02" * 200_000 + b"\0"),
        (LINK, {**OLD, "fields": []}, b"\x02" * 200_000 + b"\0"),
        (ENDLESS, ENDLESS, b""),
        ({**FOREIGN, "fields": ENDLESS["fields"]}, OLD, b""),
    ],
)
def test_a_value_that_is_too_deep_does_not_overflow_the_stack(
    monkeypatch: pytest.MonkeyPatch, written: Any, read: Any, value: bytes
) -> None:
    def asked(_registry: Any, path: str, _where: str) -> dict[str, str]:
        return {"schema": json.dumps(written if path == "/schemas/ids/7" else read)}

    monkeypatch.setattr(avro, "_request_registry", asked)
    decoder = decoder_of("orders", "bus.orders", {"registry": "http://registry"}, None)
    with pytest.raises(WaterclockError, match="a record of orders cannot be read") as refused:
        decoder.json_of(struct.pack(">bI", 0, 7) + value, 3, 41)
    assert refused.value.why == "partition 3, offset 41: it is nested too deep"


def test_a_value_of_a_type_that_contains_itself_is_read() -> None:
    decoder = Decoder("orders", "bus.orders", json.dumps(LINK))
    assert decoder.json_of(b"\x02" * 2 + b"\0", 0, 0) == b'{"next": {"next": {"next": null}}}'


def test_a_schema_cannot_pass_itself_off_as_parsed() -> None:
    decoder = Decoder("orders", "bus.orders", json.dumps(FOREIGN))
    assert decoder.json_of(b"\x02", 0, 0) == b'{"id": 1}'


def test_a_schema_from_a_file_decodes_values_without_a_wire_header(tmp_path: Path) -> None:
    (tmp_path / "r.avsc").write_text(json.dumps(OLD))
    decoder = decoder_of("orders", "bus.orders", {}, tmp_path / "r.avsc")
    assert decoder.json_of(encoded(OLD, {"id": 7}), 0, 0) == b'{"id": 7}'
    for file in (tmp_path / "none.avsc", None):
        with pytest.raises(WaterclockError) as caught:
            decoder_of("orders", "bus.orders", {}, file)
        assert caught.value.code == "E857"


def test_an_unreachable_registry_is_a_transient_error_that_hides_the_password() -> None:
    registry = {"registry": "http://127.0.0.1:9", "registry_user": "u", "registry_password": "s3cret"}
    with pytest.raises(WaterclockError) as caught:
        decoder_of("orders", "bus.orders", registry, None)
    assert caught.value.transient
    assert "s3cret" not in caught.value.render()
    assert "s3cret" not in repr(Decoder("orders", "w", "{}", registry))


NUMBERS: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "x", "type": "double"},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "long", "type": {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}},
    ],
}


def test_values_without_a_json_equivalent_are_decoded_as_text() -> None:
    read = Decoder("orders", "w", json.dumps(NUMBERS))
    record = {"x": float("nan"), "local": datetime(2026, 1, 1, 8), "clock": time(1, 2), "long": Decimal("1.50")}  # noqa: DTZ001 - it has no zone
    told = {"x": "NaN", "local": "2026-01-01T08:00:00", "clock": "01:02:00", "long": "1.50"}
    assert json.loads(read.json_of(encoded(NUMBERS, record), 0, 0) or b"", parse_constant=pytest.fail) == told
    assert read.columns() == {"x": "DOUBLE", "local": "TIMESTAMP_NTZ", "clock": "STRING", "long": "STRING"}


def test_a_registry_that_requires_a_login_receives_it_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with serving(Registry([OLD, NEW], login=f"ann:{WORD}"), authority.pair("registry")) as registry:
        said = {"registry": registry.address, "registry_user": "ann", "registry_password": WORD}
        trusting = {**said, "registry_ca": str(authority.certificate)}
        found = decoder_of("orders", "bus.orders", trusting, None)
        assert json.loads(found.json_of(encoded(OLD, {"id": 1}, 1), 0, 0) or b"")["id"] == 1
        refused = {}
        for name, wrong in {"ca": said, "word": {**trusting, "registry_password": "other"}}.items():
            with pytest.raises(WaterclockError) as caught:
                decoder_of("orders", "bus.orders", wrong, None)
            refused[name] = caught.value
        assert (refused["ca"].code, refused["ca"].transient) == ("E857", False)
        assert "registry_ca" in str(refused["ca"].fix)
        assert (refused["word"].code, refused["word"].transient) == ("E857", True)
        assert "check registry_user and registry_password" in str(refused["word"].fix)
        assert WORD not in "".join(error.render() for error in refused.values())


def test_a_registry_login_is_not_sent_to_another_host_on_a_redirect() -> None:
    with serving(Registry([OLD])) as other, serving(Registry([OLD], leads_to=other.address)) as registry:
        said = {"registry": registry.address, "registry_user": "ann", "registry_password": WORD}
        with pytest.raises(WaterclockError) as caught:
            decoder_of("orders", "bus.orders", said, None)
    assert (caught.value.code, "302" in str(caught.value.why)) == ("E857", True)
    assert (len(registry.heard), other.heard) == (1, [])


def one(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}


def decimal(precision: int, scale: int, **more: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale, **more}


FIXED = decimal(5, 2, type="fixed", name="f", size=4)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (decimal(5, 2), b"\x06\x12\xd6\x87"),
        (decimal(5, 2), b"\x06\xed\x29\x79"),
        (FIXED, b"\0\x12\xd6\x87"),
        (["null", decimal(5, 2), "string"], b"\x02\x06\x12\xd6\x87"),
        ({"type": "map", "values": ["null", FIXED]}, b"\x02\0\x02\0\x12\xd6\x87\0"),
        (decimal(38, 2), b"\x80\x89\x7a" + b"\x7f" * 1_000_000),
        (decimal(3_000_000, 2), b"\x80\x89\x7a" + b"\x7f" * 1_000_000),
        (decimal(10**30, 10**30), b"\x02\x01"),
    ],
)
def test_a_decimal_that_does_not_fit_its_type_is_an_error_of_the_record(kind: Any, value: bytes) -> None:
    begun = process_time()
    with pytest.raises(WaterclockError) as refused:
        Decoder("orders", "bus.orders", json.dumps(one(kind))).json_of(value, 3, 41)
    assert (refused.value.code, process_time() - begun < 2) == ("E857", True)
    assert str(refused.value.why).startswith("partition 3, offset 41: not Avro of its schema: ")


@pytest.mark.parametrize(
    ("text", "read_as", "told"),
    [
        ("12.3400", decimal(4, 2), "12.3400"),
        ("12.3400", ["null", decimal(6, 4)], "12.3400"),
        ("12.3400", "bytes", "12.3400"),
        ("12.3456", decimal(6, 2), None),
        ("12.3400", decimal(3, 2), None),
        ("12.3400", ["null", decimal(3, 1)], None),
        ("0", decimal(1, 0), "0.0000"),
    ],
)
def test_a_decimal_is_never_rounded_to_the_schema_that_reads_it(
    monkeypatch: pytest.MonkeyPatch, text: str, read_as: Any, told: str | None
) -> None:
    written = one(decimal(6, 4))
    monkeypatch.setattr(
        avro,
        "_request_registry",
        lambda _, path, __: {"schema": json.dumps(written if "/ids/" in path else one(read_as))},
    )
    decoder = decoder_of("orders", "bus.orders", {"registry": "http://registry"}, None)
    value = encoded(written, {"a": Decimal(text)}, 7)
    if told is None:
        with pytest.raises(WaterclockError, match="E857"):
            decoder.json_of(value, 0, 0)
    else:
        assert json.loads(decoder.json_of(value, 0, 0) or b"") == {"a": told}


def nest(levels: int) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": "record", "name": "r0", "fields": []}
    for at in range(1, levels):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"r{at - 1}"}]
        kind = {"type": "record", "name": f"r{at}", "fields": fields}
    return kind


EMPTY = {"type": "record", "name": "n", "fields": []}


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": EMPTY},
        {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}},
        {"type": "array", "items": ["null", nest(26)]},
        nest(26),
    ],
)
def test_a_short_value_cannot_become_any_number_of_values(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    def asked(_registry: Any, path: str, _where: str) -> dict[str, str]:
        return {"schema": json.dumps(one(kind) if path == "/schemas/ids/7" else {**OLD, "fields": []})}

    monkeypatch.setattr(avro, "_request_registry", asked)
    decoder = decoder_of("orders", "bus.orders", {"registry": "http://registry"}, None)
    for schema in (decoder, Decoder("orders", "bus.orders", json.dumps(one(kind)))):
        value = struct.pack(">bI", 0, 7) if schema is decoder else b""
        with pytest.raises(WaterclockError, match="E857") as refused:
            schema.json_of(value + b"\x80\x80\x80\x80\x80\x01\0", 3, 41)
        assert "without any bytes" in str(refused.value.why)


def test_a_list_of_alternatives_without_bytes_is_read() -> None:
    read = Decoder("orders", "bus.orders", json.dumps(one({"type": "array", "items": ["null", EMPTY]})))
    assert read.json_of(b"\x04\0\x02\0", 0, 0) == b'{"a": [null, {}]}'


@pytest.mark.parametrize("error", [MemoryError, ZeroDivisionError])
def test_a_value_that_exhausts_memory_is_an_error_of_the_record(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(avro, "without_nan", fail)
    with pytest.raises(WaterclockError, match="E857"):
        Decoder("orders", "bus.orders", json.dumps(OLD)).json_of(b"\2", 3, 41)


def test_only_the_schemas_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(_registry: Any, path: str, _where: str) -> dict[str, str]:
        asked.append(path)
        return {"schema": json.dumps(OLD)}

    monkeypatch.setattr(avro, "_request_registry", answer)
    monkeypatch.setattr(avro, "_MOST_SCHEMAS", 2)
    read = Decoder("orders", "bus.orders", json.dumps(OLD), {"registry": "http://registry"})
    for number in (1, 2, 1, 3, 1, 2):
        read.json_of(encoded(OLD, {"id": 1}, number), 0, 0)
        assert len(read.known) <= 2
    assert [int(path.rpartition("/")[2]) for path in asked] == [1, 2, 3, 2]
