"""Builds the messages of a delivery from its rows, in the order of the slice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivery
from waterclock.connectors.slice_rows import batches_of, deliverable_batches_of, to_portable_types, without_nan
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit
from waterclock.flow.enums import Mode
from waterclock.similar_names import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

LABEL, CLAIM, ENDS = "timelabel", "claim", "ends"
_RAW = ("key", "value")
_KEPT = ("key", "value", "headers", "partition", "offset", "timestamp")
Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A Kafka message to send. A `value` of None is a tombstone.

    Without `partition`, the key determines the partition. Without `milliseconds`, the broker sets the timestamp.
    `is_gone`: the row was deleted.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    milliseconds: int | None = None
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """Converts the rows of a publish to messages."""

    kind: str
    key: tuple[str, ...]
    headers: tuple[str, ...]
    keeps_all: bool
    mode: Mode
    columns: Mapping[str, str]

    def messages(self, delivery: Delivery) -> Iterator[SentMessage]:
        """Yield the messages of a delivery. Cost: one pass over its files, in bounded memory."""
        own = () if self.keeps_all else _own_headers(delivery)
        marks = [delivery.deleted_column] if delivery.deleted_column else []
        names = [*self.columns, *marks]
        files = _batches_by_offset(delivery) if self.keeps_all else deliverable_batches_of(delivery.files, names)
        for batch in files:
            gone = batch[delivery.deleted_column].to_pylist() if marks else [False] * batch.num_rows
            rows = _row_values(batch, self.columns, is_raw=self.kind == "raw")
            for row, is_gone in zip(rows, gone, strict=True):
                yield self._build_message(row, own, is_gone=bool(is_gone))

    def _build_message(self, row: Mapping[str, Any], own: tuple[Header, ...], *, is_gone: bool) -> SentMessage:
        if self.kind == "raw":
            headers = tuple((one["key"], one["value"]) for one in row.get("headers") or ())
            if not self.keeps_all:
                return SentMessage(row["key"], None if is_gone else row["value"], (*headers, *own), is_gone=is_gone)
            at = row["timestamp"]
            stamp = None if at is None else round(at.timestamp() * 1000)
            return SentMessage(row["key"], row["value"], headers, row["partition"], stamp)
        headers = tuple((name, _to_bytes(row[name])) for name in self.headers)
        key = self._key_of(row)
        if is_gone:
            return SentMessage(key, None, (*headers, *own), is_gone=True)
        if self.kind == "text":
            name = next(name for name in self.columns if name not in {*self.key, *self.headers})
            return SentMessage(key, _to_bytes(row[name]), (*headers, *own))
        shown = {name: value for name, value in row.items() if name not in self.headers}
        return SentMessage(
            key, json.dumps(without_nan(shown), ensure_ascii=False, default=str).encode(), (*headers, *own)
        )

    def _key_of(self, row: Mapping[str, Any]) -> bytes | None:
        if not self.key:
            return None
        if len(self.key) == 1:
            return _to_bytes(row[self.key[0]])
        return json.dumps({name: row[name] for name in self.key}, ensure_ascii=False, default=str).encode()


def end_markers(delivery: Delivery, arrived: Mapping[int, int]) -> Iterator[SentMessage]:
    """Yield a message for each partition that marks the end of a label there.

    `arrived` has the number of the label's records by partition.
    """
    for part, count in sorted(arrived.items()):
        headers = (*_own_headers(delivery), (ENDS, str(count).encode()))
        yield SentMessage(delivery.label_text.encode(), None, headers, part)


def resolve_message_format(unit: Unit, delivery: Delivery) -> MessageFormat:
    """Build the message format of a delivery from the unit's options and the columns.

    Raises E856 for missing columns, and for columns that do not fit the format.
    """
    columns = dict(delivery.columns)
    kind = str(unit.options.get("format", "json"))
    keeps_all = unit.options.get("keep") == "all"
    key = _split_names(unit.options.get("key")) or delivery.keys
    headers = _split_names(unit.options.get("headers"))
    wanted = (*(_KEPT if keeps_all else _RAW),) if kind == "raw" or keeps_all else (*key, *headers)
    for name in wanted:
        if name not in columns:
            raise _missing_column_error(unit, name, columns)
    if keeps_all and kind != "raw":
        raise _unsendable_error(unit, "keep 'all' sends records as they were collected", "add format 'raw'")
    bodies = [name for name in columns if name not in {*key, *headers}]
    if kind == "text" and len(bodies) != 1:
        raise _unsendable_error(
            unit,
            f"format 'text' sends one column; the value has {', '.join(bodies)}",
            "list the others in key or headers",
        )
    if delivery.mode is Mode.MERGE and not key and kind != "raw":
        raise _unsendable_error(unit, "MERGE sends the new state of each key", "declare KEY")
    return MessageFormat(kind, key, headers, keeps_all, delivery.mode, columns)


def _batches_by_offset(delivery: Delivery) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the order of offsets within each partition. They are sorted only if they are not in order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    last: dict[int, int] = {}
    names = [name for name, _ in delivery.columns]
    for batch in batches_of(delivery.files, names):
        for partition, offset in zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True):
            if last.get(partition, -1) >= offset:
                break
            last[partition] = offset
        else:
            continue
        table = pa.Table.from_batches(list(batches_of(delivery.files, names)))
        order = pc.sort_indices(table, sort_keys=[("partition", "ascending"), ("offset", "ascending")])
        yield from table.take(order).to_batches()
        return
    yield from batches_of(delivery.files, names)


def _row_values(batch: pa.RecordBatch, columns: Mapping[str, str], *, is_raw: bool) -> Iterator[Mapping[str, Any]]:
    if is_raw:
        yield from batch.select(list(columns)).to_pylist()
        return
    values = [_json_values(batch[name], kind) for name, kind in columns.items()]
    for row in zip(*values, strict=True):
        yield dict(zip(columns, row, strict=True))


def _json_values(column: pa.Array, kind: str) -> list[Any]:
    """Convert a column to JSON values: nested ones to objects and arrays, instants to UTC with a Z."""
    import pyarrow as pa

    if kind == "binary":
        return [None if value is None else value.hex() for value in column.to_pylist()]
    found: list[Any] = to_portable_types(column, kind, mark="Z").to_pylist()
    if kind.startswith(("struct", "array", "map")) and not pa.types.is_string(column.type):
        return [None if value is None else json.loads(value) for value in found]
    return found


def _own_headers(delivery: Delivery) -> tuple[Header, ...]:
    """Return the headers with label and claim. By the claim, a reader recognizes a label that is sent again."""
    return (LABEL, delivery.label_text.encode()), (CLAIM, str(delivery.claim).encode())


def _to_bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, default=str)).encode()


def _split_names(names: object) -> tuple[str, ...]:
    return tuple(name.strip() for name in str(names or "").split(",") if name.strip())


def _missing_column_error(unit: Unit, name: str, columns: Mapping[str, str]) -> WaterclockError:
    return WaterclockError(
        "E856",
        f"{unit} cannot be sent: there is no column {name}",
        where=str(unit),
        why=f"the rows have {', '.join(columns)}",
        fix=did_you_mean(name, list(columns), otherwise="collect the topic with format 'raw', or name another column"),
    )


def _unsendable_error(unit: Unit, why: str, fix: str) -> WaterclockError:
    return WaterclockError("E856", f"{unit} cannot be sent", where=str(unit), why=why, fix=fix)
