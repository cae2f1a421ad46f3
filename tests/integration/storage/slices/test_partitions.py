"""PARTITION BY writes a file for each value of a column, and changes neither rows nor digests nor counts (PT-49)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waterclock.errors import WaterclockError
from waterclock.storage.lake import Lake
from waterclock.storage.slices import partitions
from waterclock.storage.slices.manifest import Manifest
from waterclock.storage.slices.partitions import Partitioning, values_of_files
from waterclock.storage.slices.row_filter import ROW_DROPPED, RowFilter, RowFilterSettings, RowRule
from waterclock.storage.slices.writer import WrittenSlices, write_slices
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
TABLE = "web.clicks"
HOURS = [datetime(2018, 3, 5, 8, tzinfo=UTC) + timedelta(hours=number) for number in range(20)]
Row = tuple[int, Any, int]


def frame_of(spark: SparkSession, rows: list[Row], type_: str = "STRING", labels: int = 0) -> DataFrame:
    """Return rows (id, country, at) in two tasks, with the labels of HOURS in turn if there are several."""
    frame = spark.createDataFrame(
        [(n, None if v is None else str(v), at) for n, v, at in rows], "id INT, c STRING, at INT"
    )
    frame = frame.selectExpr("id", f"CAST(c AS {type_}) AS country", "at").repartition(2)
    if labels:
        texts = ", ".join(f"'{label_of(label)}'" for label in HOURS[:labels])
        frame = frame.selectExpr("*", f"element_at(array({texts}), id % {labels} + 1) AS timelabel")
    return frame


def write(
    frame: DataFrame, root: Path, last: Manifest | None = None, *, labels: int = 1, claim: int = 7, **more: Any
) -> WrittenSlices:
    lake = Lake(str(root))
    values = values_of_files(last.files, "country") if last is not None else ()
    split = Partitioning("country", values, ("country", "at"), f"{TABLE}@x")
    return write_slices(
        frame, folder=lake.folder(TABLE), claim=claim, labels=HOURS[:labels], lake=lake, code="c1",
        sort_by=("country", "at"), clustering=split, **more,
    )  # fmt: skip


def files(root: Path, manifest: Manifest) -> list[list[tuple[Any, ...]]]:
    """Return (country, at, id) of the rows of each file, in the order of the file."""
    found = []
    for file in manifest.files:
        table = pq.read_table(Path(Lake(str(root)).folder(TABLE), file.path), partitioning=None)
        found.append(list(zip(*(table[name].to_pylist() for name in ("country", "at", "id")), strict=True)))
    return found


def check(root: Path, manifest: Manifest, rows: list[Row], *, is_single: bool = True) -> None:
    """Check that each file has one value and is sorted, and that no row is missing.

    `is_single`: each value has one file. A label that is not split, because all its rows have one value, may have
    several.
    """
    found = files(root, manifest)
    assert all(len({repr(row[0]) for row in of_file}) == 1 for of_file in found)
    assert not is_single or len({repr(of_file[0][0]) for of_file in found}) == len(found)
    assert all(of_file == sorted(of_file, key=lambda row: row[1]) for of_file in found)
    assert Counter(row[2] for of_file in found for row in of_file) == Counter(number for number, _, _ in rows)
    assert manifest.rows == len(rows)


def some_rows(*values: Any, each: int = 20) -> list[Row]:
    return [(number, values[number % len(values)], number * 7 % 11) for number in range(each * len(values))]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("STRING", ["DE", "FR", None, "", "ÄÖ", "a" * 40, "a" * 40 + "b"]),
        ("BIGINT", [3, 20, 100, -5, None]),
        ("DOUBLE", [0.1, -2.5, 1e300, "NaN", None]),
        ("DECIMAL(10, 2)", ["1.10", "12.00", "-3.05", None]),
        ("DATE", ["2024-02-29", "1969-12-31", None]),
        ("TIMESTAMP", ["2024-02-29T00:00:00.000001Z", "2024-02-29T00:00:00.000002Z", None]),
    ],
)
def test_each_value_has_a_file_of_its_own_at_first_and_later(
    spark: SparkSession, tmp_path: Path, type_: str, values: list[Any]
) -> None:
    rows = some_rows(*values)
    [first] = write(frame_of(spark, rows, type_), tmp_path).manifests
    check(tmp_path, first, rows)
    fewer = some_rows(*values[1:])
    [second] = write(frame_of(spark, fewer, type_), tmp_path, first, claim=8).manifests
    check(tmp_path, second, fewer)


def test_rows_of_known_values_are_written_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = some_rows("DE", "FR", "IT", None)
    [first] = write(frame_of(spark, rows), tmp_path).manifests
    again: list[int] = []
    split = partitions._split_files

    def count(*parts: Any) -> None:
        again.append(len(parts[3]))
        split(*parts)

    monkeypatch.setattr(partitions, "_split_files", count)
    write(frame_of(spark, rows), tmp_path, first, claim=8)
    assert again == []
    [third] = write(frame_of(spark, some_rows("DE", "ES", "FR", "US")), tmp_path, first, claim=9).manifests
    assert again == [1]  # ES is between DE and FR; US is the only one above IT
    check(tmp_path, third, some_rows("DE", "ES", "FR", "US"))


def test_labels_of_a_group_have_files_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    rows = some_rows("DE", "FR", "IT", each=40)
    [first] = write(frame_of(spark, rows), tmp_path).manifests
    for claim, last in ((8, None), (9, first)):
        made = write(frame_of(spark, rows, labels=3), tmp_path, last, labels=3, claim=claim).manifests
        for index, manifest in enumerate(made):
            check(tmp_path, manifest, [row for row in rows if row[0] % 3 == index])


def test_digests_are_those_of_unsplit_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = some_rows("DE", "FR", None)
    lake = Lake(str(tmp_path / "plain"))
    plain = write_slices(
        frame_of(spark, rows), folder=lake.folder(TABLE), claim=7, labels=HOURS[:1], lake=lake, code="c1"
    ).manifests
    split = write(frame_of(spark, rows), tmp_path / "split").manifests
    assert [each.digest for each in plain] == [each.digest for each in split]


def test_no_rows_make_no_file(spark: SparkSession, tmp_path: Path) -> None:
    [empty] = write(frame_of(spark, [(1, "DE", 1)]).where("id > 1"), tmp_path).manifests
    assert (empty.files, empty.rows) == ((), 0)
    assert values_of_files(empty.files, "country") == ()


def test_too_many_values_are_refused_and_nothing_is_sealed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "MOST_VALUES", 5)
    rows = some_rows(*range(5))
    [first] = write(frame_of(spark, rows, "INT"), tmp_path).manifests
    check(tmp_path, first, rows)
    for last in (None, first):
        with pytest.raises(WaterclockError, match="more than 5 values") as raised:
            write(frame_of(spark, some_rows(*range(6)), "INT"), tmp_path, last, claim=8)
        assert raised.value.code == "E776"


def test_filtered_rows_leave_the_others_in_files_of_one_value(spark: SparkSession, tmp_path: Path) -> None:
    rows = some_rows("DE", "FR")
    frame = frame_of(spark, rows)
    rules = (RowRule("r0", "id < 10", ROW_DROPPED),)
    through = RowFilterSettings(RowFilter(rules), {name: name for name in frame.columns}, frame.schema.json())
    [made] = write(frame, tmp_path, through=through).manifests
    check(tmp_path, made, [row for row in rows if row[0] < 10])


VALUES = st.lists(st.one_of(st.none(), st.integers(-20, 20)), min_size=1, max_size=12)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES, min_size=1, max_size=4))
def test_any_history_of_values_has_a_file_for_each(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, histories: list[list[Any]]
) -> None:
    root, last = tmp_path_factory.mktemp("lake"), None
    for claim, values in enumerate(histories, 7):
        rows = [(number, value, number) for number, value in enumerate(values)]
        [last] = write(frame_of(spark, rows, "INT"), root, last, claim=claim).manifests
        check(root, last, rows, is_single=False)
