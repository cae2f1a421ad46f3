"""Rows are cast to the columns of their table, or refused with the column's name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns, Place
from waterclock.storage.lake import Lake
from waterclock.storage.slices.column_casts import ConformedRows, conform, row_error
from waterclock.storage.slices.read import frame_of_slices
from waterclock.storage.slices.writer import write_slices
from waterclock.timelabel.instant import EPOCH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
HERE = Place("f.dpl", 1, 1)
T = datetime(2018, 3, 5, 8, tzinfo=UTC)


def closed(**types: str | None) -> Columns:
    return Columns(tuple(Column(name, HERE, type=type_) for name, type_ in types.items()), is_open=False)


def opened(**types: str | None) -> Columns:
    return Columns(closed(**types).named, is_open=True)


def shaped(
    spark: SparkSession, query: str, declared: Columns, known: str | None = None, **options: Any
) -> ConformedRows:
    table = spark.createDataFrame([], known).schema if known else None
    return conform(spark.sql(query), declared, table, table="raw.t", **options)


def ddl(conformed: ConformedRows) -> str:
    return ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in conformed.schema.fields)


def refusal(spark: SparkSession, query: str, declared: Columns, known: str | None = None, **options: Any) -> str:
    with pytest.raises(WaterclockError) as refused:
        shaped(spark, query, declared, known, **options)
    return str(refused.value)


def test_declared_types_are_cast_to_and_others_stay(spark: SparkSession) -> None:
    declared = opened(amount="DECIMAL(12,2)", at="TIMESTAMP")
    found = shaped(spark, "SELECT 'x' AS note, '12.50' AS amount, '2018-01-01 00:00:00' AS at", declared)
    assert ddl(found) == "timelabel string, amount decimal(12,2), at timestamp, note string"
    assert found.frame.first()["amount"] == 12.5  # type: ignore[index]


def test_a_closed_column_list_leaves_out_and_reports_unlisted_columns(spark: SparkSession) -> None:
    found = shaped(spark, "SELECT 1 AS a, 2 AS b, 3 AS C", closed(c=None, a=None))
    assert (ddl(found), found.left_out) == ("timelabel string, c int, a int", ("b",))


def test_a_timelabel_that_two_parents_bring_is_dropped(spark: SparkSession) -> None:
    found = shaped(spark, "SELECT '1' AS timelabel, 1 AS a, '2' AS timelabel", opened())
    assert found.frame.columns == ["a"]
    assert ddl(found) == "timelabel string, a int"
    other = shaped(spark, "SELECT '1' AS TimeLabel, 1 AS a", opened())
    assert other.frame.columns == ["a"]


def test_the_groups_timelabel_stays(spark: SparkSession) -> None:
    assert shaped(spark, "SELECT 1 AS a, '20180305080000' AS timelabel", opened()).frame.columns == ["timelabel", "a"]


def test_the_tables_order_and_spelling_win(spark: SparkSession) -> None:
    found = shaped(
        spark, "SELECT 1 AS New, 2 AS ID, 'x' AS name", opened(Id=None), "timelabel STRING, name STRING, id INT"
    )
    assert ddl(found) == "timelabel string, name string, id int, New int"


def test_narrower_types_are_widened_to_the_tables(spark: SparkSession) -> None:
    found = shaped(
        spark,
        "SELECT 1 AS a, CAST(1 AS FLOAT) AS b, CAST(1 AS DECIMAL(5,2)) AS c",
        opened(),
        "a BIGINT, b DOUBLE, c DECIMAL(9,2)",
    )
    assert ddl(found) == "timelabel string, a bigint, b double, c decimal(9,2)"


def test_the_table_binds_no_column_to_be_not_null(spark: SparkSession) -> None:
    declared = Columns((Column("a", HERE, is_key=True), Column("b", HERE, is_not_null=True)))
    found = shaped(spark, "SELECT 1 AS a, array(named_struct('x', 1)) AS b", declared)
    assert '"nullable":false' not in found.schema.json()
    assert '"containsNull":false' not in found.schema.json()


def test_columns_of_nulls_alone_become_strings(spark: SparkSession) -> None:
    found = shaped(spark, "SELECT NULL AS a, array() AS b, named_struct('x', NULL) AS c, map('k', NULL) AS d", opened())
    assert ddl(found) == "timelabel string, a string, b array<string>, c struct<x:string>, d map<string,string>"


def test_invalid_column_names_are_corrected_or_refused(spark: SparkSession) -> None:
    query = "SELECT 1 AS `Tail Number`, 2 AS `weight (kg)`, 3 AS `a.b`"
    found = shaped(spark, query, opened())
    assert found.frame.first().asDict() == {"Tail_Number": 1, "weight_kg": 2, "a.b": 3}  # type: ignore[union-attr]
    said = refusal(spark, "SELECT sum(1)", opened(), may_rename=False)
    assert said.startswith("E614 raw.t cannot have a column named 'sum(1)'")
    assert "fix  rename it, as in … AS sum_1" in said


@pytest.mark.parametrize(
    ("query", "declared", "known", "said"),
    [
        ("SELECT 1 AS a, 2 AS A", opened(), None, "E613 raw.t has both a and A"),
        ("SELECT 1 AS a, 2 AS a", opened(), None, "E613 raw.t has two columns a"),
        ("SELECT 1 AS `a b`, 2 AS a_b", opened(), None, "E613 raw.t has two columns a_b"),
        ("SELECT 1 AS tailnum", closed(tailnmu="INT"), None, "E618 raw.t declares tailnmu, which its rows do not have"),
        ("SELECT 1 AS a", opened(), "a INT, b DATE", "E610 raw.t lost a column: b (date)"),
        ("SELECT 'x' AS a", opened(), "a INT", "E611 raw.t.a changed from int to string"),
        ("SELECT 1L AS a", opened(), "a INT", "E611 raw.t.a changed from int to bigint"),
        ("SELECT 'x' AS a", opened(a="STRING"), "a INT", "E611 raw.t.a changed from int to string"),
        ("SELECT array(1) AS a", opened(a="INT"), None, "E611 raw.t.a is array<int>, which cannot become INT"),
        ("SELECT parse_json('1') AS a", opened(), None, "E615 raw.t.a is variant, which cannot be stored"),
        ("SELECT INTERVAL 1 DAY AS a", opened(), None, "E615 raw.t.a is interval day, which cannot be stored"),
        ("SELECT array(INTERVAL 1 DAY) AS a", opened(), None, "E615 raw.t.a is interval day"),
        ("SELECT 'x' COLLATE UTF8_LCASE AS a", opened(), None, "E615 raw.t.a is string collate UTF8_LCASE"),
    ],
)
def test_rows_that_do_not_fit_the_columns_of_their_table_are_refused(
    spark: SparkSession, query: str, declared: Columns, known: str | None, said: str
) -> None:
    assert refusal(spark, query, declared, known).startswith(said)


def test_a_misspelt_column_is_reported_with_the_nearest_name(spark: SparkSession) -> None:
    assert "did you mean tailnum?" in refusal(spark, "SELECT 1 AS tailnum", closed(tailnmu="INT"))


def test_a_merge_may_lack_columns_of_its_table(spark: SparkSession) -> None:
    assert (
        ddl(shaped(spark, "SELECT 1 AS a", opened(), "a INT, b DATE", may_miss_columns=True))
        == "timelabel string, a int"
    )


def test_a_value_that_cannot_be_cast_fails_the_write_naming_its_column(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT * FROM VALUES ('1'), ('n/a'), (NULL) AS t(dep_delay)")
    found = conform(frame, opened(dep_delay="INT"), table="raw.flights")
    lake = Lake(str(tmp_path))
    with pytest.raises(WaterclockError) as refused:
        write_slices(
            found.frame, folder=lake.folder("raw.flights"), claim=1, labels=[T], lake=lake, code="c", name="raw.flights"
        )
    assert str(refused.value).splitlines()[:2] == ["E612 'n/a' is not INT", "  raw.flights.dep_delay"]


def test_a_text_is_no_decimal_where_digits_would_be_rounded_away(spark: SparkSession) -> None:
    query = "SELECT * FROM VALUES ('7.125'), ('7.120'), (NULL) AS t(amount)"
    found = shaped(spark, query, opened(amount="DECIMAL(10,2)"), loose={"amount": "bad"})
    rows = {(row["amount"], row["bad"]) for row in found.frame.collect()}
    assert rows == {(None, True), (Decimal("7.12"), False), (None, False)}
    made = shaped(spark, "SELECT 7.125 AS amount", opened(amount="DECIMAL(10,2)"))
    assert made.frame.first()["amount"] == Decimal("7.13"), "computed values are cast as in SQL"  # type: ignore[index]


def test_nulls_pass_every_cast(spark: SparkSession, tmp_path: Path) -> None:
    query = "SELECT CAST(NULL AS STRING) AS a, CAST(NULL AS STRING) AS b"
    found = shaped(spark, query, opened(a="DECIMAL(5,1)", b="TIMESTAMP"))
    lake = Lake(str(tmp_path))
    folder = lake.folder("raw.t")
    written = write_slices(found.frame, folder=folder, claim=1, labels=[T], lake=lake, code="c")
    row = frame_of_slices(spark, folder, written.manifests).select(F.isnull("a"), F.isnull("b")).first()
    assert tuple(row or ()) == (True, True)


@pytest.mark.parametrize(
    ("value", "instant"),
    [
        ("DATE '2018-07-01'", "2018-06-30T22:00:00"),
        ("TIMESTAMP_NTZ '2018-01-01 12:00:00.5'", "2018-01-01T11:00:00.500000"),
        ("TIMESTAMP_NTZ '2018-10-28 02:30:00'", "2018-10-28T00:30:00"),  # a repeated hour: its first pass
        ("TIMESTAMP_NTZ '2018-03-25 02:30:00'", "2018-03-25T01:30:00"),  # a skipped hour: moved forward
        ("'2018-07-01 12:00'", "2018-07-01T10:00:00"),
        ("'2018-07-01'", "2018-06-30T22:00:00"),
        ("'2018-07-01T12:00:00Z'", "2018-07-01T12:00:00"),
        ("'2018-07-01 12:00:00+05:30'", "2018-07-01T06:30:00"),
        ("TIMESTAMP '2018-07-01 12:00:00'", "2018-07-01T12:00:00"),
        ("CAST(NULL AS STRING)", None),
        ("CAST(NULL AS DATE)", None),
    ],
)
def test_local_times_become_instants_in_the_zone_of_their_table(
    spark: SparkSession, value: str, instant: str | None
) -> None:
    declared = closed(at="TIMESTAMP")
    found = shaped(spark, f"SELECT {value} AS AT", declared, zone="Europe/Berlin")
    assert ddl(found) == "timelabel string, at timestamp"
    [row] = found.frame.selectExpr("unix_micros(at) AS at").collect()
    wanted = None if instant is None else datetime.fromisoformat(f"{instant}+00:00") - EPOCH
    assert row["at"] == (None if wanted is None else wanted // timedelta(microseconds=1))


def test_a_text_that_is_no_time_is_refused_in_any_zone(spark: SparkSession) -> None:
    for zone in ("UTC", "Europe/Berlin"):
        frame = shaped(spark, "SELECT 'soon' AS at", closed(at="TIMESTAMP"), zone=zone).frame
        with pytest.raises(Exception, match="soon") as raised:
            frame.collect()
        error = row_error(raised.value, table="raw.t")
        assert error is not None
        assert error.code == "E612"
