"""A text is read as DECIMAL only without loss of digits: compared with Python's decimals, in every reader of texts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from decimal import Context, Decimal, InvalidOperation, localcontext
from random import Random
from typing import TYPE_CHECKING

import pytest

from waterclock.spark_sql import cast_text, decimal_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = ("DECIMAL(10,2)", "DECIMAL(38,0)", "DECIMAL(38,38)", "DECIMAL", "DECIMAL(5,5)", "DECIMAL(38,2)", "DECIMAL(3,1)")
BY_HAND = """7.125 7.12 7.120 7.1200000 -7.125 +7.12 .5 5. 0.001 0.000 00012.30 1e2 1E-2 1e-3 125e-3 120e-3 7.125e1
7.12e0 0e-9 1e40 -0 -0.001 . .e1 e5 1e 1,5 7,125 n/a NaN Infinity 0x1 1_000 1d 99999999.99 99999999.994 99999999.995
12345678901234567.125 12345678901234567.12 1.00000000000000000000000000000000000000000000001
123456789012345678901234567890123456.78 123456789012345678901234567890123456.789""".split()


ARABIC = "\u0667.\u0661\u0662\u0665"


def texts(random: Random) -> Iterator[str]:
    yield from (*BY_HAND, " 1.5 ", "", "1 2", ARABIC)
    for _ in range(600):
        whole = "".join(random.choices("0159", k=random.choice((0, 1, 2, 5, 9, 20))))
        fraction = "".join(random.choices("00005", k=random.choice((0, 1, 2, 3, 5, 12, 40))))
        power = random.choice(("", "", "", f"e{random.randint(-6, 6)}", f"E+{random.randint(0, 3)}"))
        yield f"{random.choice(('', '-', '+'))}{whole}{random.choice(('', '.'))}{fraction}{power}"


def meant(text: str, type_text: str) -> Decimal | None:
    digits, places = decimal_of(type_text) or (0, 0)
    with localcontext(Context(prec=500)):
        try:
            number = Decimal(text)
            whole = number.scaleb(places)
        except InvalidOperation:
            return None
        held = number.is_finite() and whole == whole.to_integral_value() and abs(whole) < 10**digits
        return number if held and "_" not in text else None


@pytest.mark.parametrize("type_text", TYPES)
def test_a_text_is_read_whole_or_not_at_all(spark: SparkSession, type_text: str) -> None:
    every = list(texts(Random(7)))
    frame = spark.createDataFrame([(text,) for text in every], "text STRING")
    found = frame.selectExpr("text", f"{cast_text('text', type_text)} AS value").collect()
    wrong = {row.text: row.value for row in found if row.value != meant(row.text, type_text)}
    arabic = {text: value for text, value in wrong.items() if not text.isascii()}
    assert wrong == arabic
    assert all(value is None for value in arabic.values()), "digits of other scripts are refused, not rounded"


def test_far_powers_take_no_time_and_are_no_decimals(spark: SparkSession) -> None:
    """Spark takes ten seconds for one 0e-99999999, as it divides by a number of a hundred million digits."""
    far = ["0e-99999999", "0.00e-99999999", "1e-99999999", "-1e99999999", "0e99999999", "1e-9999999999"]
    frame = spark.createDataFrame([(text,) for text in far * 20], "text STRING")
    begun = time.monotonic()
    rows = frame.selectExpr(f"{cast_text('text', 'DECIMAL(10,2)')} AS value").collect()
    assert {row.value for row in rows} == {None}
    assert time.monotonic() - begun < 60
