"""Types as which nested values are read: a text for each DECIMAL, and all others as declared."""

from __future__ import annotations

import pytest

from waterclock.connectors.nested_decimals import narrow_value, type_to_read


@pytest.mark.parametrize(
    ("type_text", "read"),
    [
        ("STRUCT<a: DECIMAL(10, 2), b: INT>", "STRUCT<`a`: {}, `b`: INT>"),
        ("array<decimal>", "ARRAY<{}>"),
        ("STRUCT<decimal: dec(5,5), `numeric`: STRING, c: NUMERIC COMMENT 'x'>",
         "STRUCT<`decimal`: {}, `numeric`: STRING, `c`: {} COMMENT 'x'>"),
        ("struct<select:decimal(3,1),not:timestamp,order:timestamp_ntz>",
         "STRUCT<`select`: {}, `not`: TIMESTAMP, `order`: TIMESTAMP_NTZ>"),
        ("MAP<STRING, ARRAY<STRUCT<`a``b c` DECIMAL(10,2) NOT NULL>>>",
         "MAP<STRING, ARRAY<STRUCT<`a``b c`: {} NOT NULL>>>"),
        ("STRUCT<decimal: INT>", "STRUCT<decimal: INT>"),
        ("DECIMAL(10,2)", "DECIMAL(10,2)"),
        ("TIMESTAMP", "TIMESTAMP"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", ["STRING", "VARIANT"])
def test_decimals_within_a_type_are_read_as_text(type_text: str, read: str, text: str) -> None:
    assert type_to_read(type_text, text) == read.replace("{}", text)


def test_a_value_without_decimals_is_not_taken_apart() -> None:
    assert narrow_value("`a`", "STRUCT<b: INT>") == "`a`"
