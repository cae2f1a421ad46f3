"""A small Avro file cannot use unbounded memory or time, or insert text into a schema."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import time
import zlib
from typing import Any

import fastavro
import pytest

from waterclock.connectors.files import avro_blocks, avro_reading

SYNC = b"0123456789abcdef"
ONE = 1 << 40


def zigzag(number: int) -> bytes:
    left, said = (number << 1) ^ (number >> 63), b""
    while left > 0x7F:
        said += bytes([left & 0x7F | 0x80])
        left >>= 7
    return said + bytes([left])


def avro(schema: Any, *blocks: tuple[int, bytes], codec: bytes = b"null") -> io.BytesIO:
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    said = {b"avro.schema": text, b"avro.codec": codec}
    head = zigzag(len(said)) + b"".join(zigzag(len(k)) + k + zigzag(len(v)) + v for k, v in said.items()) + zigzag(0)
    rows = b"".join(zigzag(count) + zigzag(len(body)) + body + SYNC for count, body in blocks)
    return io.BytesIO(b"Obj\x01" + head + SYNC + rows)


def record(**types: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in types.items()]}


def read(file: io.BytesIO) -> int:
    columns = avro_reading.columns_of(file)
    file.seek(0)
    return sum(batch.num_rows for batch in avro_reading.reader_of(columns)(file))


def rows_of(file: io.BytesIO) -> list[dict[str, Any]]:
    columns = avro_reading.columns_of(file)
    file.seek(0)
    return [row for batch in avro_reading.reader_of(columns)(file) for row in batch.to_pylist()]


NOTHING = {"type": "record", "name": "n", "fields": [{"name": "a", "type": "null"}]}


@pytest.mark.parametrize(
    "file",
    [
        avro(record(a="null"), (ONE, b"")),
        avro(record(a="null"), *[(500_000, b"")] * 3),
        avro(record(a={"type": "fixed", "name": "f", "size": 0}), (ONE, b"")),
        avro(record(a={"type": "array", "items": "null"}), (1, zigzag(1 << 33) + zigzag(0))),
        avro(record(a={"type": "array", "items": NOTHING}), (1, zigzag(1 << 33) + zigzag(0))),
        avro(record(b=NOTHING, a={"type": "array", "items": "n"}), (1, zigzag(1 << 33) + zigzag(0))),
        avro(record(a=["null", {"type": "array", "items": "null"}]), (1, zigzag(1) + zigzag(1 << 33) + zigzag(0))),
        avro(record(a={"type": "map", "values": {"type": "array", "items": "null"}}), (1, zigzag(0))),
    ],
)
def test_rows_and_items_without_bytes_are_bounded(file: io.BytesIO) -> None:
    begun = time.process_time()
    with pytest.raises(ValueError, match="without any bytes"):
        read(file)
    assert time.process_time() - begun < 10


GROWN = 4 << 20  # bytes


def deflated(size: int) -> bytes:
    return zlib.compress(bytes(size), 9, -15)


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(avro_blocks, "MOST_BYTES", GROWN - 1)
    return GROWN - 1


@pytest.mark.parametrize(
    ("codec", "block"),
    [
        ("deflate", deflated(GROWN)),
        ("bzip2", bz2.compress(bytes(GROWN))),
        ("xz", lzma.compress(bytes(GROWN))),
        ("snappy", b"\x80\x80\x80\x80\x7f" + b"x"),
        ("lz4", GROWN.to_bytes(4, "little") + b"x"),
    ],
)
def test_a_block_that_unpacks_to_too_much_is_refused_before_it_does(codec: str, block: bytes, most: int) -> None:
    with pytest.raises(ValueError, match=f"a block of more than {most} bytes"):
        read(avro(record(a="null"), (1, block), codec=codec.encode()))


def test_a_second_stream_of_a_block_is_not_unpacked_unseen() -> None:
    with pytest.raises(ValueError, match="bytes after its end"):
        read(avro(record(a="boolean"), (1, bz2.compress(b"\1") * 2), codec=b"bzip2"))


@pytest.mark.parametrize("size", [-1, 1 << 40, avro_blocks.MOST_BYTES + 1])
def test_a_block_of_no_honest_size_is_refused(size: int) -> None:
    file = avro(record(a="boolean"))
    file.seek(0, io.SEEK_END)
    file.write(zigzag(1) + zigzag(size) + b"\1")
    file.seek(0)
    with pytest.raises(ValueError, match=r"no size|a block of more than"):
        read(file)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_blocks_of_each_compression_are_read(codec: str) -> None:
    file = io.BytesIO()
    rows = [{"a": b"abc" * at} for at in range(1_000)]
    fastavro.writer(file, record(a="bytes"), rows, codec=codec, sync_interval=10_000)
    file.seek(0)
    assert read(file) == 1_000


def test_a_few_rows_without_bytes_are_read() -> None:
    assert read(avro(record(a="null"), (1_000, b""))) == 1_000
    assert read(avro(record(a={"type": "array", "items": ["null", "int"]}), (1, zigzag(2) + b"\0\0\0"))) == 1


def test_a_list_of_records_within_itself_is_read() -> None:
    """Trees have such a schema; their leaves have no children."""
    node = {"type": "record", "name": "node", "fields": [
        {"name": "v", "type": "int"}, {"name": "children", "type": {"type": "array", "items": "node"}}]}  # fmt: skip
    leaf = b"\x04" + zigzag(0)
    tree = b"\x02" + zigzag(1) + leaf + zigzag(0)
    assert read(avro(record(a=node), (1, tree))) == 1


LINK = record(next=["null", "r"])


@pytest.mark.parametrize("schema", [LINK, {**LINK, "namespace": "n"}])
def test_values_that_are_too_deep_do_not_overflow_the_stack(schema: dict[str, Any]) -> None:
    assert read(avro(schema, (2, (b"\x02" * 100 + b"\0") * 2))) == 2
    with pytest.raises(ValueError, match="a record that is nested too deep"):
        read(avro(schema, (1, b"\x02" * 200_000 + b"\0")))


def test_a_record_that_never_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="a record that is nested too deep"):
        read(avro(record(a="r"), (1, b"")))


def test_a_schema_cannot_bring_types_that_are_defined_elsewhere() -> None:
    marks = {"__fastavro_parsed": True, "__named_schemas": {"x": record(a="x") | {"name": "x"}}}
    with pytest.raises(ValueError, match="a record that is nested too deep"):
        read(avro({**record(a="x"), **marks}, (1, b"")))


def nest(levels: int) -> dict[str, Any]:
    kind: Any = {"type": "record", "name": "r0", "fields": [{"name": "x", "type": "int"}]}
    for at in range(1, levels):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"r{at - 1}"}]
        kind = {"type": "record", "name": f"r{at}", "fields": fields}
    return record(a=kind)


def test_types_that_name_each_other_twice_are_bounded() -> None:
    assert str(avro_reading.columns_of(avro(nest(6)))[0].type).count("`x`") == 32
    begun = time.process_time()
    with pytest.raises(ValueError, match="more than 10000 types"):
        avro_reading.columns_of(avro(nest(40)))
    assert time.process_time() - begun < 5


def test_a_deep_schema_is_refused() -> None:
    deep = b'{"type":"record","name":"r","fields":[{"name":"a","type":'
    deep += b'{"type":"array","items":' * 20_000 + b'"int"' + b"}" * 20_000 + b"}]}"
    with pytest.raises(ValueError, match="broken"):
        avro_reading.columns_of(avro(deep))


def test_a_long_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than"):
        avro_reading.columns_of(avro({**record(a="int"), "doc": "x" * (5 << 20)}))


def test_a_name_of_a_field_is_quoted() -> None:
    inner = {"type": "record", "name": "q", "fields": [{"name": "x`: INT, y: STRUCT<`z", "type": "int"}]}
    try:
        (column,) = avro_reading.columns_of(avro(record(a=inner), (1, zigzag(1))))
    except ValueError:
        return  # newer versions of the library refuse such names
    assert column.type == "STRUCT<`x``: INT, y: STRUCT<``z`: INT>"


@pytest.mark.parametrize(
    "more", [{"precision": "9,2) COMMENT 'x"}, {"precision": 9, "scale": "2"}, {"precision": True}]
)
def test_a_decimal_has_whole_numbers(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"broken|integer"):
        avro_reading.columns_of(avro(record(a={"type": "bytes", "logicalType": "decimal", **more})))


def empty(levels: int) -> dict[str, Any]:
    kind: Any = {"type": "record", "name": "r0", "fields": []}
    for at in range(1, levels):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"r{at - 1}"}]
        kind = {"type": "record", "name": f"r{at}", "fields": fields}
    return record(b="boolean", a=kind)


def test_a_short_row_cannot_become_any_number_of_values() -> None:
    assert read(avro(empty(8), (1, b"\1"))) == 1
    begun = time.process_time()
    with pytest.raises(ValueError, match="more than 10000 values without any bytes"):
        avro_reading.columns_of(avro(empty(40), (1, b"\1")))
    assert time.process_time() - begun < 5


def decimal(precision: Any, scale: int = 0) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def number(unscaled: int, padding: int = 0) -> bytes:
    raw = unscaled.to_bytes((unscaled.bit_length() + 8) // 8 + padding, "big", signed=True)
    return zigzag(len(raw)) + raw


SMALL = decimal(5, 2)
FIXED = {**SMALL, "type": "fixed", "name": "f", "size": 8}


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (SMALL, number(1234567)),
        (SMALL, number(100_000)),
        (SMALL, number(-100_000)),
        (FIXED, number(1234567, 5)[1:]),
        (["null", SMALL, "string"], zigzag(1) + number(1234567)),
        ({"type": "array", "items": ["null", SMALL, "string"]}, zigzag(1) + zigzag(1) + number(1234567) + zigzag(0)),
        ({"type": "map", "values": ["null", FIXED]}, zigzag(1) + zigzag(0) + zigzag(1) + b"\1" + bytes(7) + zigzag(0)),
        (decimal(50), number(10**50)),
    ],
)
def test_a_decimal_beyond_its_precision_is_refused_and_not_rounded(kind: Any, row: bytes) -> None:
    with pytest.raises(ValueError, match="a decimal has more digits than its precision of"):
        rows_of(avro(record(a=kind), (1, row)))
    with pytest.raises(ValueError, match="a decimal has more digits than its precision of"):
        rows_of(avro({**record(a=kind, r=["null", "r"])}, (1, row + zigzag(0))))


def test_decimals_up_to_their_precision_are_read_exactly() -> None:
    schema = record(a=SMALL, b=FIXED, c="f", d=["null", SMALL, "string"], e=decimal(50, 2))
    row = number(-99_999) + number(99_999, 5)[1:] + number(-1, 7)[1:] + zigzag(1) + number(7, 3_000) + number(10**49)
    (found,) = rows_of(avro(schema, (1, row)))
    assert [str(found[f"c{at}"]) for at in range(5)] == ["-999.99", "999.99", "-0.01", "0.07", "1" + "0" * 47 + ".00"]
    assert [column.type for column in avro_reading.columns_of(avro(schema))] == [
        "DECIMAL(5,2)", "DECIMAL(5,2)", "STRING", "STRING", "STRING"]  # fmt: skip


@pytest.mark.parametrize("precision", [38, 3_000_000, 10**30])
def test_a_decimal_of_many_bytes_is_refused_quickly(precision: int) -> None:
    begun = time.process_time()
    with pytest.raises(ValueError, match="a decimal has more digits than its precision of"):
        rows_of(avro(record(a=decimal(precision)), (1, zigzag(1_000_000) + b"\x7f" * 1_000_000)))
    assert time.process_time() - begun < 2


def test_a_schema_cannot_declare_the_type_of_checked_decimals() -> None:
    kind = {**decimal(-5, -3), "logicalType": "waterclock-decimal"}
    assert rows_of(avro(record(a=kind), (1, number(1)))) == [{"c0": b"\1", "_waterclock_number": 1}]


def test_a_decimal_without_a_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="the precision or the scale of a decimal is not an integer"):
        avro_reading.columns_of(avro(record(a={"type": "bytes", "logicalType": "decimal"})))
