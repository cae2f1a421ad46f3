"""Reads a sheet of a workbook into Arrow batches of texts. A separate process parses the workbook."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import IO, TYPE_CHECKING

from waterclock.connectors.files.python_readers import NUMBER
from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.sheet_rows import SheetRequest
from waterclock.connectors.files.workbook_process import read_columns, read_rows

if TYPE_CHECKING:
    import pyarrow as pa


def columns_of(file: IO[bytes], reading: ReadOptions, declared: Sequence[str]) -> tuple[str, ...]:
    """Return the column names of the sheet that the options select.

    Raises the errors of `read_columns`.
    Cost: the workbook is parsed.
    """
    return read_columns(file, _request(reading, declared))


def reader_of(
    reading: ReadOptions, names: tuple[str, ...], near: AbstractSet[str] = frozenset()
) -> Callable[[IO[bytes]], Iterator[pa.RecordBatch]]:
    """Return a function that reads a sheet into batches of texts, without empty rows.

    A number is written with 15 digits, as spreadsheets show it, if its further digits are rounding noise: the sum of
    0.1 and 0.2 is 0.3. Columns named in `near` keep all digits.
    """
    request = _request(reading, names, near)

    def batches(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = pa.schema([*((f"c{at}", pa.string()) for at in range(len(names))), (NUMBER, pa.int64())])
        for columns in read_rows(file, request):
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return batches


def _request(reading: ReadOptions, names: Sequence[str], near: AbstractSet[str] = frozenset()) -> SheetRequest:
    return SheetRequest(
        sheet=reading.sheet,
        cells=reading.cells,
        has_header=reading.has_header,
        fills_merged=reading.merged == "fill",
        null=reading.null,
        declared=tuple(names),
        near=tuple(at for at, name in enumerate(names) if name in near),
    )
