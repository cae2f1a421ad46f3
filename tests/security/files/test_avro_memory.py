"""A small Avro file cannot fill the memory of a runner or a worker with one record, one batch or its header."""

from __future__ import annotations

import gc
import io
import json
import lzma
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tests.security.files.test_hostile_avro import avro, record, rows_of, zigzag
from waterclock.connectors import avro_memory
from waterclock.connectors.avro_memory import cost_of
from waterclock.connectors.files import avro_blocks, avro_reading

MIB = 1 << 20
COUNT = 10_000


def deflate(content: bytes) -> bytes:
    return zlib.compress(content, 9)[2:-4]


def array_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def many(item: bytes, count: int = COUNT) -> bytes:
    return zigzag(count) + item * count + zigzag(0)


SMALL = {"type": "record", "name": "small", "fields": [{"name": "a", "type": "int"}]}
NODE = {"type": "record", "name": "node", "fields": [{"name": "below", "type": array_of("node")}]}
LONG_NAME = {"type": "record", "name": "long", "fields": [{"name": "n" * 10_000, "type": "boolean"}]}
LONG_SYMBOL = {"type": "enum", "name": "e", "symbols": ["s" * 10_000]}
BOMBS = {
    "records": (array_of(SMALL), many(b"\2")),
    "named records": (array_of(["null", SMALL, "boolean"]), many(b"\2\2")),
    "lists": (array_of(array_of("int")), many(b"\0")),
    "maps": ({"type": "map", "values": "boolean"}, zigzag(COUNT) + b"".join(
        zigzag(5) + b"%05x" % at + b"\1" for at in range(COUNT)) + zigzag(0)),
    "texts": (array_of("string"), many(zigzag(2) + b"ab")),
    "numbers": (array_of("long"), many(zigzag(1 << 40))),
    "times": (array_of({"type": "long", "logicalType": "timestamp-micros"}), many(zigzag(1))),
    "decimals": (array_of({"type": "bytes", "logicalType": "decimal", "precision": 9}), many(zigzag(1) + b"\1")),
    "a tree": (NODE, many(b"\0")),
    "long names in JSON": (["null", "int", array_of(LONG_NAME)], zigzag(2) + many(b"\1", 400)),
    "long symbols": (array_of(LONG_SYMBOL), many(b"\0", 400)),
    "long symbols in JSON": (["null", "int", array_of(LONG_SYMBOL)], zigzag(2) + many(b"\0", 400)),
    "control characters in JSON": (["null", "int", "string"], zigzag(2) + zigzag(MIB) + b"\1" * MIB),
    "one wide character": ("string", zigzag(MIB) + b"a" * (MIB - 4) + "😀".encode()),
}  # fmt: skip


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(("kind", "row"), BOMBS.values(), ids=BOMBS)
def test_a_record_is_decoded_only_up_to_the_limit_of_memory(
    kind: Any, row: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a file of 2 kB took 800 MB, and one of 256 kB would have taken 100 GB."""
    monkeypatch.setattr(avro_memory, "MOST_MEMORY", MIB)
    file = avro(record(a=kind), (1, deflate(row)), codec=b"deflate")
    columns = avro_reading.columns_of(file)
    assert tracemalloc.get_traced_memory()[1] < 4 * len(row) + MIB, "a runner decodes no record"
    file.seek(0)
    tracemalloc.reset_peak()
    with pytest.raises(ValueError, match=r"a record of more than \d+ bytes when unpacked"):
        list(avro_reading.reader_of(columns)(file))
    assert tracemalloc.get_traced_memory()[1] < 3 * len(row) + 2 * MIB


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(("kind", "row"), BOMBS.values(), ids=BOMBS)
def test_the_estimated_memory_is_an_upper_bound(kind: Any, row: bytes) -> None:
    file = avro(record(a=kind), (1, row))
    columns = avro_reading.columns_of(file)
    file.seek(0)
    list(avro_reading.reader_of(columns)(file))  # loads all modules
    file.seek(0)
    cost = cost_of(fastavro.block_reader(file).writer_schema)
    file.seek(0)
    gc.collect()
    before, of_arrow = tracemalloc.get_traced_memory()[0], pa.total_allocated_bytes()
    tracemalloc.reset_peak()
    (batch,) = avro_reading.reader_of(columns)(file)
    taken = tracemalloc.get_traced_memory()[1] - before + pa.total_allocated_bytes() - of_arrow
    assert batch.num_rows == 1
    assert taken - 3 * len(row) < cost.memory_of(len(row))  # the block itself
    assert cost.memory_of(len(row)) < 10 * taken + 20 * len(row), "no bound that refuses common files"


@pytest.mark.usefixtures("traced")
def test_a_batch_ends_before_its_records_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: each record has some kilobytes in the file, and all 10,000 of a batch were kept at once."""
    monkeypatch.setattr(avro_reading, "MOST_OF_A_BATCH", 8 * MIB)
    block = deflate(zigzag(MIB) + bytes(MIB))
    file = avro(record(a="bytes"), *[(1, block)] * 40, codec=b"deflate")
    assert len(file.getvalue()) < MIB // 8
    columns = avro_reading.columns_of(file)
    file.seek(0)
    assert sum(batch.num_rows for batch in avro_reading.reader_of(columns)(file)) == 40
    assert tracemalloc.get_traced_memory()[1] < 16 * MIB


def test_records_of_many_columns_make_smaller_batches() -> None:
    schema = record(**{f"c{at}": "null" for at in range(2_000)}, last="boolean")
    file = avro(schema, (900, b"\1" * 900))
    columns = avro_reading.columns_of(file)
    file.seek(0)
    sizes = [batch.num_rows for batch in avro_reading.reader_of(columns)(file)]
    assert sum(sizes) == 900
    assert max(sizes) < 600


@pytest.mark.parametrize("is_recursive", [False, True])
@pytest.mark.parametrize("most", [1 << 16, 1 << 18, 1 << 20])
def test_a_large_block_is_read_in_windows(monkeypatch: pytest.MonkeyPatch, most: int, *, is_recursive: bool) -> None:
    monkeypatch.setattr(avro_memory, "MOST_MEMORY", most)
    rows = [{"a": list(range(at % 37)), "b": "x" * (at % 91), "c": {str(at): 1.5}} for at in range(600)]
    more = {"r": ["null", "r"]} if is_recursive else {}
    schema = record(a=array_of("int"), b="string", c={"type": "map", "values": "double"}, **more)
    file = io.BytesIO()
    fastavro.writer(file, schema, rows, codec="deflate", sync_interval=1 << 24)
    file.seek(0)
    if most < MIB and is_recursive:
        with pytest.raises(ValueError, match="a record of more than"):
            rows_of(file)
        return
    assert [(row["c0"], row["c1"], dict(row["c2"])) for row in rows_of(file)] == [
        (row["a"], row["b"], row["c"]) for row in rows]  # fmt: skip


def test_a_block_that_ends_within_a_record_is_broken_and_not_too_large() -> None:
    with pytest.raises((EOFError, LookupError)):
        rows_of(avro(record(a=array_of("int")), (1, zigzag(9) + b"\2")))


def test_common_records_are_far_below_the_limit() -> None:
    flat = record(**{f"c{at}": ["null", "string"] for at in range(200)})
    assert cost_of(fastavro.parse_schema(flat)).most_bytes > 200 * MIB
    nested = record(items=array_of(record(sku="string", price="double", count="int") | {"name": "item"}))
    assert cost_of(fastavro.parse_schema(nested)).most_bytes > 20 * MIB


@pytest.mark.usefixtures("traced")
def test_checking_a_compressed_block_uses_little_memory() -> None:
    block = deflate(bytes(24 * MIB))
    tracemalloc.reset_peak()
    avro_blocks.check_block(io.BytesIO(zigzag(1) + zigzag(len(block)) + block), "deflate")
    assert tracemalloc.get_traced_memory()[1] < 6 * MIB


@pytest.mark.parametrize("size", [MIB - 1, MIB, MIB + 1, 2 * MIB])
def test_a_block_of_each_size_is_measured(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    content = bytes(size)
    for codec, packed in (("deflate", deflate(content) + b"more"), ("xz", lzma.compress(content))):
        file = io.BytesIO(zigzag(1) + zigzag(len(packed)) + packed)
        monkeypatch.setattr(avro_blocks, "MOST_BYTES", size)
        avro_blocks.check_block(file, codec)
        monkeypatch.setattr(avro_blocks, "MOST_BYTES", size - 1)
        with pytest.raises(ValueError, match="a block of more than"):
            avro_blocks.check_block(file, codec)


def test_a_block_of_xz_cannot_ask_for_a_dictionary_of_any_size() -> None:
    packed = bytearray(lzma.compress(b"\1", lzma.FORMAT_ALONE))
    packed[1:5] = (3 << 30).to_bytes(4, "little")
    with pytest.raises(ValueError, match="Memory usage limit"):
        rows_of(avro(record(a="boolean"), (1, bytes(packed)), codec=b"xz"))


@pytest.mark.usefixtures("traced")
def test_a_header_has_a_bound() -> None:
    schema = json.dumps(record(a="int")).encode()
    entries = [(b"avro.schema", schema), (b"more", bytes(9 * MIB))]
    head = zigzag(len(entries)) + b"".join(zigzag(len(k)) + k + zigzag(len(v)) + v for k, v in entries) + zigzag(0)
    file = io.BytesIO(b"Obj\x01" + head + bytes(16))
    del entries, head
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    with pytest.raises(ValueError, match="its header is longer than 8388608 bytes"):
        avro_reading.columns_of(file)
    assert tracemalloc.get_traced_memory()[1] - before < 9 * MIB
