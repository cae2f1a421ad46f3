"""Makes the data of bench/temporal: raw rows of entities, versions of parents, facts and versions that refer to them.

Keys of raw rows and facts follow Zipf's law (0.8). *hot*: one key has 20 % of the rows. *burst*: in addition, 95 % of
its times are within one hour. *often*: parents have 64 versions each instead of 20.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FIRST, SPAN = 1_577_836_800_000_000, 4 * 365 * 86_400_000_000  # 2020, and four years of microseconds
OPEN = 253_402_214_400_000_000
HOUR = 3_600_000_000
KINDS = ("even", "hot", "burst")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The amount of data: the rows for `compute_temporal`, and all other sizes in proportion to it."""

    raw: int

    @property
    def keys(self) -> int:
        return max(self.raw // 25, 10)

    @property
    def facts(self) -> int:
        return 2 * self.raw

    @property
    def versions(self) -> int:
        return self.raw // 5

    @property
    def parents(self) -> int:
        return max(self.raw // 100, 10)

    @property
    def often(self) -> int:
        """The number of parents that have 64 versions each."""
        return max(self.versions // 64, 10)

    @property
    def children(self) -> int:
        return self.raw // 2


def write_all(folder: Path, sizes: Sizes) -> None:
    """Write every frame to one Parquet file, with shuffled rows."""
    chance = np.random.default_rng(42)
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("even", "hot"):
        _write(folder / f"raw_{kind}.parquet", _raw(chance, sizes, kind))
    for kind in KINDS:
        versions = _versions(chance, sizes.versions, sizes.parents, kind)
        _write(folder / f"parent_{kind}.parquet", versions)
        _write(folder / f"facts_{kind}.parquet", _facts(chance, sizes, kind))
    _write(folder / "parent_often.parquet", _versions(chance, sizes.versions, sizes.often, "even"))
    _write(folder / "facts_often.parquet", _facts(chance, sizes, "even", sizes.often))
    children = _versions(chance, sizes.children, max(sizes.children // 5, 10), "even")
    refers = pa.array(_zipf(chance, len(children), sizes.parents))
    _write(
        folder / "child.parquet", children.rename_columns(["c", *children.column_names[1:]]).append_column("p", refers)
    )
    _write(folder / "texts.parquet", _texts(chance, sizes.facts))


def write_even(folder: Path, versions: int, keys: int, facts: int) -> None:
    """Write a parent whose keys all have about the same number of versions, and facts that refer to it."""
    chance = np.random.default_rng(42)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "parent_even.parquet", _versions(chance, versions, keys, "even"))
    table = pa.table(
        {"f": np.arange(facts), "p": chance.integers(0, keys, facts), "at": _instant(_times(chance, facts))}
    )
    _write(folder / "facts_even.parquet", table)


def _zipf(chance: np.random.Generator, count: int, keys: int) -> np.ndarray:
    weights = np.cumsum(np.arange(1, keys + 1) ** -0.8)
    places = np.searchsorted(weights, chance.random(count) * weights[-1])
    found: np.ndarray = chance.permutation(keys)[places].astype("int64")
    return found


def _heated(chance: np.random.Generator, keys: np.ndarray, times: np.ndarray, kind: str) -> None:
    """Assign a fifth of the rows to one key. In a burst, move nearly all of these into one hour."""
    if kind == "even":
        return
    hot = chance.random(len(keys)) < 0.2
    keys[hot] = 7
    if kind == "burst":
        close = hot & (chance.random(len(keys)) < 0.95)
        times[close] = FIRST + SPAN // 2 + chance.integers(0, HOUR, close.sum())


def _times(chance: np.random.Generator, count: int) -> np.ndarray:
    return FIRST + chance.integers(0, SPAN, count)


def _raw(chance: np.random.Generator, sizes: Sizes, kind: str) -> pa.Table:
    count = int(sizes.raw * 0.92)
    keys, times = _zipf(chance, count, sizes.keys), _times(chance, count)
    _heated(chance, keys, times, kind)
    columns: dict[str, Any] = {
        "name": np.char.add("name ", chance.integers(0, 5000, count).astype(str)),
        "city": np.char.add("city ", chance.integers(0, 300, count).astype(str)),
        "size": chance.integers(0, 50, count).astype("int32"),
        "rate": chance.integers(0, 400, count) / 4,
        "born": chance.integers(0, 2000, count).astype("int32"),
        "status": np.array(["new", "open", "held", "closed"])[chance.integers(0, 4, count)],
    }
    columns = {name: pa.array(values, mask=chance.random(count) < 0.3) for name, values in columns.items()}
    columns["born"] = columns["born"].cast(pa.date32())
    gone = pa.array(chance.random(count) < 0.02)
    table = pa.table({"k": keys, "t": _instant(times), "gone": gone, **columns})
    repeats = table.take(chance.integers(0, count, int(sizes.raw * 0.05)))
    clashes = table.take(chance.integers(0, count, int(sizes.raw * 0.03)))
    other = pa.array(np.full(len(clashes), "city of a later word"))
    clashes = clashes.set_column(clashes.column_names.index("city"), "city", other)
    everything = pa.concat_tables([table, repeats, clashes])
    return everything.take(chance.permutation(len(everything)))


def _versions(chance: np.random.Generator, count: int, keys: int, kind: str) -> pa.Table:
    held, times = chance.integers(0, keys, count), _times(chance, count)
    _heated(chance, held, times, kind)
    order = np.lexsort((times, held))
    held, times = held[order], times[order]
    is_new = np.concatenate([[True], (held[1:] != held[:-1]) | (times[1:] != times[:-1])])
    held, times = held[is_new], times[is_new]
    ends = np.where(np.concatenate([held[1:] == held[:-1], [False]]), np.concatenate([times[1:], [OPEN]]), OPEN)
    many = len(held)
    table = pa.table(
        {
            "p": held,
            "rec_eff_time": _instant(times),
            "city": np.char.add("city ", chance.integers(0, 300, many).astype(str)),
            "tier": (np.arange(many) % 9).astype("int32"),  # adjacent ones differ: DuckDB merges no equal ones
            "rate": chance.integers(0, 400, many) / 4,
            "owner": chance.integers(0, 900, many),
            "rec_exp_time": _instant(ends),
            "rec_is_current": ends == OPEN,
        }
    )
    return table.take(chance.permutation(many))


def _facts(chance: np.random.Generator, sizes: Sizes, kind: str, parents: int = 0) -> pa.Table:
    keys, times = _zipf(chance, sizes.facts, parents or sizes.parents), _times(chance, sizes.facts)
    _heated(chance, keys, times, kind)
    amounts = chance.integers(0, 10_000, sizes.facts) / 100
    kinds = chance.integers(0, 9, sizes.facts).astype("int32")
    return pa.table(
        {
            "f": np.arange(sizes.facts),
            "p": keys,
            "at": _instant(times),
            "amount": amounts,
            "kind": kinds,
            "quantity": kinds + 1,
            "discount": amounts / 10,
            "channel": np.array(["web", "shop", "phone"])[kinds % 3],
        }
    )


def _texts(chance: np.random.Generator, count: int) -> pa.Table:
    numbers = chance.integers(0, 100_000, count)
    words = np.char.add(
        np.array(["  new  orleans ", "Saint Louis ", "\tlake  charles", "shreveport "])[numbers % 4],
        numbers.astype(str),
    )
    return pa.table({"a": pa.array(words, mask=chance.random(count) < 0.05)})


def _instant(micros: np.ndarray) -> pa.Array:
    return pa.array(micros).cast(pa.timestamp("us", "UTC"))


def _write(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path, row_group_size=max(table.num_rows // 8, 1), compression="snappy")
