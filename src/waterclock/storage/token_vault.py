"""Stores the random tokens of a subject's values: a Delta table `vault/<subject>` of values and tokens.

A token is decided once, by the commit that adds it: a commit that another one preceded is refused, and the values that
are still missing are computed again. A token is never computed from its value alone, so it cannot be computed again
without the table. All tables of a project share the tokens of a subject.
"""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import arrow_source, entry_path, remove_folder
from waterclock.storage.commit.change import build_state_change
from waterclock.storage.commit.creation import create_table
from waterclock.storage.commit.write_commit import try_commit
from waterclock.storage.folds.drop_rows import copy_without_rows
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.identity import Identity
from waterclock.storage.log.live_files import LiveFile
from waterclock.storage.log.open_tables import open_table
from waterclock.storage.log.purging import purge_files, purge_log
from waterclock.storage.slices.manifest import DataFile
from waterclock.storage.slices.read import frame_of_files, frame_of_version, no_rows
from waterclock.storage.slices.statistics import read_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

VALUE, TOKEN = "value", "token"
DIGITS = 32
"""The number of hexadecimal digits of a token: 128 random bits."""

_KIND, _ERASED = "tokens", "erased tokens"
_ROWS = "rows"
_SALT = "wc_token_salt"
_MOST_ATTEMPTS = 100
# so many small files are joined by the commit that adds the next one
_MOST_SMALL_FILES = 50
_SMALL = 32 * 1024 * 1024
_BYTES_PER_FILE = 128 * 1024 * 1024
_SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in (VALUE, TOKEN)],
    }
)


def read_tokens(spark: SparkSession, folder: str) -> DataFrame:
    """Return the rows of a vault, `value` and `token`, at its newest version. Starts no job."""
    if not table_exists(folder):
        return no_rows(spark, _struct())
    with open_table(folder) as table:
        version = table.version
    return _rows_of(frame_of_version(spark, folder, version))


def add_tokens(spark: SparkSession, folder: str, values: DataFrame, project: str) -> None:
    """Give a random token to each value that has none and is none. `values` has one column, `value`, without NULL.

    It may be called at the same time by several processes: each value gets one token. Cost: a join of the values with
    the vault, and a small file if there are new ones.

    Raises E601 if the vault belongs to another project, E622 (transient) if other commits came first at each attempt.
    """
    create_table(folder, _struct(), is_partitioned=False, project=project)
    _create_salt(spark)
    for _ in range(_MOST_ATTEMPTS):
        with open_table(folder) as table:
            version = table.version
            small = [file for file in table.files.values() if file.size < _SMALL]
            schema = table.schema
        known = _rows_of(frame_of_version(spark, folder, version))
        joined = small if len(small) >= _MOST_SMALL_FILES else []
        path = f"{_ROWS}/{uuid.uuid4().hex}"
        missing = values.distinct().join(with_tokens_as_values(known), VALUE, "left_anti")
        # the salt is drawn for this process and never stored; within it, a task that runs again makes the same tokens
        token = f"left(sha2(concat((SELECT salt FROM {_SALT}), {VALUE}), 256), {DIGITS}) AS {TOKEN}"
        made = missing.selectExpr(VALUE, token)
        if joined:
            size = sum(file.size for file in joined)
            older = _rows_of(frame_of_files(spark, folder, joined, schema))
            made = made.unionByName(older).repartition(1 + size // _BYTES_PER_FILE)
        made.write.parquet(str(entry_path(folder, path)))
        fault("tokens.written")
        files = _files_in(folder, path)
        if not files or _commit(folder, version, files, joined, _identity(project, _KIND)):
            fault("tokens.committed")
            return
        remove_folder(entry_path(folder, path))
    raise WaterclockError(
        "E622",
        "other processes added tokens at each attempt",
        where=folder,
        fix="try again",
        transient=True,
    )


def with_tokens_as_values(tokens: DataFrame) -> DataFrame:
    """Return the rows of a vault, and each token as a value of its own: rows that have tokens already keep them."""
    return tokens.unionByName(tokens.selectExpr(f"{TOKEN} AS {VALUE}", TOKEN))


def find_tokens(folder: str, values: Collection[str]) -> dict[str, str]:
    """Map those of some values that are in a vault to their tokens. Cost: a read of the vault, without Spark."""
    if not table_exists(folder):
        return {}
    with open_table(folder) as table:
        paths = list(table.files)
    found: dict[str, str] = {}
    wanted = pa.array(sorted(values), pa.string())
    for path in paths:
        with pq.ParquetFile(arrow_source(entry_path(folder, path))) as parquet:
            for batch in parquet.iter_batches():
                rows = batch.filter(pc.is_in(batch.column(VALUE), wanted))
                found |= zip(rows.column(VALUE).to_pylist(), rows.column(TOKEN).to_pylist(), strict=True)
    return found


def remove_values(folder: str, values: Collection[str], project: str, before: datetime) -> int:
    """Remove values and their tokens from a vault, also from its files of older versions. Return their number.

    Files that no commit names are removed if they were written earlier than `before`. May be repeated after a kill.
    Cost: a read of the vault, and a copy of the files with such values.
    """
    if not table_exists(folder):
        return 0
    removed = 0
    for _ in range(_MOST_ATTEMPTS):
        with open_table(folder) as table:
            version, files = table.version, dict(table.files)
        gone = {path: found for path in files if len(found := _positions(folder, path, values))}
        if not gone:
            break
        path = f"{_ROWS}/{uuid.uuid4().hex}"
        copy_without_rows(entry_path(folder), gone, path, leaves_no_value=True)
        fault("tokens.copied")
        older = [files[each] for each in gone]
        if _commit(folder, version, _files_in(folder, path), older, _identity(project, _ERASED)):
            removed += sum(map(len, gone.values()))
        else:
            remove_folder(entry_path(folder, path))
    fault("tokens.erased")
    purge_files(folder, before)
    with open_table(folder) as table:
        version = table.version
    purge_log(folder, known=version)
    return removed


def _commit(
    folder: str, version: int, files: Sequence[DataFile], instead_of: Sequence[LiveFile], identity: Identity
) -> bool:
    """Add files to a vault, and remove others. Return False if another commit came after `version`."""
    with open_table(folder) as table:
        if table.version != version:
            return False
        return try_commit(table, build_state_change(table, files, instead_of), identity) is not None


def _files_in(folder: str, path: str) -> list[DataFile]:
    """Return the files of a folder, without bounds of their values: the log would contain copies of these."""
    files = read_files(entry_path(folder), path)
    return [replace(file, stats=json.dumps({"numRecords": file.rows})) for file in files]


def _positions(folder: str, path: str, values: Collection[str]) -> pa.Array:
    with pq.ParquetFile(arrow_source(entry_path(folder, path))) as parquet:
        column = parquet.read(columns=[VALUE]).column(VALUE)
    return pc.indices_nonzero(pc.is_in(column, pa.array(sorted(values), pa.string()))).cast(pa.int64())


def _rows_of(frame: DataFrame) -> DataFrame:
    """Return the columns of a vault. Each table of a storage also has a label, which is NULL here."""
    return frame.select(VALUE, TOKEN)


def _create_salt(spark: SparkSession) -> None:
    """Create a view with a random salt. It is sent as an Arrow table, of whose values no plan shows any."""
    salt = pa.table({"salt": [secrets.token_hex(32)]})
    spark.createDataFrame(salt).createOrReplaceTempView(_SALT)


def _struct() -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(_SCHEMA))


def _identity(project: str, kind: str) -> Identity:
    return Identity(project, "", kind, (), "", 0, "")
