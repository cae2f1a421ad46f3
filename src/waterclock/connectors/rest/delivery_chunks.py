"""Splits the rows of a slice into chunks, one for each request. Every run splits a slice into the same chunks.

Without an order, chunks follow the order of rows in the files. With `ORDER BY` the rows are sorted, NULLs first. With
`PER`, the first row of each PER value goes to bin 0, the second to bin 1, and so on, and a request contains rows of one
bin only. So two rows with the same value are never sent at the same time, and a refused request holds back only rows
with its own values.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.connectors.slice_rows import BATCH_ROWS, deliverable_batches_of, to_json_text

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A row to send: its JSON text, the text's digest, its PER values as text (`entity`), and some of its values.

    `values` are those that the path or error messages contain; None if there are none.
    """

    text: str
    digest: str
    entity: str = ""
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of one request. `number` counts from 0 per label. Chunks of the same `bin` may be sent concurrently."""

    number: int
    bin: int
    rows: tuple[ChunkRow, ...]


def rows_of(
    files: Sequence[Path],
    columns: Sequence[tuple[str, str]],
    *,
    timelabel: str | None,
    order_by: Sequence[str] = (),
    per: Sequence[str] = (),
    placed: Sequence[str] = (),
) -> Iterator[ChunkRow]:
    """Yield the rows of slice files as JSON objects. The last member is the label, if `timelabel` is given.

    Cost: with `order_by` all rows of the label are in memory at once; otherwise they are read in batches.
    Raises E822 for unreadable files, E812 for values that cannot be sent.
    """
    names = [name for name, _ in columns]
    wanted = {*per, *placed}
    batches: Iterable[pa.RecordBatch] = deliverable_batches_of(files, names)
    if order_by:
        batches = _sort_batches(batches, [name for name in order_by if name in names])
    for batch in batches:
        for values in batch.to_pylist(maps_as_pydicts="lossy"):
            row = values if timelabel is None else {**values, "timelabel": timelabel}
            text = to_json_text(row)
            entity = to_json_text([values.get(name) for name in per]) if per else ""
            yield ChunkRow(
                text,
                hashlib.sha256(text.encode()).hexdigest()[:16],
                entity,
                {name: values.get(name) for name in wanted} if wanted else None,
            )


def skip_accepted_rows(rows: Iterable[ChunkRow], carried: Counter[str]) -> Iterator[ChunkRow]:
    """Yield the rows that the API has not accepted. `carried` has the number of accepted rows by digest."""
    left = Counter(carried)
    for row in rows:
        if left[row.digest] > 0:
            left[row.digest] -= 1
        else:
            yield row


def chunks_of(rows: Iterable[ChunkRow], size: int, *, per: bool) -> Iterator[Chunk]:
    """Split rows into chunks. Cost: with `per` all rows are kept in memory, otherwise one chunk."""
    if not per:
        yield from _group_rows(rows, size, 0, 0)
        return
    bins: dict[int, list[ChunkRow]] = {}
    met: Counter[str] = Counter()
    for row in rows:
        bins.setdefault(met[row.entity], []).append(row)
        met[row.entity] += 1
    number = 0
    for at, members in bins.items():
        for chunk in _group_rows(members, size, number, at):
            yield chunk
            number = chunk.number + 1


def content_of(rows: Sequence[ChunkRow], kind: str, wrap: str) -> bytes:
    """Build the body of a request: an object for the format `row`, lines for `ndjson`, else an array.

    With `wrap`, the array is in an object with that key.
    """
    if kind == "row":
        return rows[0].text.encode() if rows else b""
    if kind == "ndjson":
        return "".join(f"{row.text}\n" for row in rows).encode()
    array = f"[{','.join(row.text for row in rows)}]"
    return f"{{{json.dumps(wrap)}:{array}}}".encode() if wrap else array.encode()


def key_of(identity: Sequence[str], rows: Sequence[ChunkRow], nth: int) -> str:
    """Build the idempotency key of a request: a digest of its rows and their delivery.

    `nth` numbers requests with equal rows, so that the API does not take one for a repetition of another.
    """
    document = json.dumps([*identity, *(row.digest for row in rows), nth])
    return hashlib.sha256(document.encode()).hexdigest()[:32]


def _group_rows(rows: Iterable[ChunkRow], size: int, first: int, at: int) -> Iterator[Chunk]:
    held: list[ChunkRow] = []
    for row in rows:
        held.append(row)
        if len(held) == size:
            yield Chunk(first, at, tuple(held))
            first, held = first + 1, []
    if held:
        yield Chunk(first, at, tuple(held))


def _sort_batches(batches: Iterable[pa.RecordBatch], order_by: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    held = list(batches)
    if not held:
        return
    table = pa.Table.from_batches(held)
    by: dict[str, pa.ChunkedArray | pa.Array] = {}
    for at, name in enumerate(order_by):
        by |= {f"has{at}": table[name].is_valid(), f"value{at}": table[name]}
    # Arrow's sort is not stable: ties keep the order of the files, so that every retry splits the rows alike
    keys = pa.table({**by, "place": pa.array(range(table.num_rows), pa.int64())})
    places = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    yield from table.take(places).to_batches(BATCH_ROWS)
