"""File formats besides CSV, JSON lines and Parquet, written by their own libraries and read by Spark."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import fastavro
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pa_csv

from tests.systems import HERE, LandingFolder, unit_of
from waterclock.connectors.files.connector import FilesCollector
from waterclock.connectors.interface import Collected, WindowRequest
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns, Value
from waterclock.testing.connectors import declared
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
ORDERS = {
    "exported_at": "2026-11-01T06:00:00Z",
    "pages": [
        {
            "orders": [
                {"id": 1, "by": {"name": "Åsa"}, "lines": [{"sku": "a", "n": 2}, {"sku": "b"}], "tags": ["x", "y"]}
            ]
        },
        {"orders": [{"id": 2, "by": {"name": "Bo"}, "lines": []}, {"id": 3, "lines": {"sku": "c", "n": 1}}]},
        {"orders": []},
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> LandingFolder:
    return LandingFolder(tmp_path)


def drop(folder: LandingFolder, name: str, content: str | bytes) -> Path:
    path = folder.folder / "new" / "drop" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(
    spark: SparkSession, folder: LandingFolder, name: str, columns: Columns, zone: str = "UTC", **options: Value
) -> list[dict[str, Any]]:
    unit = unit_of("landing", f"drop/{name}", **options)
    collected = FilesCollector(folder.setting).read_snapshot(spark, unit, columns, zone)
    try:
        return rows(collected)
    finally:
        collected.close()


def rows(collected: Collected) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in collected.frame.collect()]


def refused(
    spark: SparkSession, folder: LandingFolder, name: str, columns: Columns, **options: Value
) -> WaterclockError:
    unit = unit_of("landing", f"drop/{name}", **options)
    reader = FilesCollector(folder.setting)
    with pytest.raises(Exception) as caught:  # noqa: PT011 (Spark's error, which is explained)
        rows(reader.read_snapshot(spark, unit, columns, "UTC"))
    if isinstance(caught.value, WaterclockError):
        return caught.value
    told = reader.explain(unit, columns, caught.value)
    assert told is not None, caught.value
    return told


def by(key: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: str(row[key]))


class TestQuotes:
    """Texts with quotes and backslashes in usual CSV (RFC 4180), including that of this project's PUBLISH."""

    TEXTS = ("a", '"', '""', 'a "b" c', 'a "b, c" d', 'ends "q"', "back\\slash", "c:\\", "\\\\host\\x", '\\"', "it's")

    def test_quoted_csv_values_are_read_back_unchanged(self, spark: SparkSession, folder: LandingFolder) -> None:
        written = io.BytesIO()
        table = pa.table({"id": [f"{at:02}" for at in range(len(self.TEXTS))], "t": self.TEXTS, "z": self.TEXTS[::-1]})
        pa_csv.write_csv(table, written)
        drop(folder, "a.csv", written.getvalue())
        found = by("id", read(spark, folder, "a.csv", declared()))
        assert [(row["t"], row["z"]) for row in found] == list(zip(self.TEXTS, self.TEXTS[::-1], strict=True))

    @pytest.mark.parametrize(
        ("line", "options"),
        [
            ('"x \\"y\\", z"', {"escape": "\\"}),
            ("'x \"y\", z'", {"quote": "'"}),
            ("'x \"y\"'', z'", {"quote": "'"}),
        ],
    )
    def test_other_quote_and_escape_characters_can_be_declared(
        self, spark: SparkSession, folder: LandingFolder, line: str, options: dict[str, Value]
    ) -> None:
        drop(folder, "a.csv", f"t,n\n{line},1\n")
        (row,) = read(spark, folder, "a.csv", declared(), "UTC", **options)
        assert (row["t"].replace("'", ""), row["n"]) == ('x "y", z', "1")

    def test_a_file_without_quotes_has_them_as_signs(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(folder, "a.csv", 't,n\nsay "hi",1\n')
        assert read(spark, folder, "a.csv", declared(), quote="") == [{"t": 'say "hi"', "n": "1"}]


class TestJsonDocuments:
    def test_records_lie_along_a_path_through_lists(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(folder, "a.json", json.dumps(ORDERS, indent=1))
        found = read(
            spark,
            folder,
            "a.json",
            declared(("id", "INT"), ("by", "STRUCT<name: STRING>"), is_open=False),
            multiline=True,
            rows="pages.orders",
        )
        assert by("id", found) == [
            {"id": 1, "by": {"name": "Åsa"}},
            {"id": 2, "by": {"name": "Bo"}},
            {"id": 3, "by": None},
        ]

    def test_a_child_table_contains_values_of_the_enclosing_records(
        self, spark: SparkSession, folder: LandingFolder
    ) -> None:
        drop(folder, "a.json", json.dumps(ORDERS))
        found = read(
            spark,
            folder,
            "a.json",
            declared(("order_id", "BIGINT"), ("sku", None), ("n", "INT"), ("at", "TIMESTAMP")),
            multiline=True,
            rows="pages.orders.lines",
            outer="pages.orders.id AS order_id, exported_at AS at, pages.orders.by.name AS buyer",
        )
        at = datetime(2026, 11, 1, 6, tzinfo=UTC).replace(tzinfo=None)
        assert by("sku", found) == [
            {"order_id": 1, "sku": "a", "n": 2, "at": at, "buyer": "Åsa"},
            {"order_id": 1, "sku": "b", "n": None, "at": at, "buyer": "Åsa"},
            {"order_id": 3, "sku": "c", "n": 1, "at": at, "buyer": None},
        ]

    def test_values_of_a_list_are_rows_too(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(folder, "a.jsonl", '{"id": 1, "tags": ["x", "ü\\"y"]}\n{"id": 2, "tags": []}\n{"id": 3}\n')
        found = read(spark, folder, "a.jsonl", declared(), rows="tags", outer="id")
        assert by("value", found) == [{"id": "1", "value": "x"}, {"id": "1", "value": 'ü"y'}]

    def test_nested_values_are_read_with_their_declared_types(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(folder, "a.json", json.dumps([{"id": 1, "x": {"a": [1, "b"]}, "l": [{"n": 1}]}, {"id": 2}]))
        columns = declared(("id", "INT"), ("x", "MAP<STRING, ARRAY<STRING>>"), ("l", "ARRAY<STRUCT<n: INT>>"))
        first, second = by("id", read(spark, folder, "a.json", columns, multiline=True))
        assert (first["id"], first["x"], first["l"]) == (1, {"a": ["1", "b"]}, [{"n": 1}])
        assert second == {"id": 2, "x": None, "l": None}

    @pytest.mark.parametrize("is_whole", [False, True])
    def test_numbers_keep_their_digits_in_other_encodings(
        self, spark: SparkSession, folder: LandingFolder, is_whole: bool
    ) -> None:
        line = '{"money": 12345678901234567.89, "n": null, "is": true, "text": "é", "in": {"x":98765432109876543.21}}\n'
        drop(folder, "a.jsonl", line.encode("ISO-8859-1"))
        columns = declared(("money", "DECIMAL(20,2)"))
        found = read(spark, folder, "a.jsonl", columns, multiline=is_whole, encoding="ISO-8859-1")
        rest = {"n": None, "is": "true", "text": "é", "in": '{"x":98765432109876543.21}'}
        assert found == [{"money": Decimal("12345678901234567.89"), **rest}]

    @pytest.mark.parametrize("is_whole", [False, True])
    def test_no_digit_of_a_number_is_lost(self, spark: SparkSession, folder: LandingFolder, is_whole: bool) -> None:
        drop(folder, "a.jsonl", '{"money": 12345678901234567.89, "text": 1.10, "in": {"x":0.10}}\n')
        found = read(spark, folder, "a.jsonl", declared(("money", "DECIMAL(20,2)")), multiline=is_whole)
        assert found == [{"money": Decimal("12345678901234567.89"), "text": "1.10", "in": '{"x":0.10}'}]

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.csv", "id,money\n1,7.10\n2,7.125\n"),
            ("a.jsonl", '{"id": 1, "money": 7.10}\n{"id": 2, "money": 7.125}\n'),
            ("a.xml", "<all><row><id>1</id><money>7.10</money></row><row><id>2</id><money>7.125</money></row></all>"),
            ("a.xlsx", [["id", "money"], [1, 7.1], [2, 7.125]]),
            ("a.parquet", [Decimal("7.100"), Decimal("7.125")]),
        ],
    )
    def test_a_number_with_more_digits_than_its_decimal_is_refused(
        self, spark: SparkSession, folder: LandingFolder, name: str, content: Any
    ) -> None:
        if name.endswith(".parquet"):
            made = io.BytesIO()
            pq.write_table(pa.table({"id": [1, 2], "money": pa.array(content, pa.decimal128(10, 3))}), made)
            content = made.getvalue()
        path = drop(folder, name, content if isinstance(content, str | bytes) else workbook(("a", content)))
        options = {"rows": "row"} if name.endswith("xml") else {}
        exact = read(spark, folder, name, declared(("id", "INT"), ("money", "DECIMAL(10,3)")), **options)
        assert [row["money"] for row in by("id", exact)] == [Decimal("7.100"), Decimal("7.125")]
        error = refused(spark, folder, name, declared(("id", "INT"), ("money", "DECIMAL(10,2)")), **options)
        assert error.code == "E806"
        assert "7.125" in str(error.why)
        line = {"a.csv": 3, "a.jsonl": 2}.get(name)
        assert error.where == (f"{path}:{line}" if line else str(path))

    @pytest.mark.parametrize("name", ["a.parquet", "a.avro"])
    @pytest.mark.parametrize("kind", ["double", "decimal"])
    def test_a_number_with_a_fraction_is_no_whole_number(
        self, spark: SparkSession, folder: LandingFolder, name: str, kind: str
    ) -> None:
        def content(*numbers: str) -> bytes:
            values = [float(each) if kind == "double" else Decimal(each) for each in numbers]
            if name.endswith("avro"):
                decimal = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
                return avro([{"name": "n", "type": decimal if kind == "decimal" else kind}], [{"n": n} for n in values])
            made = io.BytesIO()
            pq.write_table(pa.table({"n": pa.array(values, pa.decimal128(10, 2) if kind == "decimal" else None)}), made)
            return made.getvalue()

        drop(folder, name, content("7", "-3"))
        assert sorted(row["n"] for row in read(spark, folder, name, declared(("n", "INT")))) == [-3, 7]
        path = drop(folder, name, content("7", "7.5"))
        error = refused(spark, folder, name, declared(("n", "INT")))
        assert (error.code, error.where) == ("E806", str(path))
        assert "7.5" in str(error.why)

    @pytest.mark.parametrize("name", ["a.parquet", "a.avro"])
    def test_dates_and_local_times_are_instants_in_the_cadences_zone(
        self, spark: SparkSession, folder: LandingFolder, name: str
    ) -> None:
        row = {"day": date(2013, 1, 1), "at": datetime(2013, 1, 1, 5)}  # noqa: DTZ001 (it has no zone)
        fields = [
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        ]
        made = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([row]), made)
        drop(folder, name, avro(fields, [row]) if name.endswith("avro") else made.getvalue())
        columns = declared(("day", "TIMESTAMP"), ("at", "TIMESTAMP"))
        [found] = read(spark, folder, name, columns, "America/New_York")
        assert {key: str(value) for key, value in found.items()} == {
            "day": "2013-01-01 05:00:00",
            "at": "2013-01-01 10:00:00",
        }

    @pytest.mark.parametrize("options", [{"multiline": True}, {"multiline": True, "rows": "rows"}, {"rows": "rows"}])
    def test_decimals_within_a_value_are_not_rounded(
        self, spark: SparkSession, folder: LandingFolder, options: dict[str, Value]
    ) -> None:
        of = {"price": 7.12, "parts": [{"n": 1.5}, {"n": None}], "none": None}
        columns = declared(("of", "STRUCT<price: DECIMAL(10,2), parts: ARRAY<STRUCT<n: DECIMAL(3,1)>>, none: DECIMAL>"))

        def wrapped(each: dict[str, Any]) -> str:
            return json.dumps({"rows": [each]} if "rows" in options else each)

        name = "a.json" if options.get("multiline") else "a.jsonl"
        drop(folder, name, wrapped({"of": of}))
        unit = unit_of("landing", f"drop/{name}", **options)
        exact = rows(FilesCollector(folder.setting).read_snapshot(spark, unit, columns, "UTC"))
        parts = [{"n": Decimal("1.5")}, {"n": None}]
        assert exact == [{"of": {"price": Decimal("7.12"), "parts": parts, "none": None}}]
        for wrong in (of | {"price": 7.125}, of | {"parts": [{"n": 1.25}]}):
            drop(folder, name, wrapped({"of": wrong}))
            assert refused(spark, folder, name, columns, **options).code == "E806"

    def test_a_text_that_begins_as_a_list_is_a_row(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(folder, "a.jsonl", '{"tags": "[draft] fix"}\n{"tags": ["[old", "x"]}\n')
        found = read(spark, folder, "a.jsonl", declared(), rows="tags")
        assert sorted(row["value"] for row in found) == ["[draft] fix", "[old", "x"]

    def test_a_text_with_a_list_in_it_is_one_row(self, spark: SparkSession, folder: LandingFolder) -> None:
        texts = ["[1,2] x", "[1] and [2]", "[1],[2]", '[1],"a":[2]', "[", "]", "[]x", "[1,]"]
        drop(folder, "a.jsonl", "".join(f"{json.dumps({'id': at, 'tags': text})}\n" for at, text in enumerate(texts)))
        found = read(spark, folder, "a.jsonl", declared(), rows="tags", outer="id")
        assert [row["value"] for row in by("id", found)] == texts

    @pytest.mark.parametrize("encoding", ["UTF-8", "ISO-8859-1"])
    @pytest.mark.parametrize("is_whole", [False, True])
    def test_no_digit_of_a_record_is_lost(
        self, spark: SparkSession, folder: LandingFolder, encoding: str, is_whole: bool
    ) -> None:
        pages = [
            {"at": 98765432109876543.21, "rows": [{"id": 1, "m": 0, "in": {"b": 1, "a": None}, "t": "x"}, {"id": 2}]},
            {"at": 7, "rows": [{"id": 3, "m": 0.1, "t": "123456789012345678"}]},
        ]
        text = json.dumps({"of": {"n": 0}, "pages": pages})
        for short, long in ((': 0, "in"', ': 12345678901234567.89, "in"'), ('"n": 0', '"n": 12345678901234567.25')):
            text = text.replace(short, long)
        text = text.replace("9.876543210987654e+16", "98765432109876543.21")
        drop(folder, "a.json" if is_whole else "a.jsonl", f"{text}\n".encode(encoding))
        columns = declared(("id", "INT"), ("m", "DECIMAL(20,2)"), ("at", "DECIMAL(20,2)"), ("n", None))
        outer = "pages.at AS at, of.n AS n"
        said: dict[str, Value] = {"multiline": is_whole, "encoding": encoding}
        unit = unit_of("landing", "drop/a.json*", rows="pages.rows", outer=outer, **said)
        found = by("id", rows(FilesCollector(folder.setting).read_snapshot(spark, unit, columns, "UTC")))
        assert [row["m"] for row in found] == [Decimal("12345678901234567.89"), None, Decimal("0.10")]
        assert [row["at"] for row in found] == [Decimal("98765432109876543.21")] * 2 + [Decimal("7.00")]
        assert {row["n"] for row in found} == {"12345678901234567.25"}
        assert [row["t"] for row in found] == ["x", None, "123456789012345678"]
        assert json.loads(found[0]["in"]) == {"b": 1, "a": None}

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
    def test_a_document_may_begin_with_a_byte_order_mark(
        self, spark: SparkSession, folder: LandingFolder, encoding: str
    ) -> None:
        drop(folder, "a.json", json.dumps({"id": "é"}, ensure_ascii=False).encode(encoding))
        said = "UTF-8" if encoding == "utf-8-sig" else "UTF-16"
        assert read(spark, folder, "a.json", declared(), multiline=True, encoding=said) == [{"id": "é"}]

    def test_a_broken_document_names_line_and_place(self, spark: SparkSession, folder: LandingFolder) -> None:
        path = drop(folder, "a.json", '{"rows": [\n{"id": 1},\n{"id": }\n]}')
        error = refused(spark, folder, "a.json", declared(("id", "INT")), multiline=True, rows="rows")
        assert (error.code, error.where) == ("E806", f"{path}:3")

    def test_a_value_of_another_type_is_refused_with_its_file(self, spark: SparkSession, folder: LandingFolder) -> None:
        path = drop(folder, "a.json", '{"rows": [{"id": 1}, {"id": "two"}]}')
        error = refused(spark, folder, "a.json", declared(("id", "INT")), multiline=True, rows="rows")
        assert (error.code, error.where, error.why) == ("E806", str(path), "id is 'two', which does not fit its type")

    def test_a_nested_value_of_another_type_is_refused(self, spark: SparkSession, folder: LandingFolder) -> None:
        path = drop(folder, "a.json", '{"rows": [{"l": [{"n": 1}]}, {"l": [{"n": "x"}]}]}')
        columns = declared(("l", "ARRAY<STRUCT<n: INT>>"))
        error = refused(spark, folder, "a.json", columns, multiline=True, rows="rows")
        assert (error.code, error.where) == ("E806", str(path))

    def test_a_path_that_no_document_has_is_refused(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(folder, "a.json", json.dumps(ORDERS))
        error = refused(spark, folder, "a.json", declared(), multiline=True, rows="pages.order")
        assert (error.code, error.what) == ("E887", "a.json has no pages.order")

    def test_keys_of_much_json_are_found_by_spark(
        self, spark: SparkSession, folder: LandingFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("waterclock.connectors.files.file_schemas._MOST_PARSED", 0)
        drop(folder, "a.json", json.dumps(ORDERS))
        found = read(spark, folder, "a.json", declared(), multiline=True, rows="pages.orders.lines")
        assert by("sku", found) == [{"n": "2", "sku": "a"}, {"n": None, "sku": "b"}, {"n": "1", "sku": "c"}]


class TestXml:
    def test_elements_are_rows_by_their_tag(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(
            folder,
            "a.xml",
            f'{HEAD}<o:orders xmlns:o="urn:o"><o:order id="1"><day>2026-11-01</day><note>é &amp; &lt;b&gt;</note>'
            "<line><sku>a</sku></line><line><sku>b</sku></line></o:order>"
            "<o:order id='2'><day/><note><![CDATA[x < y]]></note></o:order></o:orders>",
        )
        columns = declared(("_id", "INT"), ("day", "DATE"), ("note", None), ("line", "ARRAY<STRUCT<sku: STRING>>"))
        assert by("_id", read(spark, folder, "a.xml", columns, rows="order")) == [
            {"_id": 1, "day": date(2026, 11, 1), "note": "é & <b>", "line": [{"sku": "a"}, {"sku": "b"}]},
            {"_id": 2, "day": None, "note": "x < y", "line": None},
        ]

    def test_undeclared_columns_are_read_and_repeated_xml_elements_become_lists(
        self, spark: SparkSession, folder: LandingFolder
    ) -> None:
        drop(folder, "a.xml", "<r><i><a>1</a><b>2</b><b>3</b></i><i><a>4</a></i></r>")
        assert by("a", read(spark, folder, "a.xml", declared(), rows="i")) == [
            {"a": "1", "b": ["2", "3"]},
            {"a": "4", "b": None},
        ]

    def test_columns_are_those_that_spark_finds_in_much_xml(
        self, spark: SparkSession, folder: LandingFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = '<r xmlns:o="u"><i x="1"><a>1</a><b>2</b><o:b>3</o:b></i><i><a>4</a><c><d/></c></i><i y="2">t</i></r>'
        drop(folder, "a.xml", text)
        small = read(spark, folder, "a.xml", declared(), rows="i")
        monkeypatch.setattr("waterclock.connectors.files.file_schemas._MOST_PARSED", 0)
        assert by("a", read(spark, folder, "a.xml", declared(), rows="i")) == by("a", small)
        assert set(small[0]) == {"_x", "_y", "a", "b", "c", "_VALUE"}

    def test_another_encoding_is_read(self, spark: SparkSession, folder: LandingFolder) -> None:
        text = '<?xml version="1.0" encoding="windows-1252"?><r><i><a>é€</a></i></r>'
        drop(folder, "a.xml", text.encode("cp1252"))
        assert read(spark, folder, "a.xml", declared(), rows="i", encoding="windows-1252") == [{"a": "é€"}]

    def test_a_document_that_is_no_xml_names_its_line(self, spark: SparkSession, folder: LandingFolder) -> None:
        path = drop(folder, "a.xml", "<r>\n<i><a>1</a></i>\n<i><a>2</b></i>\n</r>")
        error = refused(spark, folder, "a.xml", declared(("a", "INT"), is_open=False), rows="i")
        assert (error.code, error.where) == ("E806", f"{path}:3")

    @pytest.mark.parametrize(
        "prolog",
        [
            '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>',
            '<!DOCTYPE r [<!ENTITY c SYSTEM "file:///etc/hostname">]>',
            '<!DOCTYPE r SYSTEM "http://127.0.0.1:9/evil.dtd">',
            '<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///etc/hostname"> %p;]>',
        ],
    )
    def test_documents_with_entities_are_refused_before_they_are_read(
        self, spark: SparkSession, folder: LandingFolder, prolog: str
    ) -> None:
        path = drop(folder, "a.xml", f"{HEAD}\n{prolog}<r><i><a>&c;</a></i></r>")
        error = refused(spark, folder, "a.xml", declared(), rows="i")
        assert (error.code, error.where) == ("E880", str(path))

    @pytest.mark.parametrize("where", ["<r>{}<i><a>&c;</a></i></r>", "<r><i>{}<a>&c;</a></i></r>"])
    def test_entities_that_are_declared_later_come_to_nothing(
        self, spark: SparkSession, folder: LandingFolder, where: str
    ) -> None:
        later = '<!DOCTYPE r [<!ENTITY c SYSTEM "file:///etc/hostname">]>'
        path = drop(folder, "a.xml", where.format(later))
        error = refused(spark, folder, "a.xml", declared(("a", None), is_open=False), rows="i")
        assert (error.code, error.where) == ("E806", f"{path}:1")


class TestFixedWidth:
    def test_fields_are_cut_at_their_characters(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(folder, "a.txt", "\ufeff0001Åsa   20261101x y \r\n\r\n   2Bo    NA\n")
        columns = declared(("id", "INT"), ("day", "DATE"))
        positions = "id 1-4, name 5-10, day 11-18, rest 19-"
        found = read(spark, folder, "a.txt", columns, positions=positions, date_format="yyyyMMdd", null="NA")
        assert by("id", found) == [
            {"id": 1, "day": date(2026, 11, 1), "name": "Åsa", "rest": "x y"},
            {"id": 2, "day": None, "name": "Bo", "rest": None},
        ]

    @pytest.mark.parametrize(
        ("pattern", "text", "hour"),
        [
            ("dd.MM.yyyy HH:mm", "01.03.2013 05:00", 10),
            ("dd.MM.yyyy HH:mmXXX", "01.03.2013 05:00+02:00", 3),
            ("dd.MM.yyyy HH:mm[XXX]", "01.03.2013 05:00+02:00", 3),
            ("dd.MM.yyyy HH:mm[XXX]", "01.03.2013 05:00", 10),
        ],
    )
    def test_a_row_is_in_the_window_of_its_time_by_the_declared_pattern(
        self, spark: SparkSession, folder: LandingFolder, pattern: str, text: str, hour: int
    ) -> None:
        drop(folder, "a.txt", f"1{text}\n")
        unit = unit_of("landing", "drop/a.txt", positions="id 1-1, at 2-", timestamp_format=pattern)
        start = datetime(2013, 3, 1, hour, tzinfo=UTC)
        windows = (Window(start, start + timedelta(hours=1)),)
        request = WindowRequest("at", windows, slack=timedelta(0))
        columns = declared(("id", "INT"), ("at", "TIMESTAMP"))
        collected = FilesCollector(folder.setting).read_windows(spark, unit, request, columns, "America/New_York")
        [row] = rows(collected)
        assert (row["id"], str(row["at"]), row["timelabel"]) == (1, f"2013-03-01 {hour:02}:00:00", windows[0].label)

    def test_characters_count_not_bytes_in_another_encoding(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(folder, "a.dat", "1éé2\n".encode("latin-1"))
        positions = "a 1-1, b 2-3, c 4-4"
        found = read(spark, folder, "a.dat", declared(), positions=positions, encoding="ISO-8859-1")
        assert found == [{"a": "1", "b": "éé", "c": "2"}]

    @pytest.mark.parametrize(
        ("line", "why"),
        [("12x", "it continues after character 2, where its last field ends"), ("x2", "a is 'x', which is not INT")],
    )
    def test_a_broken_line_names_file_line_and_reason(
        self, spark: SparkSession, folder: LandingFolder, line: str, why: str
    ) -> None:
        path = drop(folder, "a.fwf", f"12\n\n{line}\n34\n")
        error = refused(spark, folder, "a.fwf", declared(("a", "INT")), positions="a 1-1, b 2-2")
        assert (error.code, error.where, error.why) == ("E806", f"{path}:3", why)

    def test_without_positions_such_a_file_is_left_alone(self, folder: LandingFolder) -> None:
        drop(folder, "readme.txt", "read me")
        listed = FilesCollector(folder.setting).arrivals(unit_of("landing", "drop/*"))
        assert (listed.items, [report.problem for report in listed.reports]) == ((), ["misnamed"])


def packed(members: dict[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as file:
        for name, held in members.items():
            file.writestr(name, held)
    return content.getvalue()


class TestZip:
    def test_members_are_read_as_one_and_the_readme_is_left_out(
        self, spark: SparkSession, folder: LandingFolder
    ) -> None:
        members: dict[str, str | bytes] = {
            "in/a.csv": "id,note\n1,é\n",
            "b.csv": "note,id\nn,2\n",
            "README.md": "read me",
            "__MACOSX/._a.csv": b"\0\1",
            "c/a.csv": "id\n3\n",
        }
        drop(folder, "a.zip", packed(members))
        found = read(spark, folder, "a.zip", declared(("id", "INT")), member="*.csv")
        assert by("id", found) == [{"id": 1, "note": "é"}, {"id": 2, "note": "n"}, {"id": 3, "note": None}]
        assert not list(folder.folder.rglob("_unpacked/*"))

    def test_rows_have_the_label_and_the_name_of_their_zip(self, spark: SparkSession, folder: LandingFolder) -> None:
        for hour, ids in enumerate(("1", "23")):
            members: dict[str, str | bytes] = {f"{each}.jsonl": json.dumps({"id": each}) + "\n" for each in ids}
            folder.file(datetime(2026, 11, 1, hour, tzinfo=UTC), "json.zip").write_bytes(packed(members))
        reader = FilesCollector(folder.setting)
        taken = {item.stamp: [item] for item in reader.arrivals(folder.unit).items}
        columns = tells(declared(), "file")
        collected = reader.read_items(spark, folder.unit, taken, columns, "UTC")
        found = {row["id"]: (row["timelabel"], row["_waterclock_source_file"]) for row in rows(collected)}
        assert found == {
            "1": ("20261101000000", "shop_orders_2026_11_01_00_00_00.json.zip"),
            "2": ("20261101010000", "shop_orders_2026_11_01_01_00_00.json.zip"),
            "3": ("20261101010000", "shop_orders_2026_11_01_01_00_00.json.zip"),
        }
        assert {label.hour: set(seen) for label, seen in collected.source_columns_by_label.items()} == {
            0: {"id"},
            1: {"id"},
        }
        assert len(list(folder.folder.rglob("_unpacked/*"))) == 1
        collected.close()
        collected.close()
        assert not list(folder.folder.rglob("_unpacked/*"))

    def test_a_broken_row_names_zip_member_and_line(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(folder, "a.zip", packed({"x/b.csv": "id\n1\ntwo\n"}))
        error = refused(spark, folder, "a.zip", declared(("id", "INT")))
        assert (error.code, error.where, error.why) == ("E806", "a.zip/b.csv:3", "id is 'two', which is not INT")


ROWS_OF_AVRO: list[dict[str, Any]] = [
    {
        "id": 1,
        "name": "Åsa",
        "at": datetime(2026, 11, 1, 6, 30, 0, 123000, tzinfo=UTC),
        "day": date(2026, 11, 1),
        "price": Decimal("12345678901234567890.12"),
        "tags": {"x": 1, "é": 2},
        "lines": [{"sku": "a", "n": 2}, {"sku": "b", "n": None}],
        "any": {"x": 1},
        "raw": b"\x00\xff",
    },
    {
        "id": 2,
        "name": None,
        "at": None,
        "day": None,
        "price": None,
        "tags": {},
        "lines": [],
        "any": "text",
        "raw": b"",
    },
]
OPTIONAL_INT = {"name": "n", "type": ["null", "int"]}
LINE = {"type": "record", "name": "line", "fields": [{"name": "sku", "type": "string"}, OPTIONAL_INT]}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 22, "scale": 2}
SCHEMA_OF_AVRO = {
    "type": "record",
    "name": "order",
    "namespace": "acme",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "price", "type": ["null", PRICE]},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "any", "type": ["string", {"type": "map", "values": "int"}]},
        {"name": "raw", "type": "bytes"},
    ],
}


def avro(fields: list[dict[str, Any]], records: list[dict[str, Any]]) -> bytes:
    content = io.BytesIO()
    fastavro.writer(content, {"type": "record", "name": "r", "fields": fields}, records, codec="deflate")
    return content.getvalue()


class TestAvro:
    def test_rows_come_with_the_types_of_the_file(self, spark: SparkSession, folder: LandingFolder) -> None:
        content = io.BytesIO()
        fastavro.writer(content, SCHEMA_OF_AVRO, ROWS_OF_AVRO)
        drop(folder, "a.avro", content.getvalue())
        first, second = by("id", read(spark, folder, "a.avro", declared()))
        at = datetime(2026, 11, 1, 6, 30, 0, 123000, tzinfo=UTC).replace(tzinfo=None)
        assert first == ROWS_OF_AVRO[0] | {"at": at, "any": '{"x": 1}'}
        assert second == ROWS_OF_AVRO[1]

    def test_files_of_several_schemas_are_put_together_by_name(
        self, spark: SparkSession, folder: LandingFolder
    ) -> None:
        drop(folder, "a b%é.avro", avro([{"name": "id", "type": "int"}], [{"id": 1}]))
        fields = [{"name": "note", "type": "string"}, {"name": "id", "type": "string"}]
        drop(folder, "b.avro", avro(fields, [{"note": "n", "id": "2"}]))
        found = read(spark, folder, "*.avro", declared(("id", "BIGINT")))
        assert by("id", found) == [{"id": 1, "note": None}, {"id": 2, "note": "n"}]

    def test_a_record_that_holds_itself_is_json(self, spark: SparkSession, folder: LandingFolder) -> None:
        fields = [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "node"]}]
        node = {"type": "record", "name": "node", "fields": fields}
        drop(folder, "a.avro", avro([{"name": "list", "type": node}], [{"list": {"v": 1, "next": {"v": 2}}}]))
        assert read(spark, folder, "a.avro", declared()) == [{"list": '{"v": 1, "next": {"v": 2, "next": null}}'}]

    def test_rows_have_their_numbers(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(folder, "a.avro", avro([{"name": "id", "type": "int"}], [{"id": at} for at in range(25_000)]))
        found = read(spark, folder, "a.avro", tells(declared(), "row"))
        assert all(row["_waterclock_source_row"] == row["id"] + 1 for row in found)
        assert len(found) == 25_000

    def test_a_damaged_avro_block_is_reported_with_its_file(self, spark: SparkSession, folder: LandingFolder) -> None:
        content = bytearray(avro([{"name": "id", "type": "string"}], [{"id": f"{at * 7919}"} for at in range(40_000)]))
        content[-3000:-2900] = b"x" * 100
        path = drop(folder, "a.avro", bytes(content))
        error = refused(spark, folder, "a.avro", declared())
        assert (error.code, error.where) == ("E807", str(path))

    def test_a_file_that_was_cut_is_half_written(self, folder: LandingFolder) -> None:
        drop(folder, "a.avro", avro([{"name": "id", "type": "int"}], [{"id": 1}])[:-5])
        listed = FilesCollector(folder.setting).arrivals(unit_of("landing", "drop/*"))
        assert [report.problem for report in listed.reports] == ["half-written"]


def workbook(*sheets: tuple[str, list[list[Any]]], merged: str = "") -> bytes:
    book = openpyxl.Workbook()
    del book["Sheet"]
    for name, lines in sheets:
        sheet = book.create_sheet(name)
        for line in lines:
            sheet.append(line)
        if merged:
            sheet.merge_cells(merged)
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


class TestExcel:
    def test_an_error_is_no_value_of_a_type_and_a_text_else(self, spark: SparkSession, folder: LandingFolder) -> None:
        path = drop(folder, "a.xlsx", workbook(("a", [["id", "n"], [1, 2], [2, "#DIV/0!"]])))
        error = refused(spark, folder, "a.xlsx", declared(("id", "INT"), ("n", "INT")))
        assert (error.code, error.where) == ("E806", str(path))
        assert "#DIV/0!" in str(error.why)
        assert [row["n"] for row in by("id", read(spark, folder, "a.xlsx", declared()))] == ["2", "#DIV/0!"]
        empty = read(spark, folder, "a.xlsx", declared(("id", "INT"), ("n", "INT")), null="#DIV/0!")
        assert [row["n"] for row in by("id", empty)] == [2, None]

    def test_cells_are_texts_until_they_are_typed(self, spark: SparkSession, folder: LandingFolder) -> None:
        placed = datetime(2026, 11, 1, 6, 30, tzinfo=UTC).replace(tzinfo=None)  # a cell has no zone
        lines: list[list[Any]] = [
            ["id", "placed at", "day", "amount", "paid", None],
            [1, placed, date(2026, 11, 1), 12.5, True],
            [],
            [2, None, None, 10**15, False],
        ]
        drop(folder, "a.xlsx", workbook(("Orders", lines), ("other", [["x"], ["y"]])))
        assert by("id", read(spark, folder, "a.xlsx", declared())) == [
            {"id": "1", "placed_at": "2026-11-01 06:30:00", "day": "2026-11-01", "amount": "12.5", "paid": "true"},
            {"id": "2", "placed_at": None, "day": None, "amount": "1000000000000000", "paid": "false"},
        ]
        columns = declared(
            ("id", "INT"), ("placed_at", "TIMESTAMP"), ("day", "DATE"), ("amount", "DECIMAL(20,2)"), ("paid", "BOOLEAN")
        )
        found = by("id", read(spark, folder, "a.xlsx", tells(columns, "row"), zone="Europe/Berlin"))
        assert found[0] == {
            "id": 1,
            "placed_at": placed - timedelta(hours=1),
            "day": date(2026, 11, 1),
            "amount": Decimal("12.50"),
            "paid": True,
            "_waterclock_source_row": 2,
        }
        assert found[1]["_waterclock_source_row"] == 4

    def test_the_sheet_and_range_options_select_the_data_of_a_workbook(
        self, spark: SparkSession, folder: LandingFolder
    ) -> None:
        data: list[list[Any]] = [[None, "id", "n"], [None, 1, "a", "beside"], [None, 2, "b"], [None, "sum", "c"]]
        lines: list[list[Any]] = [["Report", None, None], [], *data]
        drop(folder, "a.xlsx", workbook(("first", [["no"]]), ("Ørders 2026", lines), merged="A1:C1"))
        found = read(spark, folder, "a.xlsx", declared(), sheet="ørders*", range="B3:C5")
        assert by("id", found) == [{"id": "1", "n": "a"}, {"id": "2", "n": "b"}]
        plain = read(spark, folder, "a.xlsx", declared(("k", "INT")), sheet="Ørders 2026", range="B4:C5", header=False)
        assert by("k", plain) == [{"k": 1, "column_2": "a"}, {"k": 2, "column_2": "b"}]

    def test_merged_cells_are_refused_or_filled(self, spark: SparkSession, folder: LandingFolder) -> None:
        lines: list[list[Any]] = [["land", "city"], ["DE", "Bonn"], [None, "Köln"], ["AT", "Graz"]]
        path = drop(folder, "a.xlsx", workbook(("cities", lines), merged="A2:A3"))
        error = refused(spark, folder, "a.xlsx", declared())
        assert (error.code, error.what, error.where) == ("E885", "the cells A2:A3 of cities are merged", str(path))
        found = read(spark, folder, "a.xlsx", declared(), merged="fill")
        assert {(row["land"], row["city"]) for row in found} == {("DE", "Bonn"), ("DE", "Köln"), ("AT", "Graz")}

    @pytest.mark.parametrize(
        ("lines", "options", "what"),
        [
            ([["a"], ["b"]], {"sheet": "dta"}, "no sheet dta"),
            ([], {}, "the sheet data has no header"),
            ([["a"], ["b"]], {"range": "C1"}, "the sheet data has no header"),
        ],
    )
    def test_a_missing_sheet_or_header_is_reported_with_its_file(
        self, spark: SparkSession, folder: LandingFolder, lines: list[list[Any]], options: dict[str, Any], what: str
    ) -> None:
        path = drop(folder, "a.xlsx", workbook(("data", lines)))
        error = refused(spark, folder, "a.xlsx", declared(), **options)
        assert (error.code, error.what, error.where) == ("E884", what, str(path))

    def test_a_cell_in_a_column_without_a_header_is_reported(self, spark: SparkSession, folder: LandingFolder) -> None:
        path = drop(folder, "a.xlsx", workbook(("data", [["a"], ["b", "c"]])))
        error = refused(spark, folder, "a.xlsx", declared())
        why = "row 2 has a value in column B, which has no header: a value without a column name belongs to no column"
        assert (error.code, error.where, error.why) == ("E884", str(path), why)

    def test_a_value_of_another_type_names_file_and_value(self, spark: SparkSession, folder: LandingFolder) -> None:
        path = drop(folder, "a.xlsx", workbook(("data", [["id"], [1], ["two"]])))
        error = refused(spark, folder, "a.xlsx", declared(("id", "INT")))
        assert (error.code, error.where, error.why) == ("E806", str(path), "id is 'two', which does not fit its type")

    def test_a_workbook_that_is_a_bomb_is_refused(self, spark: SparkSession, folder: LandingFolder) -> None:
        drop(folder, "a.xlsx", packed({"xl/worksheets/sheet1.xml": b" " * (17 << 20)}))
        assert refused(spark, folder, "a.xlsx", declared()).code == "E882"

    def test_a_file_that_is_not_a_workbook_is_reported(self, spark: SparkSession, folder: LandingFolder) -> None:
        path = drop(folder, "a.xlsx", packed({"a.txt": "no workbook"}))
        error = refused(spark, folder, "a.xlsx", declared())
        assert (error.code, error.where) == ("E807", str(path))

    def test_workbooks_may_lie_in_a_zip(self, spark: SparkSession, folder: LandingFolder) -> None:
        members: dict[str, str | bytes] = {
            "in/a.xlsx": workbook(("data", [["id"], [1]])),
            "b.xlsx": workbook(("d", [["id"], [2]])),
        }
        drop(folder, "a.zip", packed(members))
        assert by("id", read(spark, folder, "a.zip", declared())) == [{"id": "1"}, {"id": "2"}]


def tells(columns: Columns, what: str) -> Columns:
    column = Column(f"_waterclock_source_{what}", HERE, "STRING", metadata_field=what)
    return replace(columns, named=(*columns.named, column))


class TestLines:
    @pytest.fixture(autouse=True)
    def small_parts(self, spark: SparkSession) -> Iterator[None]:
        spark.conf.set("spark.sql.files.maxPartitionBytes", "6000")
        spark.conf.set("spark.sql.files.openCostInBytes", "100")
        yield
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
        spark.conf.unset("spark.sql.files.openCostInBytes")

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("header", [True, False])
    @pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "txt"])
    def test_rows_have_the_right_line_numbers_though_files_are_read_in_parts(
        self, spark: SparkSession, folder: LandingFolder, ending: str, *, header: bool
    ) -> None:
        random = Random(f"{ending}{header}")
        expected: dict[str, tuple[str, int]] = {}
        for name in range(6):
            lines: list[str] = [""] * random.randrange(3)
            if header and ending.startswith("csv"):
                lines.append("id,note")
            for at in range(random.choice((0, 1, 30, 1500))):
                lines += [random.choice(("", " \t ", "  "))] * (random.random() < 0.01)
                key = f"{name}-{at}"
                note = "é" * random.randrange(4)
                told = {"jsonl": json.dumps({"id": key, "note": note}), "txt": f"{key:10}{note}"}
                lines.append(told.get(ending, f"{key},{note}"))
                expected[key] = (f"drop/{name}.{ending}", len(lines))
            if not any(line.strip() for line in lines):
                lines.append({"jsonl": "{}", "txt": "-"}.get(ending, "id,note"))
                expected |= {} if header and ending.startswith("csv") else {"none": ("", 0)}
            text = random.choice(("\n", "\r\n")).join(lines).encode()
            drop(folder, f"{name}.{ending}", gzip.compress(text) if ending.endswith("gz") else text)
        expected.pop("none", None)
        columns = tells(tells(declared(("id", "STRING"), is_open=False), "file"), "row")
        options: dict[str, Any] = {"header": header, "positions": "id 1-10, note 11-"}
        found = read(spark, folder, f"*.{ending}", columns, **options)
        told_of = {row["id"]: (row["_waterclock_source_file"], row["_waterclock_source_row"]) for row in found}
        assert {key: told_of.get(key) for key in expected} == expected

    def test_line_numbers_are_null_where_they_cannot_be_determined(
        self, spark: SparkSession, folder: LandingFolder
    ) -> None:
        drop(folder, "a.jsonl", '{"id": 1}\n[{"id": 2}, {"id": 3}]\n{"id": 4}\n')
        found = read(spark, folder, "a.jsonl", tells(declared(), "row"))
        assert {row["_waterclock_source_row"] for row in found} == {None}
        drop(folder, "a.csv", 'id,note\n1,"a\nb"\n2,c\n')
        found = read(spark, folder, "a.csv", tells(declared(), "row"))
        assert [row["_waterclock_source_row"] for row in by("id", found)] == [2, 4], "of CSV they always can"
