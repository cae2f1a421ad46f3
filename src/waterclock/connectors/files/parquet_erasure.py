"""Removes the rows of erased persons from Parquet files. Schema, metadata, row groups and compression are kept."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from waterclock.connectors.original_erasure import Subjects

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


class NotRewritable(ValueError):
    """Raised for a file that cannot be written again with the same schema. The message is the reason."""


def edit_parquet(source: IO[bytes], subjects: Subjects, sink: IO[bytes] | None) -> tuple[int, int]:
    """Write a Parquet file without the rows of erased persons to `sink`, if any. Return the rows and removed rows.

    Statistics are computed again. Bloom filters are not kept.
    Raises OSError or ArrowException for a file that cannot be read, NotRewritable.
    Cost: for a count, the identifying columns are read; one row group is in memory.
    """
    import pyarrow.parquet as pq

    file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
    names = [(name, column) for name in file.schema_arrow.names if (column := subjects.column_of(name)) is not None]
    if sink is None or not names:
        groups = range(file.num_row_groups) if names else ()
        kept = [_kept_rows(file.read_row_group(at, [name for name, _ in names]), names, subjects) for at in groups]
        removed = sum(len(mask) - (mask.true_count or 0) for mask in kept)
        return file.metadata.num_rows, removed
    removed = 0
    with _open_writer(file, sink) as writer:
        for at in range(file.num_row_groups):
            table = file.read_row_group(at)
            mask = _kept_rows(table, names, subjects)
            removed += len(mask) - (mask.true_count or 0)
            remaining = _drop_unused_values(table.filter(mask))
            if remaining.num_rows:
                writer.write_table(remaining, row_group_size=max(1, remaining.num_rows))
    return file.metadata.num_rows, removed


def _kept_rows(table: pa.Table, names: list[tuple[str, str]], subjects: Subjects) -> pa.BooleanArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    kept: Any = pa.array([True] * 0) if not names else None
    for name, column in names:
        values = table.column(name)
        if pa.types.is_nested(values.type):
            continue
        erased = [value for value in pc.unique(values).to_pylist() if subjects.is_erased(column, value)]
        plain = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
        is_kept = pc.invert(pc.is_in(plain, value_set=pa.array(erased, plain.type)))
        kept = is_kept if kept is None else pc.and_(kept, is_kept)
    if kept is None:
        kept = pa.chunked_array([pa.array([True] * table.num_rows, pa.bool_())])
    return kept.combine_chunks()


def _drop_unused_values(table: pa.Table) -> pa.Table:
    """Encode dictionary columns again: a filtered one keeps all values of its dictionary, also those of erased rows."""
    import pyarrow as pa

    for at, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            plain = column.cast(column.type.value_type).combine_chunks()
            table = table.set_column(at, table.schema.field(at), plain.dictionary_encode().cast(column.type))
        elif _has_dictionary(column.type):
            raise NotRewritable(f"{table.schema.names[at]} has dictionaries within nested values")
    return table


def _has_dictionary(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(at).type) for at in range(kind.num_fields))


def _open_writer(file: pq.ParquetFile, sink: IO[bytes]) -> pq.ParquetWriter:
    """Open a writer with the settings of a file. Raises NotRewritable if it would write another schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for settings in _settings_of(file):
        probe = pa.BufferOutputStream()
        with pq.ParquetWriter(probe, file.schema_arrow, **settings) as writer:
            writer.write_table(file.schema_arrow.empty_table())
        if pq.ParquetFile(pa.BufferReader(probe.getvalue())).schema.equals(file.schema):
            return pq.ParquetWriter(sink, file.schema_arrow, **settings)
    raise NotRewritable("its columns have types or lists that cannot be written in the same form")


def _settings_of(file: pq.ParquetFile) -> list[dict[str, Any]]:
    meta = file.metadata
    chunks = [meta.row_group(0).column(at) for at in range(meta.num_columns)] if meta.num_row_groups else []
    base: dict[str, Any] = {
        "version": meta.format_version,
        "compression": {chunk.path_in_schema: _codec(chunk.compression) for chunk in chunks} or "snappy",
        "use_dictionary": [chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page],
        "use_deprecated_int96_timestamps": any(chunk.physical_type == "INT96" for chunk in chunks),
        "sorting_columns": meta.row_group(0).sorting_columns or None if chunks else None,
        "write_page_index": any(chunk.has_column_index for chunk in chunks),
        "store_schema": b"ARROW:schema" in (meta.metadata or {}),
    }
    return [
        {**base, "version": version, "use_compliant_nested_type": is_compliant}
        for version in dict.fromkeys((meta.format_version, "2.6", "1.0"))
        for is_compliant in (True, False)
    ]


def _codec(name: str) -> str:
    return {"UNCOMPRESSED": "NONE", "LZ4_RAW": "LZ4"}.get(name, name)
