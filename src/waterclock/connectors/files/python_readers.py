"""Reads file formats for which Spark has no reader, in Spark's Python workers, as Arrow batches."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import IO, TYPE_CHECKING

from waterclock.connectors.files.type_errors import PATH, REFUSED
from waterclock.connectors.windowing import file_uri_of
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import map_each, stat_file
from waterclock.files.object_stores import is_remote
from waterclock.spark_sql import literal_path

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NUMBER = "_waterclock_number"
_MOST_BUCKET_BYTES = 512 << 20
_MOST_TASKS = 200

Reader = Callable[[IO[bytes]], "Iterator[pa.RecordBatch]"]
"""Reads one open file into batches, whose last column is `NUMBER`: the number of each row in the file, from 1."""


def read_by_python(spark: SparkSession, paths: Sequence[str], read: Reader, ddl: str) -> DataFrame:
    """Read files with `read` in Spark's workers. The frame has the columns of `ddl`, `NUMBER` and `PATH`.

    Files on this machine and on shared folders are read as streams, in place. Spark loads the files of a bucket into
    memory, because its workers have access to the bucket.
    Raises E886 for a file of a bucket that is too large to be loaded into memory.
    """
    schema = f"{ddl}, {NUMBER} BIGINT, {PATH} STRING"
    stored, local = [path for path in paths if is_remote(path)], [path for path in paths if not is_remote(path)]
    frames: list[DataFrame] = []
    if stored:
        _require_loadable_size(stored)
        content = spark.read.format("binaryFile").load([literal_path(path) for path in stored])
        frames.append(content.selectExpr("_metadata.file_path", "content").mapInArrow(_read_contents(read), schema))
    if local:
        parts = min(len(local), _MOST_TASKS)
        frames.append(spark.range(0, len(local), 1, parts).mapInArrow(_read_paths(read, tuple(local)), schema))
    return reduce(lambda one, other: one.unionAll(other), frames)


def _read_paths(read: Reader, paths: tuple[str, ...]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def batches(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in ids:
            for at in each.column(0).to_pylist():
                with _add_file_to_errors(file_uri_of(paths[at])), Path(paths[at]).open("rb") as file:
                    yield from _add_path(read(file), file_uri_of(paths[at]))

    return batches


def _read_contents(read: Reader) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def batches(files: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in files:
            for uri, content in zip(each.column(0).to_pylist(), each.column(1), strict=True):
                with _add_file_to_errors(uri):
                    yield from _add_path(read(io.BytesIO(content.as_buffer())), uri)

    return batches


def _add_path(batches: Iterator[pa.RecordBatch], uri: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        yield batch.append_column(PATH, pa.array([uri] * batch.num_rows, pa.string()))


@contextmanager
def _add_file_to_errors(uri: str) -> Iterator[None]:
    """Add the file's name to any error from reading it, so that the driver can report it."""
    try:
        yield
    except WaterclockError as error:
        raise RuntimeError(f"{REFUSED}|{uri}|{error.code}|{error.what}: {error.why}|") from error
    except Exception as error:
        raise RuntimeError(f"{REFUSED}|{uri}|E807|{str(error) or type(error).__name__}|") from error


def _require_loadable_size(paths: Sequence[str]) -> None:
    sizes = map_each(paths, lambda path: stat_file(path).size, at=paths[0])
    for path, size in zip(paths, sizes, strict=True):
        if size > _MOST_BUCKET_BYTES:
            raise WaterclockError(
                "E886",
                f"{path.rpartition('/')[2]} is too large to be read whole",
                where=path,
                why=f"it has {size >> 20} MB; one worker loads such a file of a bucket into memory, and the limit is "
                f"{_MOST_BUCKET_BYTES >> 20} MB",
                fix="send it in parts, or as Parquet, CSV or JSON lines",
            )
