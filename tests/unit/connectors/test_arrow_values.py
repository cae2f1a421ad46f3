from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors import arrow_values
from waterclock.connectors.arrow_values import Times, arrow_type, column, instant_of, instants, is_plain
from waterclock.connectors.type_mismatch import TypeMismatch
from waterclock.errors import WaterclockError

NEW_YORK = Times("America/New_York")
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "type_name", "expected"),
    [
        (7, "BIGINT", 7),
        ("7", "bigint", 7),
        (7.0, "INT", 7),
        ("7", "DOUBLE", 7.0),
        (7, "STRING", "7"),
        (0.1, "string", "0.1"),
        (b"x", "STRING", "x"),
        ("x", "BINARY", b"x"),
        ("12.3", "DECIMAL(12,2)", Decimal("12.30")),
        ("12.3000", "DECIMAL(12,2)", Decimal("12.30")),
        (12.345678, "DECIMAL(12,2)", Decimal("12.35")),
        (12.3, "decimal(12, 2)", Decimal("12.30")),
        (12, "DECIMAL(12,2)", Decimal("12.00")),
        (Decimal("12.300"), "DECIMAL(12,2)", Decimal("12.30")),
        ("9" * 36 + ".12", "DECIMAL(38,2)", Decimal("9" * 36 + ".12")),
        (10**36 - 1, "DECIMAL(38,2)", Decimal("9" * 36 + ".00")),
        (1, "BOOLEAN", True),
        ("false", "BOOLEAN", False),
        ("2013-01-01", "DATE", date(2013, 1, 1)),
        ("2013-01-01 05:00:00", "DATE", date(2013, 1, 1)),
        ("2013-01-01T12:00:00Z", "TIMESTAMP", NOON),
        ("2013-01-01 13:00:00+01:00", "TIMESTAMP", NOON),
        ("2013-01-01 07:00", "TIMESTAMP", NOON),
        (1357041600, "TIMESTAMP", NOON),
        ("2013-01-01 07:00", "TIMESTAMP_NTZ", datetime(2013, 1, 1, 7)),  # noqa: DTZ001 (it has no zone)
        ("x" * 10, "VARCHAR(10)", "x" * 10),
        (None, "INT", None),
    ],
)
def test_values_are_converted_to_the_declared_type(value: object, type_name: str, expected: object) -> None:
    assert column([None, value], type_name, NEW_YORK).to_pylist() == [None, expected]


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        ("seven", "INT"),
        (7.5, "INT"),
        (2**31, "INT"),
        ("x", "DOUBLE"),
        ("x", "DECIMAL(12,2)"),
        ("12.345", "DECIMAL(12,2)"),
        (Decimal("12.345"), "DECIMAL(12,2)"),
        ("1_0", "DECIMAL(12,2)"),
        ("1_000", "INT"),
        ("1_000", "DOUBLE"),
        ("0x10", "INT"),
        (10**12, "DECIMAL(12,2)"),
        (2, "BOOLEAN"),
        ("01/02/2013", "DATE"),
        ("noon", "TIMESTAMP"),
        (b"\xff", "STRING"),
        ("2013-01-01T12:00:00Z", "TIMESTAMP_NTZ"),
    ],
)
def test_a_value_that_does_not_fit_is_found_among_others(value: object, type_name: str) -> None:
    good = {"STRING": "x", "DATE": "2013-01-01", "TIMESTAMP": NOON, "TIMESTAMP_NTZ": "2013-01-01"}.get(type_name, 1)
    with pytest.raises(TypeMismatch) as caught:
        column([good, None, value, good], type_name, NEW_YORK)
    assert caught.value.value == value


@pytest.mark.parametrize("type_name", ["ARRAY<INT>", "STRUCT<a INT>", "VARIANT", "interval"])
def test_a_type_that_no_value_becomes_is_refused(type_name: str) -> None:
    assert not is_plain(type_name)
    with pytest.raises(WaterclockError, match="E815"):
        arrow_type(type_name)


