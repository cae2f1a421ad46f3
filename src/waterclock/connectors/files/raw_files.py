"""Collects files unchanged (`format 'raw'`): one row for each file, whose content stays in the archive.

A row has the file's name, its arrival, its last modification, its size and its SHA-256. The content is not read into
Spark: a publish with `format 'raw'` copies the file itself (see `raw_file_delivery`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

from waterclock.connectors.files.own_copies import open_landed
from waterclock.connectors.files.source_file_columns import split_origin_columns
from waterclock.connectors.interface import Collected, Item
from waterclock.files.filesystem import map_each, open_for_reading, path_below, stat_file
from waterclock.files.object_stores import is_remote
from waterclock.flow.declarations import Columns
from waterclock.flow.origins import IN_ROWS
from waterclock.flow.origins import TYPES as ORIGIN_TYPES
from waterclock.spark_sql import quote_name
from waterclock.timelabel.label import TIMELABEL, label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RAW = "raw"
TYPES = {"name": "STRING", "stamp": "TIMESTAMP", "changed": "TIMESTAMP", "size": "BIGINT", "sha256": "STRING"}
"""The columns of a raw collect of files, with their Spark types."""

_CHUNK = 1 << 20


def rows_of_files(
    spark: SparkSession,
    items: Mapping[datetime | None, Sequence[Item]],
    columns: Columns,
    landing: Path,
    *,
    has_times: bool,
) -> Collected:
    """Return one row for each file, with the label under which `items` lists it. The key None means: without a label.

    `has_times`: files keep their last modification when they move to the archive, which is true only for local folders.
    Otherwise `changed` is NULL, so that a label that is made again has the same rows.
    Cost: each file is read once for its checksum, and files in an object store in parallel.
    """
    own, origins = split_origin_columns(columns)
    pairs = [(label, item) for label, taken in items.items() for item in taken]
    paths = [item.path for _, item in pairs]
    sums = map_each(paths, lambda path: _digest_below(path, landing), at=paths[0]) if paths else []
    rows = [
        (
            item.name, item.stamp, stat_file(item.path).changed if has_times else None, item.size, digest,
            None if label is None else label_of(label),
        )
        for (label, item), digest in zip(pairs, sums, strict=True)
    ]  # fmt: skip
    schema = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    frame = spark.createDataFrame(rows, f"{schema}, {TIMELABEL} STRING")
    wanted = {column.name.lower(): column.name for column in own.named}
    left_out = () if own.is_open else tuple(name for name in TYPES if name not in wanted)
    names = [f"{quote_name(name)} AS {quote_name(wanted.get(name, name))}" for name in TYPES if name not in left_out]
    sql_of = {"file": "name", "row": f"CAST(NULL AS {ORIGIN_TYPES['row']})"}
    names += [f"{sql_of[each]} AS {IN_ROWS[each]}" for each in sorted(origins)]
    names += [] if None in items else [TIMELABEL]
    return Collected(frame.selectExpr(*names), left_out=left_out, is_empty=not rows, source_columns=dict(TYPES))


def digest_of(path: str | Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal. Cost: the file is read as a stream."""
    with open_for_reading(path) as file:
        return _digest(file)


def _digest_below(path: str, landing: Path) -> str:
    """Return the SHA-256 of a file. Links below a landing folder of this machine are not followed."""
    relative = None if is_remote(landing) else path_below(path, landing)
    if relative is None:
        return digest_of(path)
    with open_landed(path, landing, relative) as file:
        return _digest(file)


def _digest(file: IO[bytes]) -> str:
    found = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        found.update(chunk)
    return found.hexdigest()


def keeps_times(landing: Path, archive: Path) -> bool:
    """Return whether files keep their last modification when they are moved from the landing folder to the archive."""
    return not is_remote(landing) and not is_remote(archive)
