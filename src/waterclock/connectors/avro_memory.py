"""Limits the memory of decoded Avro records. A byte of a record may become hundreds of bytes of Python objects.

The memory is estimated from the schema and the size of a record. The estimates are upper bounds: they include the copy
of a value for Arrow, and the JSON text of a nested value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST_MEMORY = 3 << 30
"""The maximum estimated memory of a record in bytes. It equals the memory limit of a workbook."""
MOST_OF_A_BATCH = 256 << 20
"""The memory of decoded records in bytes at which a batch ends."""
_END = object()


@dataclass(frozen=True, slots=True)
class MemoryCost:
    """The memory of a decoded value: `base` bytes for an encoding of `least` bytes, and `per_byte` for each further."""

    least: int
    base: int
    per_byte: int = 0

    def memory_of(self, size: int) -> int:
        """Return the memory of a value whose encoding has `size` bytes."""
        return self.base + self.per_byte * max(0, size - self.least)

    @property
    def most_bytes(self) -> int:
        """The maximum size of an encoded value, so that it takes at most `MOST_MEMORY`."""
        if self.base > MOST_MEMORY:
            return MOST_MEMORY * self.least // self.base
        return self.least + (MOST_MEMORY - self.base) // max(1, self.per_byte)


_COPIES = 4
_LIST, _ITEM = 160, 24
_DICT, _ENTRY, _PAIR = 400, 200, 80
_LOGICAL = MemoryCost(0, 240)
_TEXT = MemoryCost(1, 80, 12)  # four bytes for a character, and the escapes of JSON
_PLAIN = {
    "null": MemoryCost(0, 8),
    "boolean": MemoryCost(1, 8),
    "int": MemoryCost(1, 64),
    "long": MemoryCost(1, 64),
    "float": MemoryCost(4, 64),
    "double": MemoryCost(8, 64),
    "bytes": MemoryCost(1, 64, 4),
    "string": _TEXT,
}


def cost_of(schema: Any, added: int = 0) -> MemoryCost:
    """Return how much memory a decoded value of an Avro type takes, by the size of its encoding.

    `added` is the memory that the schema of the reader adds to each record. Call `least_size` first: it refuses arrays
    of items without bytes, which have no bound.
    """
    return _Costs(added).cost_of(schema)


def memory_of_defaults(schema: Any) -> int:
    """Return the memory that the fields with a default in a reader's schema add at most to one record."""
    if isinstance(schema, list):
        return max(map(memory_of_defaults, schema), default=0)
    if not isinstance(schema, Mapping):
        return 0
    fields = schema.get("fields", ())
    own = sum(
        _ENTRY + _COPIES * len(json.dumps([field["name"], field["default"]], default=str))
        for field in fields
        if "default" in field
    )
    inner = [*(field["type"] for field in fields), schema.get("items"), schema.get("values"), schema.get("type")]
    return max(own, *map(memory_of_defaults, inner))


class _Costs:
    """The costs of the named types of a schema. `_used_within` are types that are used in their own definition."""

    def __init__(self, added: int) -> None:
        self._added = added
        self._known: dict[str, MemoryCost] = {}
        self._open: set[str] = set()
        self._used_within: set[str] = set()

    def cost_of(self, schema: Any) -> MemoryCost:
        if isinstance(schema, list):
            return _cost_of_union([self.cost_of(each) for each in schema])
        if not isinstance(schema, Mapping):
            name = str(schema)
            if name in self._open:
                self._used_within.add(name)
            return self._known.get(name) or _PLAIN.get(name, _TEXT)
        cost = self._cost_without_logical_type(schema)
        return _add(cost, _LOGICAL) if "logicalType" in schema else cost

    def _cost_without_logical_type(self, schema: Mapping[str, Any]) -> MemoryCost:
        kind = schema["type"]
        if kind == "array":
            item = self.cost_of(schema["items"])
            return MemoryCost(1, _LIST, max(item.per_byte, _divide_up(_ITEM + item.base, item.least)))
        if kind == "map":
            item = _add(self.cost_of(schema["values"]), MemoryCost(1, _ENTRY + _PAIR + _TEXT.base, _TEXT.per_byte))
            return MemoryCost(1, _DICT, max(item.per_byte, _divide_up(item.base, item.least)))
        if kind in ("record", "error"):
            return self._cost_of_record(schema)
        if kind == "enum":
            longest = max((len(json.dumps(symbol)) for symbol in schema["symbols"]), default=0)
            cost = MemoryCost(1, 64 + _COPIES * longest)
        elif kind == "fixed":
            cost = MemoryCost(int(schema["size"]), 64 + _COPIES * int(schema["size"]))
        else:
            return self.cost_of(kind)
        self._known[str(schema.get("name"))] = cost
        return cost

    def _cost_of_record(self, schema: Mapping[str, Any]) -> MemoryCost:
        name = str(schema.get("name"))
        self._known[name] = MemoryCost(1, 0)  # within itself, it follows a byte of a union, an array or a map
        self._open.add(name)
        cost = MemoryCost(0, _DICT + self._added)
        for field in schema["fields"]:
            entry = MemoryCost(0, _ENTRY + _COPIES * len(json.dumps(field["name"])))
            cost = _add(_add(cost, entry), self.cost_of(field["type"]))
        self._open.discard(name)
        if name in self._used_within:
            cost = MemoryCost(cost.least, cost.base, cost.per_byte + cost.base)
        self._known[name] = cost
        return cost


def _add(one: MemoryCost, other: MemoryCost) -> MemoryCost:
    return MemoryCost(one.least + other.least, one.base + other.base, max(one.per_byte, other.per_byte))


def _cost_of_union(branches: list[MemoryCost]) -> MemoryCost:
    return MemoryCost(
        1 + min((each.least for each in branches), default=0),
        max((each.base for each in branches), default=0),
        max((each.per_byte for each in branches), default=0),
    )


def _divide_up(number: int, by: int) -> int:
    return -(-number // max(1, by))


def records_in(block: Any, cost: MemoryCost) -> Iterator[tuple[Any, int]]:
    """Yield the records of a fastavro block, each with its estimated memory.

    A large block is passed to fastavro in windows, so that it never decodes more than a part of a too large record.
    Raises ValueError for a record that may take more than `MOST_MEMORY`.
    """
    content, most = block.bytes_, cost.most_bytes
    step = most // 4 + 1
    with content.getbuffer() as view:
        is_large = view.nbytes > most + step
    whole = content.getvalue() if is_large else b""
    begin = before = 0
    if is_large:
        _replace_content(content, whole[: most + step])
    records = iter(block)
    while True:
        try:
            record = next(records, _END)
        except (EOFError, LookupError) as error:
            if begin + most + step < len(whole):
                raise _too_large(most) from error
            raise
        if record is _END:
            return
        at = content.tell()
        if at - before > most:
            raise _too_large(most)
        yield record, cost.memory_of(at - before)
        del record
        if is_large and at >= step:
            begin, at = begin + at, 0
            _replace_content(content, whole[begin : begin + most + step])
        before = at


def _replace_content(content: Any, data: bytes) -> None:
    content.seek(0)
    content.truncate()
    content.write(data)
    content.seek(0)


def _too_large(most: int) -> ValueError:
    return ValueError(
        f"it has a record of more than {most} bytes when unpacked, which may take more than {MOST_MEMORY >> 30} GiB of "
        "memory; a record must fit into memory"
    )
