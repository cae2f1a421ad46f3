"""Cuts the rows of a slice into requests, always alike: what was accepted of them before is known by its number.

Without an order chunks are cut as the rows lie. With `ORDER BY` the rows are sorted, those without a value first. With
`PER` row k of each of its values goes to bin k, and a request brings rows of one bin alone: so no two rows of one value
are on their way at once, in one request or in two, and a refused request holds up nothing but its own values.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.connectors.sealed import BATCH_ROWS, batches_of, plain_text

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it is sent: its JSON text, a digest of that, and the values that stand in a path or are told."""

    text: str
    digest: str
    entity: str = ""
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of one request. `number` counts from 0 in a label; `bin`: chunks of one may be sent side by side."""

    number: int
    bin: int
    rows: tuple[Row, ...]


def rows_of(
    files: Sequence[Path],
    columns: Sequence[tuple[str, str]],
    *,
    timelabel: str | None,
    order_by: Sequence[str] = (),
    per: Sequence[str] = (),
    placed: Sequence[str] = (),
) -> Iterator[Row]:
    """Yield the rows of sealed files as JSON objects, with their label as the last member where one is given.

    Cost: ordered rows are sorted in memory, the whole label at once; others pass in batches
    Raises  E822 as `sealed.batches_of`
    """
    names = [name for name, _ in columns]
    wanted = {*per, *placed}
    batches: Iterable[pa.RecordBatch] = batches_of(files, names)
    if order_by:
        batches = _sorted(batches, [name for name in order_by if name in names])
    for batch in batches:
        for values in batch.to_pylist(maps_as_pydicts="lossy"):
            told = values if timelabel is None else {**values, "timelabel": timelabel}
            text = plain_text(told)
            entity = plain_text([values.get(name) for name in per]) if per else ""
            yield Row(
                text,
                hashlib.sha256(text.encode()).hexdigest()[:16],
                entity,
                {name: values.get(name) for name in wanted} if wanted else None,
            )


def without(rows: Iterable[Row], carried: Counter[str]) -> Iterator[Row]:
    """Leave out the rows that were accepted before, each as often as it was."""
    left = Counter(carried)
    for row in rows:
        if left[row.digest] > 0:
            left[row.digest] -= 1
        else:
            yield row


def chunks_of(rows: Iterable[Row], size: int, *, per: bool) -> Iterator[Chunk]:
    """Cut rows into chunks. Cost: with `per` all rows are held, else one chunk."""
    if not per:
        yield from _cut(rows, size, 0, 0)
        return
    bins: dict[int, list[Row]] = {}
    met: Counter[str] = Counter()
    for row in rows:
        bins.setdefault(met[row.entity], []).append(row)
        met[row.entity] += 1
    number = 0
    for at, members in bins.items():
        for chunk in _cut(members, size, number, at):
            yield chunk
            number = chunk.number + 1


def content_of(rows: Sequence[Row], kind: str, wrap: str) -> bytes:
    """Return the body of a request."""
    if kind == "row":
        return rows[0].text.encode() if rows else b""
    if kind == "ndjson":
        return "".join(f"{row.text}\n" for row in rows).encode()
    array = f"[{','.join(row.text for row in rows)}]"
    return f"{{{json.dumps(wrap)}:{array}}}".encode() if wrap else array.encode()


def key_of(identity: Sequence[str], rows: Sequence[Row], nth: int) -> str:
    """Return the idempotency key of a request: the same rows under the same identity have the same key.

    `nth` tells requests apart that bring the same rows, which are to be there as often.
    """
    said = json.dumps([*identity, *(row.digest for row in rows), nth])
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _cut(rows: Iterable[Row], size: int, first: int, at: int) -> Iterator[Chunk]:
    held: list[Row] = []
    for row in rows:
        held.append(row)
        if len(held) == size:
            yield Chunk(first, at, tuple(held))
            first, held = first + 1, []
    if held:
        yield Chunk(first, at, tuple(held))


def _sorted(batches: Iterable[pa.RecordBatch], order_by: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    held = list(batches)
    if not held:
        return
    table = pa.Table.from_batches(held)
    by: dict[str, pa.ChunkedArray | pa.Array] = {}
    for at, name in enumerate(order_by):
        by |= {f"has{at}": table[name].is_valid(), f"value{at}": table[name]}
    # Arrow's sort is no stable one: rows that tie go as they lie, or no retry would cut them alike
    keys = pa.table({**by, "place": pa.array(range(table.num_rows), pa.int64())})
    places = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    yield from table.take(places).to_batches(BATCH_ROWS)
