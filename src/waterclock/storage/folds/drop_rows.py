"""Copies Parquet files without some of their rows, given the positions of these rows.

Arrow copies the remaining rows batch by batch. It compares no values, so it cannot treat a type differently from Spark.
Ten million rows of six columns take 2.5 s of CPU. `can_copy_without_rows` checks beforehand that a copy would have the
same schema and codec.
"""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# Limits of a row group of the copy: bytes of the file, values, and rows
from waterclock.files.filesystem import arrow_source, arrow_target, make_folder, remove_file, stat_file

_MOST_BYTES = 64 * 1024 * 1024
_MOST_VALUES = 8 * 1024 * 1024
_MOST_ROWS = 1024 * 1024
# One batch stays in the processor's cache: with a million rows a copy costs half as much again
_ROWS_AT_ONCE = 65_536
# Files are joined up to this size, as Spark's own tasks would write them
_BYTES_PER_FILE = 128 * 1024 * 1024
_THREADS = 2
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "LZ4_RAW": "lz4", "UNCOMPRESSED": "none"}
_DICTIONARY = frozenset({"PLAIN_DICTIONARY", "RLE_DICTIONARY"})
_FLOATING = frozenset({"FLOAT", "DOUBLE"})


@dataclass(frozen=True, slots=True)
class _CopyKind:
    """The schema and codec that files must share to be joined into one."""

    schema: pa.Schema
    codec: str


def can_copy_without_rows(folder: Path, paths: Sequence[str]) -> bool:
    """Return whether Arrow can copy these files with the same schema and codec. Cost: one footer each."""
    return all(_copy_kind(folder / path) is not None for path in paths)


def copy_without_rows(folder: Path, gone: Mapping[str, pa.Array], into: str, *, leaves_no_value: bool = False) -> None:
    """Copy files into the folder `into`, without the rows at the positions `gone`.

    `gone` maps each path to an array of row numbers (64 bits, from 0, in any order). Paths are relative to `folder`.
    Small files are joined. If no rows remain, no file is written.

    Texts are copied as codes of the files' dictionaries, which also contain the values of rows that are left out, and
    so do the bounds of the copy. With `leaves_no_value`, they are encoded again, and the copy contains no such value.
    """
    make_folder(folder / into)
    bins = list(_group_files(folder, list(gone)))
    with ThreadPoolExecutor(_THREADS) as threads:
        copies = [
            threads.submit(
                _copy_files, folder, paths, gone, folder / into / f"kept-{number:05d}.parquet", leaves_no_value
            )
            for number, paths in enumerate(bins)
        ]
        for copy in copies:
            copy.result()


def _copy_kind(path: Path) -> _CopyKind | None:
    """Return the schema and codec of a file, or None if Arrow would write a copy with another schema or codec."""
    with pq.ParquetFile(arrow_source(path)) as file:
        schema, parquet, metadata = file.schema_arrow, file.schema, file.metadata
    codecs = {
        metadata.row_group(group).column(column).compression
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    }
    if len(codecs) > 1 or not codecs <= _CODECS.keys():
        return None
    # Arrow reads the old type INT96 as a time without a zone, so a copy would have another type: compare the schemas
    probe = io.BytesIO()
    try:
        _open_writer(probe, schema, "none").close()
    except pa.ArrowException:
        return None
    with pq.ParquetFile(probe) as copy:
        same = copy.schema.equals(parquet)
    return _CopyKind(schema, _CODECS[codecs.pop()] if codecs else "snappy") if same else None


def _open_writer(where: Path | IO[bytes], schema: pa.Schema, codec: str, **more: object) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        where,
        schema,
        compression=codec,
        store_schema=False,
        store_decimal_as_integer=True,
        write_page_index=True,
        **more,
    )


