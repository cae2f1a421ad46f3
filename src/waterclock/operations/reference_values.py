"""Finds values of a stored table while a person types, for the column of a form that refers to it. No Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from waterclock.connectors.forms.text_search import fold
from waterclock.files.filesystem import arrow_source, entry_path
from waterclock.operations.project_opening import OpenedProject
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.live_files import LiveFile
from waterclock.storage.log.open_tables import open_table

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MOST_READ = 200_000
"""The maximum number of rows that a search reads."""
_MOST_BYTES = 64 << 20  # of a column in a group of rows; larger ones are not read
_ROWS_AT_ONCE = 8192
_LABEL_COLUMNS = 3
_PLAIN = frozenset({"string", "byte", "short", "integer", "long", "date", "boolean"})


def find_values(at: OpenedProject, table: str, column: str, text: str, most: int) -> dict[str, str]:
    """Return up to `most` values of a column in rows that contain a text, in any case, each with its row's other texts.

    The rows are those of the newest version of the table; newest labels are read first. The caller has checked that
    the person sees the whole table. Empty without a batch, for other types than texts, whole numbers, decimals, dates
    and BOOLEAN, and for tables whose files need Delta to be read (column mapping, deletion vectors).

    Cost: up to `MOST_READ` rows of the column and of three others with texts. Errors of files end the search.
    """
    from waterclock.engine.ledger_opening import lake_of

    folder = lake_of(at.project, at.ledger).folder(table)
    if not table_exists(folder):
        return {}
    with open_table(folder) as opened:
        kinds = {each["name"]: each["type"] for each in json.loads(opened.schema)["fields"]}
        files = sorted(opened.files.values(), key=lambda file: (file.label or "", file.path), reverse=True)
        if not opened.is_plain or opened.marked_paths:
            return {}
    name = next((each for each in kinds if each.lower() == column.lower()), None)
    if name is None or not (kinds[name] in _PLAIN or str(kinds[name]).startswith("decimal")):
        return {}
    others = [each for each, kind in kinds.items() if kind == "string" and each not in {name, "timelabel"}]
    needle, found = fold(text), dict[str, str]()
    for value, label in _read_rows(folder, files, name, others[:_LABEL_COLUMNS]):
        if value not in found and (needle in fold(value) or needle in fold(label)):
            found[value] = label
            if len(found) == most:
                break
    return found


def _read_rows(folder: str, files: list[LiveFile], name: str, others: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the value of each row that is not NULL, and its other texts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    left = MOST_READ
    for file in files:
        try:
            with pq.ParquetFile(arrow_source(entry_path(folder, file.path), file.size)) as parquet:
                columns = _small_columns(parquet, [name, *others])
                if name not in columns:
                    continue
                for batch in parquet.iter_batches(batch_size=min(_ROWS_AT_ONCE, left), columns=columns):
                    left -= batch.num_rows
                    parts = [batch.column(each).to_pylist() for each in columns]
                    values = parts[columns.index(name)]
                    labels = [part for each, part in zip(columns, parts, strict=True) if each != name]
                    for row, value in enumerate(values):
                        if value is not None:
                            yield _text_of(value), ", ".join(text for part in labels if (text := part[row]))
                    if left <= 0:
                        return
        except (OSError, pa.ArrowException):  # removed or damaged, which a batch or a query reports
            return


def _small_columns(parquet: pq.ParquetFile, names: list[str]) -> list[str]:
    """Return the columns that a file has, without those of which a group of rows is large."""
    meta = parquet.metadata
    sizes: dict[str, int] = {}
    for group in range(meta.num_row_groups):
        for index in range(meta.num_columns):
            chunk = meta.row_group(group).column(index)
            sizes[chunk.path_in_schema] = max(sizes.get(chunk.path_in_schema, 0), chunk.total_uncompressed_size)
    return [each for each in names if sizes.get(each, _MOST_BYTES + 1) <= _MOST_BYTES]


def _text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
