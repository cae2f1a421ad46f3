"""Searches Parquet files: values of columns, statistics, and the bytes of pages, dictionaries and the footer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np

from waterclock.storage.search.matching import ValueMatcher, is_doubtful
from waterclock.storage.search.parquet_pages import pages_of

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 1 << 14
_LONGEST_NUMBER = 20
MOST_POSSIBLE = 1000
"""The number of possible values in a column of a file after which only certain ones are searched there."""
_NUMBER = re.compile(r"-?[1-9][0-9]*|0", re.ASCII)


class Found(Protocol):
    """Takes the place of occurrences and their number."""

    def __call__(self, where: str, count: int, *, is_certain: bool) -> None:
        """Record the occurrences."""
        ...


class ParquetSearch:
    """Searches Parquet files for values.

    A short value or a number is certain as a whole value of a column that `is_subject` selects, and else only possible.
    `matcher` finds all values, `certain` those that are neither short nor a number.
    """

    def __init__(
        self, values: frozenset[str], matcher: ValueMatcher, certain: ValueMatcher, is_subject: Callable[[str], bool]
    ) -> None:
        self._values = values
        self._matcher = matcher
        self._certain = certain
        self._is_subject = is_subject
        self._possible: Counter[str] = Counter()  # by column of the current file
        self._doubtful = frozenset(filter(is_doubtful, values))
        numbers = (int(value) for value in values if len(value) <= _LONGEST_NUMBER and _NUMBER.fullmatch(value))
        self._numbers = frozenset(number for number in numbers if abs(number) < 1 << 63)

    def search(self, file: IO[bytes], found: Found) -> Iterator[str]:
        """Report the occurrences in a file to `found`. Yield the reasons for which parts of it were not searched.

        Raises OSError or ArrowException for a file that cannot be read.
        """
        import pyarrow.parquet as pq

        self._possible.clear()
        parquet = pq.ParquetFile(file)
        names = [field.name for field in parquet.schema_arrow]
        for at in range(parquet.num_row_groups):
            group = parquet.metadata.row_group(at)
            for column in range(group.num_columns):
                chunk = group.column(column)
                self._search_statistics(chunk, at, found)
                if self._certain.is_empty:
                    continue
                try:
                    for page in pages_of(file, chunk):
                        if count := sum(1 for _ in self._certain.find(page)):
                            found(f"pages of column {chunk.path_in_schema}, row group {at + 1}", count, is_certain=True)
                except (ValueError, OSError, RecursionError) as error:
                    yield f"pages of column {chunk.path_in_schema}: {error}"
            for batch in parquet.iter_batches(_BATCH, row_groups=[at]):
                for name, values in zip(names, batch.columns, strict=True):
                    self._search_values(values, name, f"column {name}, row group {at + 1}", found)

    def _search_statistics(self, chunk: Any, group: int, found: Found) -> None:
        if not chunk.is_stats_set or not chunk.statistics.has_min_max:
            return
        is_subject = self._is_subject(chunk.path_in_schema)
        for value in {chunk.statistics.min, chunk.statistics.max}:
            if str(value) in self._values and (is_subject or isinstance(value, str | bytes)):
                is_certain = is_subject or str(value) not in self._doubtful
                found(f"statistics of column {chunk.path_in_schema}, row group {group + 1}", 1, is_certain=is_certain)

    def _search_values(self, values: pa.Array, name: str, place: str, found: Found) -> None:
        import pyarrow as pa

        kind = values.type
        if isinstance(values, pa.ExtensionArray):
            self._search_values(values.storage, name, place, found)
        elif pa.types.is_dictionary(kind):
            self._search_values(values.dictionary, name, place, found)
        elif pa.types.is_struct(kind):
            for at in range(kind.num_fields):
                inner = kind.field(at).name
                self._search_values(values.field(at), inner, f"{place}, field {inner}", found)
        elif pa.types.is_map(kind):
            self._search_values(values.keys, name, place, found)
            self._search_values(values.items, name, place, found)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            self._search_values(values.flatten(), name, place, found)
        elif _is_text(kind):
            self._search_texts(values.cast(pa.large_binary()), name, place, found)
        elif self._numbers and self._is_subject(name) and (count := self._count_numbers(values)):
            found(place, count, is_certain=True)

    def _count_numbers(self, values: pa.Array) -> int:
        """Return how many whole numbers are those of persons; 0 for values of other types."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_integer(values.type):
            return _count_equal(pc.cast(values, pa.int64(), safe=False), pa.array(self._numbers, pa.int64()))
        if pa.types.is_decimal(values.type) and values.type.scale == 0:
            return _count_equal(pc.cast(values, pa.string()), pa.array(sorted(self._values)))
        return 0

    def _search_texts(self, values: pa.Array, name: str, place: str, found: Found) -> None:
        import pyarrow as pa

        doubtful = pa.array([value.encode("utf-8", "surrogatepass") for value in self._doubtful], pa.large_binary())
        if whole := _count_equal(values, doubtful):
            found(place, whole, is_certain=self._is_subject(name))
        values, rows = _distinct(values)
        _, offset_bytes, data = values.buffers()
        if data is None or offset_bytes is None or not len(values):
            return
        offsets = np.frombuffer(offset_bytes, np.int64)[values.offset : values.offset + len(values) + 1]
        first = int(offsets[0])
        content = data.slice(first, int(offsets[-1]) - first).to_pybytes()
        counts = {True: 0, False: 0}
        matcher = self._matcher if self._possible[name] < MOST_POSSIBLE else self._certain
        matches = list(matcher.find_anywhere(content))
        starts = np.array([match.start for match in matches], np.int64) + first
        at = np.searchsorted(offsets, starts, "right") - 1
        bounds = zip((offsets[at] - first).tolist(), (offsets[at + 1] - first).tolist(), rows[at].tolist(), strict=True)
        for match, (low, high, count) in zip(matches, bounds, strict=True):
            is_whole = (match.start, match.start + len(match.needle.text)) == (low, high)
            if match.needle.fits(content, match.start, low, high) and not (is_whole and match.needle.is_doubtful):
                counts[not match.needle.is_doubtful] += count
        self._possible[name] += counts[False]
        for is_certain, count in counts.items():
            if count:
                found(place, count, is_certain=is_certain)


def _distinct(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return texts, each once if most come several times, such as a label in each row; and how often each comes."""
    import pyarrow.compute as pc

    counted = pc.value_counts(values)
    if 2 * len(counted) > len(values):
        return values, np.ones(len(values), np.int64)
    return counted.field("values"), counted.field("counts").to_numpy()


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    views = (pa.types.is_string_view, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(check(kind) for check in (*checks, *views))


def _count_equal(values: pa.Array, wanted: pa.Array) -> int:
    import pyarrow.compute as pc

    return pc.sum(pc.is_in(values, value_set=wanted)).as_py() or 0