def _group_files(folder: Path, paths: Sequence[str]) -> Iterator[list[str]]:
    """Group files of equal schema and codec up to a size, in at least two groups, so that both threads have work."""
    by_kind: defaultdict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for path in paths:
        kind = _copy_kind(folder / path)
        if kind is None:
            raise AssertionError(f"{path} cannot be copied, which the caller must check first")
        # Spark's own metadata in the footer is part of the kind: it defines how old dates are read
        by_kind[(kind.schema.to_string(truncate_metadata=False), kind.codec)].append(
            (stat_file(folder / path).size, path)
        )
    for files in by_kind.values():
        total = sum(size for size, _ in files)
        most = min(_BYTES_PER_FILE, -(-total // _THREADS))
        bins: list[tuple[int, list[str]]] = []
        for size, path in sorted(files, reverse=True):
            least = min(range(len(bins)), key=lambda at: bins[at][0], default=None)
            if least is None or bins[least][0] + size > most:
                bins.append((size, [path]))
            else:
                bins[least] = (bins[least][0] + size, [*bins[least][1], path])
        yield from (members for _, members in bins)


def _copy_files(
    folder: Path,
    paths: Sequence[str],
    gone: Mapping[str, pa.Array],
    copy: Path,
    leaves_no_value: bool,  # noqa: FBT001 - submitted by position
) -> None:
    kind = _copy_kind(folder / paths[0])
    if kind is None:
        raise AssertionError(f"{paths[0]} cannot be copied, which the caller must check first")
    footers = [pq.read_metadata(arrow_source(folder / path)) for path in paths]
    repeating, most, rows = _list_dictionary_columns(footers), _rows_per_group(footers), 0
    # copy repeated strings as dictionary codes, without decoding and encoding them again
    coded = [] if leaves_no_value else repeating
    with pq.ParquetFile(arrow_source(folder / paths[0]), read_dictionary=coded) as file:
        schema = file.schema_arrow
    how = {"use_dictionary": repeating or False, "write_statistics": _list_bounded_columns(footers) or False}
    with arrow_target(copy) as sink, _open_writer(sink, schema, kind.codec, **how) as writer:
        # Spark's own metadata: it defines how its old dates are read
        writer.add_key_value_metadata(kind.schema.metadata or {})
        for group in _combine_batches(
            (batch for path in paths for batch in _read_remaining(folder / path, gone[path], coded)), most
        ):
            rows += group.num_rows
            writer.write_table(group, most)
    if not rows:
        remove_file(copy)


def _read_remaining(path: Path, gone: pa.Array, repeating: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file batch by batch, without the rows at the positions `gone`."""
    at = 0
    with pq.ParquetFile(arrow_source(path), read_dictionary=repeating) as file:
        for batch in file.iter_batches(_ROWS_AT_ONCE, use_threads=False):
            end = at + batch.num_rows
            here = gone.filter(pc.and_(pc.greater_equal(gone, at), pc.less(gone, end)))
            yield batch.filter(pc.invert(pc.is_in(pa.arange(at, end), here))) if len(here) else batch
            at = end


def _combine_batches(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Combine batches into row groups."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(each.num_rows for each in pending) >= most:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)


def _rows_per_group(footers: Sequence[pq.FileMetaData]) -> int:
    rows = sum(footer.num_rows for footer in footers)
    groups = [footer.row_group(group) for footer in footers for group in range(footer.num_row_groups)]
    width = sum(group.total_byte_size for group in groups) / max(rows, 1)
    columns = max(footer.num_columns for footer in footers)
    return int(max(1024, min(_MOST_ROWS, _MOST_VALUES // max(columns, 1), _MOST_BYTES // max(width, 1))))


def _iterate_chunks(footers: Sequence[pq.FileMetaData]) -> Iterator[pq.ColumnChunkMetaData]:
    for footer in footers:
        for group in range(footer.num_row_groups):
            for column in range(footer.num_columns):
                yield footer.row_group(group).column(column)


def _list_dictionary_columns(footers: Sequence[pq.FileMetaData]) -> list[str]:
    """Return the columns that the original files store with a dictionary, since their values repeat."""
    return sorted({chunk.path_in_schema for chunk in _iterate_chunks(footers) if _DICTIONARY & set(chunk.encodings)})


def _list_bounded_columns(footers: Sequence[pq.FileMetaData]) -> list[str]:
    """Return the columns for which to write bounds. Floating-point columns are included only if they had bounds before.

    Spark sorts NaN above every number, but Arrow leaves NaN out of a column's maximum. Spark would then skip a file
    with NaN when it searches for values above that maximum. A column that had bounds before contains no NaN.
    """
    every = {chunk.path_in_schema for chunk in _iterate_chunks(footers)}
    fractions = [chunk for chunk in _iterate_chunks(footers) if chunk.physical_type in _FLOATING]
    return sorted(every - {chunk.path_in_schema for chunk in fractions if not _is_bounded(chunk)})


def _is_bounded(chunk: pq.ColumnChunkMetaData) -> bool:
    known = chunk.statistics
    if known is None:
        return False
    if not known.has_min_max:
        return bool(known.has_null_count and known.null_count == chunk.num_values)
    return not (math.isnan(known.min) or math.isnan(known.max))
