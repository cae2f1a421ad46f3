"""Landing folders read with Spark: cases that the conformance suites do not cover."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.systems import LandingFolder, ParquetFolder, csv_text, unit_of
from waterclock.connectors.files.connector import FilesCollector
from waterclock.connectors.interface import Collected, WindowRequest
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Columns
from waterclock.testing.connectors import declared
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY = datetime(2013, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def folder(tmp_path: Path) -> LandingFolder:
    return LandingFolder(tmp_path)


def collector(folder: LandingFolder) -> FilesCollector:
    return FilesCollector(folder.setting)


def drop(folder: LandingFolder, name: str, text: str) -> Path:
    path = folder.folder / "new" / "drop" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def rows(read: Collected) -> list[dict[str, Any]]:
    return [row.asDict() for row in read.frame.collect()]


def snapshot(
    spark: SparkSession, folder: LandingFolder, name: str, columns: Columns, **options: str | bool
) -> list[dict[str, Any]]:
    zone = str(options.pop("zone", "UTC"))
    unit = unit_of("landing", f"drop/{name}", **options)
    return rows(collector(folder).read_snapshot(spark, unit, columns, zone))


def refused(
    spark: SparkSession, folder: LandingFolder, name: str, columns: Columns, **options: str | bool
) -> WaterclockError:
    unit = unit_of("landing", f"drop/{name}", **options)
    reader = collector(folder)
    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark's error, which is explained)
        rows(reader.read_snapshot(spark, unit, columns, "UTC"))
    told = reader.explain(unit, columns, caught.value)
    assert told is not None
    return told


def test_columns_are_put_together_by_name_where_headers_differ(spark: SparkSession, folder: LandingFolder) -> None:
    drop(folder, "a.csv", "id,amount\n1,10\n")
    drop(folder, "b.csv", "amount,note,id\n20,n,2\n")
    read = snapshot(spark, folder, "*.csv", declared(("amount", "INT")))
    assert sorted(read, key=lambda row: str(row["id"])) == [
        {"amount": 10, "id": "1", "note": None},
        {"amount": 20, "id": "2", "note": "n"},
    ]


def test_files_of_one_header_share_one_scan(spark: SparkSession, folder: LandingFolder) -> None:
    for at in range(24):
        folder.put(DAY + at * HOUR, [{"id": str(at), "note": "n"}])
    reader = collector(folder)
    taken = {item.stamp: [item] for item in reader.arrivals(folder.unit).items}
    frame = reader.read_items(spark, folder.unit, taken, declared(), "UTC").frame
    plan = frame._jdf.queryExecution().toString()
    assert plan.count("FileScan csv") == 1
    assert {row["timelabel"] for row in frame.collect()} == {f"20130101{at:02}0000" for at in range(24)}


def test_labels_of_more_files_than_fit_an_expression_are_joined(spark: SparkSession, folder: LandingFolder) -> None:
    for at in range(70):
        folder.put(DAY + at * HOUR, [{"id": str(at), "note": "n"}])
    reader = collector(folder)
    taken = {item.stamp: [item] for item in reader.arrivals(folder.unit).items}
    read = rows(reader.read_items(spark, folder.unit, taken, declared(), "UTC"))
    expected = {str(at): f"{DAY + at * HOUR:%Y%m%d%H%M%S}" for at in range(70)}
    assert {row["id"]: row["timelabel"] for row in read} == expected


@pytest.mark.parametrize(
    "name", ["a b+c=1,2;é#%41&@!.csv.gz", "2013-01-01T05:00:00.csv", "[x]{y}?*.csv", "~$'(y)!.csv"]
)
def test_files_may_have_any_name(spark: SparkSession, folder: LandingFolder, name: str) -> None:
    drop(folder, name, "id\n1\n")
    drop(folder, "other.csv", "id\n2\n")
    unit = unit_of("landing", "drop/*.csv*")
    reader = collector(folder)
    items = {Path(item.path).name: item for item in reader.arrivals(unit).items}
    other = next(item for found, item in items.items() if found != name)
    read = rows(reader.read_items(spark, unit, {DAY: [items[name]], DAY + HOUR: [other]}, declared(), "UTC"))
    assert {row["id"]: row["timelabel"] for row in read} == {"1": "20130101000000", "2": "20130101010000"}


def test_a_landing_folder_path_may_be_relative_to_the_parent_of_the_project(
    spark: SparkSession, folder: LandingFolder
) -> None:
    for at in range(2):
        stamp = DAY + at * HOUR + timedelta(minutes=59)
        folder.put(stamp, [{"id": str(at), "at": ""}, {"id": str(at), "at": f"{DAY + at * HOUR:%Y-%m-%d %H:%M:%S}"}])
    setting = folder.setting
    way = {"path": f"../{setting.folder.name}/{setting.options['path']}"}
    reader = FilesCollector(replace(setting, options={**setting.options, **way}))
    first, second = reader.arrivals(folder.unit).items
    labelled = reader.read_items(spark, folder.unit, {DAY: [first], DAY + HOUR: [second]}, declared(), "UTC")
    assert {(row["id"], row["timelabel"]) for row in rows(labelled)} == {
        ("0", "20130101000000"),
        ("1", "20130101010000"),
    }
    read = reader.read_windows(spark, folder.unit, WindowRequest("at", [Window(DAY, DAY + HOUR)]), declared(), "UTC")
    assert [row["id"] for row in rows(read)] == ["0"]
    assert dict(read.set_aside()) == {"rows without a data time": 1}  # the other row belongs to the next window's file


@pytest.mark.parametrize("columns", [declared(("id", "INT")), declared(("id", "INT"), is_open=False)])
@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("2", "it has 1 fields where 3 are expected"),
        ("2,n,x,y", "it has 4 fields where 3 are expected"),
        ("two,n,x", "id is 'two', which is not INT"),
    ],
)
def test_a_broken_row_names_file_line_and_reason(
    spark: SparkSession, folder: LandingFolder, columns: Columns, row: str, why: str
) -> None:
    path = drop(folder, "a.csv.gz", f"id,note,rest\n1,n,x\n\n{row}\n3,n,x\n")
    error = refused(spark, folder, "a.csv.gz", columns)
    assert (error.code, error.where, error.why) == ("E806", f"{path}:4", why)
    assert not error.transient


def test_a_broken_line_of_json_names_file_and_line(spark: SparkSession, folder: LandingFolder) -> None:
    path = drop(folder, "a.json", '{"id": 1}\n{"id": }\n{"id": 3}\n')
    error = refused(spark, folder, "a.json", declared(("id", "INT")))
    assert (error.code, error.where) == ("E806", f"{path}:2")


def test_numbers_of_json_may_be_quoted(spark: SparkSession, folder: LandingFolder) -> None:
    drop(folder, "a.json", '{"id": "1", "x": {"y": [1]}}\n{"id": 2, "x": "z"}\n')
    read = snapshot(spark, folder, "a.json", declared(("id", "BIGINT")))
    assert read == [{"id": 1, "x": '{"y": [1]}'}, {"id": 2, "x": "z"}]


def test_a_key_that_only_a_late_line_has_is_a_column(spark: SparkSession, folder: LandingFolder) -> None:
    drop(folder, "a.json", '{"id": 1}\n' * 2000 + '{"id": 2, "rare": "r"}\n')
    assert [row["rare"] for row in snapshot(spark, folder, "a.json", declared()) if row["rare"]] == ["r"]


def test_a_large_truncated_gzip_file_is_reported_with_its_path(
    spark: SparkSession, folder: LandingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.connectors.files.completeness._MOST_READ", {})
    text = csv_text([{"id": str(at), "note": f"{at * 7919}"} for at in range(20_000)])
    path = drop(folder, "cut.csv.gz", text)
    path.write_bytes(path.read_bytes()[:-2000])
    error = refused(spark, folder, "cut.csv.gz", declared())
    assert (error.code, error.where) == ("E807", str(path))


def test_a_file_deleted_before_it_is_read_is_reported_with_its_path(spark: SparkSession, folder: LandingFolder) -> None:
    path = drop(folder, "a.csv", "id\n1\n")
    reader = collector(folder)
    unit = unit_of("landing", "drop/a.csv")
    frame = reader.read_snapshot(spark, unit, declared(), "UTC").frame
    path.unlink()
    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark's error)
        frame.collect()
    told = reader.explain(unit, declared(), caught.value)
    assert told is not None
    assert (told.code, told.where, told.transient) == ("E807", str(path), True)


@pytest.mark.parametrize("kind", ["snapshot", "raw", "window"])
def test_a_file_that_is_replaced_while_it_is_read_fails_the_batch(
    spark: SparkSession, folder: LandingFolder, kind: str
) -> None:
    path = folder.file(DAY + HOUR, "csv")
    path.write_text("id,at\n1,2013-01-01 00:10:00\n2,2013-01-01 00:20:00\n")
    reader = collector(folder)
    if kind == "window":
        request = WindowRequest("at", [Window(DAY, DAY + HOUR)])
        read = reader.read_windows(spark, folder.unit, request, declared(), "UTC")
    else:
        unit = unit_of("landing", "shop.orders", format="raw") if kind == "raw" else folder.unit
        read = reader.read_snapshot(spark, unit, declared(), "UTC")
    read.before_commit()
    path.write_text("id,at\n1,2013-01-01 00:10:00\n")  # the sender rewrites it, and has written a part
    with pytest.raises(WaterclockError, match="changed while it was read") as caught:
        read.before_commit()
    assert (caught.value.code, caught.value.transient) == ("E807", True)


def test_a_file_by_its_last_change_may_grow_while_a_window_of_it_is_read(
    spark: SparkSession, folder: LandingFolder
) -> None:
    path = drop(folder, "log.csv", "id,at\n1,2013-01-01 00:10:00\n")
    request = WindowRequest("at", [Window(DAY, DAY + HOUR)])
    read = collector(folder).read_windows(spark, unit_of("landing", "drop/*.csv"), request, declared(), "UTC")
    with path.open("a") as file:
        file.write("2,2013-01-01 01:10:00\n")
    read.before_commit()
    path.write_text("id,at\n")
    with pytest.raises(WaterclockError, match="changed while it was read"):
        read.before_commit()


def test_csv_is_read_as_its_options_say(spark: SparkSession, folder: LandingFolder) -> None:
    drop(folder, "a.csv", "1;'x;y';NA;2013/01/02\n")
    columns = declared(("id", "INT"), ("note", None), ("amount", "DOUBLE"), ("day", "DATE"))
    options: dict[str, str | bool] = {
        "header": False,
        "delimiter": ";",
        "quote": "'",
        "null": "NA",
        "date_format": "yyyy/MM/dd",
    }
    (read,) = snapshot(spark, folder, "a.csv", columns, **options)
    assert (read["id"], read["note"], read["amount"], str(read["day"])) == (1, "x;y", None, "2013-01-02")


FIELDS = ['he said "hi"', 'a "x", b', "C:\\", '"', 'ends"', 'say "a","b","c"', "1, 2"]


def test_quotes_within_fields_are_doubled_as_programs_write_them(spark: SparkSession, folder: LandingFolder) -> None:
    text = io.StringIO()
    lines = [("id", "note", 'a "name", quoted'), *((at, note, "n") for at, note in enumerate(FIELDS))]
    csv.writer(text).writerows(lines)
    drop(folder, "a.csv", text.getvalue())
    read = snapshot(spark, folder, "a.csv", declared())
    assert [row["note"] for row in sorted(read, key=lambda row: int(row["id"]))] == FIELDS
    assert {value for row in read for name, value in row.items() if name not in {"id", "note"}} == {"n"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"escape": "\\"}, 'id,note\n1,"he \\"q\\" said, ok"\n'),
        ({"quote": "'"}, "id,note\n1,'he \"q\" said, ok'\n"),
        ({"quote": "", "delimiter": ";"}, 'id;note\n1;he "q" said, ok\n'),
    ],
)
def test_csv_files_are_parsed_with_the_declared_quote_escape_and_delimiter(
    spark: SparkSession, folder: LandingFolder, options: dict[str, str | bool], text: str
) -> None:
    drop(folder, "a.csv", text)
    assert snapshot(spark, folder, "a.csv", declared(), **options) == [{"id": "1", "note": 'he "q" said, ok'}]
    drop(folder, "b.csv", text + text.splitlines()[1].replace("1", "two", 1) + "\n")
    told = refused(spark, folder, "b.csv", declared(("id", "INT")), **options)
    assert (told.code, str(told.where)[-2:], told.why) == ("E806", ":3", "id is 'two', which is not INT")


def test_a_quoted_field_may_span_lines_with_the_multiline_option(spark: SparkSession, folder: LandingFolder) -> None:
    drop(folder, "a.csv", 'id,note\n1,"two\nlines"\n')
    assert snapshot(spark, folder, "a.csv", declared(), multiline=True) == [{"id": "1", "note": "two\nlines"}]


def test_other_encodings_and_byte_order_marks(spark: SparkSession, folder: LandingFolder) -> None:
    drop(folder, "bom.csv", "\ufeffid,note\n1,é\n")
    assert snapshot(spark, folder, "bom.csv", declared()) == [{"id": "1", "note": "é"}]
    drop(folder, "latin.csv", "").write_bytes("id,naïve\n1,é\n".encode("latin-1"))
    assert snapshot(spark, folder, "latin.csv", declared(), encoding="ISO-8859-1") == [{"id": "1", "naïve": "é"}]


def test_tabs_part_the_fields_of_tsv(spark: SparkSession, folder: LandingFolder) -> None:
    drop(folder, "a.tsv", "id\tnote\n1\ta,b\n")
    assert snapshot(spark, folder, "a.tsv", declared()) == [{"id": "1", "note": "a,b"}]


@pytest.mark.parametrize("compression", ["gzip", "bz2", "zstd"])
def test_compressed_files_are_read(spark: SparkSession, folder: LandingFolder, compression: str) -> None:
    import pyarrow as pa

    ending = {"gzip": "gz", "bz2": "bz2", "zstd": "zst"}[compression]
    path = drop(folder, f"a.csv.{ending}", "")
    with pa.CompressedOutputStream(str(path), compression) as stream:
        stream.write(b"id,note\n1,n\n")
    assert snapshot(spark, folder, f"a.csv.{ending}", declared(("id", "INT"))) == [{"id": 1, "note": "n"}]


def test_times_without_a_zone_are_read_in_the_cadences_zone(spark: SparkSession, folder: LandingFolder) -> None:
    drop(folder, "a.csv", "at\n2013-11-03 01:30:00\n2013-03-10 02:30:00\n2013-01-01 12:00:00+01:00\n2013-01-01\n")
    read = snapshot(spark, folder, "a.csv", declared(("at", "TIMESTAMP")), zone="America/New_York")
    assert [str(row["at"]) for row in read] == [
        "2013-11-03 05:30:00",
        "2013-03-10 07:30:00",
        "2013-01-01 11:00:00",
        "2013-01-01 05:00:00",
    ]


def test_parquet_times_without_a_zone_are_read_in_the_cadences_zone(spark: SparkSession, tmp_path: Path) -> None:
    folder = ParquetFolder(tmp_path)
    folder.put(DAY, [{"id": 1, "at": datetime(2013, 11, 3, 1, 30)}])  # noqa: DTZ001 (it has no zone)
    reader = collector(folder)
    untyped = reader.read_snapshot(spark, folder.unit, declared(), "America/New_York").frame
    typed = reader.read_snapshot(spark, folder.unit, declared(("at", "TIMESTAMP")), "America/New_York").frame
    assert [(field.name, field.dataType.simpleString()) for field in untyped.schema] == [
        ("id", "bigint"),
        ("at", "timestamp_ntz"),
    ]
    assert [str(row["at"]) for row in typed.collect()] == ["2013-11-03 05:30:00"]


def test_files_of_several_formats_are_refused(spark: SparkSession, folder: LandingFolder) -> None:
    drop(folder, "a.csv", "id\n1\n")
    drop(folder, "b.json", '{"id": 1}\n')
    with pytest.raises(WaterclockError, match="E809"):
        snapshot(spark, folder, "*", declared())


def test_a_file_that_lost_a_declared_column_is_named(spark: SparkSession, folder: LandingFolder) -> None:
    folder.put(DAY, [{"id": "1", "note": "n"}])
    path = folder.put(DAY + HOUR, [{"id": "2", "nota": "n"}])
    reader = collector(folder)
    taken = {DAY: reader.arrivals(folder.unit).items}
    with pytest.raises(WaterclockError) as caught:
        reader.read_items(spark, folder.unit, taken, declared(("note", None)), "UTC")
    assert (caught.value.code, caught.value.where, caught.value.fix) == ("E805", str(path), "did you mean nota?")


def test_windows_without_files_have_columns_and_no_rows(spark: SparkSession, folder: LandingFolder) -> None:
    reader = collector(folder)
    none: dict[datetime, Sequence[Any]] = {DAY: []}
    empty = reader.read_items(spark, folder.unit, none, declared(("id", "INT")), "UTC").frame
    assert (empty.columns, empty.count()) == (["id", "timelabel"], 0)
    folder.put(DAY, [{"id": "1", "note": "n"}])
    known = reader.read_items(spark, folder.unit, none, declared(("id", "INT")), "UTC").frame
    assert (known.columns, known.count()) == (["id", "note", "timelabel"], 0)


def test_a_window_is_read_from_the_files_of_its_time_and_one_more(spark: SparkSession, folder: LandingFolder) -> None:
    for at in range(6):
        stamp = DAY + at * HOUR + timedelta(minutes=59, seconds=59)
        folder.put(stamp, [{"id": str(at), "at": f"{DAY + at * HOUR:%Y-%m-%d %H:%M:%S}"}])
    reader = collector(folder)
    window = Window(DAY + HOUR, DAY + 2 * HOUR)
    read = reader.read_windows(spark, folder.unit, WindowRequest("at", [window]), declared(), "UTC")
    assert [item["name"][-15:-7] for item in read.source["items"]] == ["01_59_59", "02_59_59"]
    wider = WindowRequest("at", [window], slack=2 * HOUR)
    read = reader.read_windows(spark, folder.unit, wider, declared(), "UTC")
    assert [item["name"][-15:-7] for item in read.source["items"]] == ["01_59_59", "02_59_59", "03_59_59", "04_59_59"]


def test_days_that_landed_together_are_each_read_from_their_file(spark: SparkSession, folder: LandingFolder) -> None:
    landed = (DAY + 240 * HOUR).timestamp()
    for at in range(3):
        day = DAY + at * 24 * HOUR
        path = drop(folder, f"orders_{day:%Y%m%d}.csv", f"id,at\n{at},{day:%Y-%m-%d} 12:00:00\n")
        os.utime(path, (landed, landed + at))
    reader, window = collector(folder), Window(DAY + 24 * HOUR, DAY + 48 * HOUR)
    for options, files in (({}, 3), ({"stamp": "%Y%m%d"}, 2)):
        unit = unit_of("landing", "drop/orders_*.csv", **options)
        read = reader.read_windows(spark, unit, WindowRequest("at", [window]), declared(), "UTC")
        assert [row["id"] for row in rows(read)] == ["1"]
        assert len(read.source["items"]) == files
        assert [note.partition(";")[0] for note in read.notes] == (
            [] if options else ["drop/orders_20130101.csv and 2 more have dates in their names that nothing declares"]
        )


def test_a_row_without_a_time_is_counted_in_one_window_alone(spark: SparkSession, folder: LandingFolder) -> None:
    for at in range(3):
        stamp = DAY + at * HOUR + timedelta(minutes=59)
        folder.put(stamp, [{"id": "x", "at": ""}, {"id": "y", "at": f"{DAY + at * HOUR:%Y-%m-%d %H:%M:%S}"}])
    reader = collector(folder)
    counts = []
    for at in range(3):
        window = Window(DAY + at * HOUR, DAY + (at + 1) * HOUR)
        read = reader.read_windows(spark, folder.unit, WindowRequest("at", [window]), declared(), "UTC")
        assert read.frame.count() == 1
        counts.append(dict(read.set_aside()))
    assert counts == [{"rows without a data time": 1}] * 3


def test_archived_files_are_read_by_data_time_too(spark: SparkSession, folder: LandingFolder) -> None:
    folder.put(DAY, [{"id": "1", "at": "2013-01-01 00:00:00"}])
    reader = collector(folder)
    reader.archive(folder.unit, reader.arrivals(folder.unit).items)
    request = WindowRequest("at", [Window(DAY, DAY + HOUR)])
    assert len(rows(reader.read_windows(spark, folder.unit, request, declared(), "UTC"))) == 1


def test_a_snapshot_of_stamped_files_is_the_newest(spark: SparkSession, folder: LandingFolder) -> None:
    for at in range(3):
        folder.put(DAY + at * HOUR, [{"id": str(at), "note": "n"}])
    reader = collector(folder)
    read = reader.read_snapshot(spark, folder.unit, declared(), "UTC")
    assert [row["id"] for row in rows(read)] == ["2"]
    assert [item["stamp"] for item in read.source["items"]] == ["2013-01-01T02:00:00+00:00"]
    replayed = reader.read_snapshot(spark, folder.unit, declared(), "UTC", now=DAY + HOUR)
    assert [row["id"] for row in rows(replayed)] == ["1"]
    with pytest.raises(WaterclockError, match="has no file up to 2012-12-31") as refused_:
        reader.read_snapshot(spark, folder.unit, declared(), "UTC", now=DAY - HOUR)
    assert refused_.value.code == "E804"