@pytest.mark.parametrize(("epoch", "number"), [("seconds", 1357041600), ("milliseconds", 1357041600_000)])
def test_numbers_count_from_1970_in_the_unit_declared(epoch: str, number: int) -> None:
    assert instant_of(number, Times("UTC", epoch)) == NOON


@pytest.mark.parametrize("value", ["", "soon", b"2013", True, None, 1e300, float("nan"), object()])
def test_a_value_that_is_not_a_time_becomes_none(value: object) -> None:
    assert instant_of(value, NEW_YORK) is None


@given(st.datetimes(datetime(1980, 1, 1), datetime(2030, 1, 1)), st.integers(-12, 14))  # noqa: DTZ001 (bounds)
def test_a_time_with_an_offset_is_the_same_in_every_zone(local: datetime, offset: int) -> None:
    text = f"{local.isoformat()}{offset:+03d}:00"
    expected = (local - timedelta(hours=offset)).replace(tzinfo=UTC)
    assert instant_of(text, NEW_YORK) == instant_of(text, Times("Asia/Tokyo")) == expected


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_integers_are_kept_exactly(values: list[int | None]) -> None:
    made = column(values, "BIGINT", NEW_YORK)
    assert made.type == pa.int64()
    assert made.to_pylist() == values


_DAYS = st.sampled_from(
    ["2013-01-01", "2013-03-10", "2013-11-03", "0001-01-01", "9999-12-31", "0000-01-01", "2013-02-30", "2013-1-1"]
)
_CLOCKS = st.sampled_from(
    ["", "T05:00:00", " 05:00", " 01:30:00", " 02:30", "T05", " 23:59:59.1", " 00:00:00.123456", " 05:00:00.1234567",
     " 24:00", " 12:00:60", "T050000", "  05:00"]
)  # fmt: skip
_ZONES = st.sampled_from(["", "", "Z", "+01:00", "-0500", "+05", "+23:59", "-24:00", " +01:00", "z"])
_TEXTS = st.builds("{}{}{}".format, _DAYS, _CLOCKS, _ZONES)
_VALUES = st.one_of(
    _TEXTS, _TEXTS, st.none(), st.sampled_from([" 2013-01-01 ", "noon", "", 0, 7, 2**31, 7.0, 7.5, True])
)


@given(st.lists(_VALUES, max_size=3), st.sampled_from(["TIMESTAMP", "TIMESTAMP_NTZ", "DATE", "INT", "BIGINT"]))
def test_vectorized_conversion_equals_conversion_value_by_value(some: list[object], type_name: str) -> None:
    def read() -> object:
        try:
            return column(some, type_name, NEW_YORK)
        except TypeMismatch as misfit:
            return repr(misfit.value)

    at_once = read()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrow_values, "_convert_with_arrow", lambda *_: None)
        assert read() == at_once


@given(st.lists(_VALUES, max_size=3))
def test_many_instants_are_those_of_each(some: list[object]) -> None:
    assert instants(some, NEW_YORK).to_pylist() == [instant_of(value, NEW_YORK) for value in some]


@pytest.mark.parametrize(
    ("value", "zone"),
    [
        ("9999-12-31 23:59:59.1", NEW_YORK),
        ("9999-12-31T23:59:59-05:00", NEW_YORK),
        (datetime(9999, 12, 31, 23, 59), NEW_YORK),  # noqa: DTZ001 (its zone is the source's)
        (datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-5))), NEW_YORK),
        ("0001-01-01 00:00", Times("Asia/Tokyo")),
    ],
)
def test_a_time_that_is_beyond_the_calendar_in_utc_is_no_time(value: object, zone: Times) -> None:
    assert instant_of(value, zone) is None
    with pytest.raises(TypeMismatch):
        column([value], "TIMESTAMP", zone)


def test_plain_texts_of_times_are_read_at_once() -> None:
    texts = ["2013-01-01T12:00:00Z", None, "2013-01-01T13:00:00.5+01:00"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrow_values, "instant_of", None)
        assert column(texts, "TIMESTAMP", NEW_YORK).to_pylist() == [NOON, None, NOON + timedelta(milliseconds=500)]
        assert column(["2013-01-01 07:00"], "TIMESTAMP", NEW_YORK).to_pylist() == [NOON]
