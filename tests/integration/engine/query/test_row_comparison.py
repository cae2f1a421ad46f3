"""Maps are compared and shown as maps, also within keys; a sample has the largest changes of each numeric column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from waterclock.engine.query.row_comparison import compare_rows, match_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LABEL = "20260101000000"
BEFORE = (
    "map('a', 1, 'b', 2) AS k, 1 AS v, map(named_struct('x', 1D), array(map('u', -0D))) AS m, "
    "named_struct('n', map('q', map('r', 1))) AS s"
)
AFTER = (
    "map('b', 2, 'a', 1) AS k, 3 AS v, map(named_struct('x', 1D), array(map('u', 0D), NULL)) AS m, "
    "named_struct('n', map('q', map('r', 2))) AS s"
)


def test_maps_in_keys_and_values_are_compared_and_shown(spark: SparkSession) -> None:
    before, after = (spark.sql(f"SELECT '{LABEL}' AS timelabel, {values}") for values in (BEFORE, AFTER))
    columns = match_columns(before, after, ("timelabel", "k"))
    found = compare_rows(before, after, columns, most_labels=5)
    key = {"a": 1, "b": 2}
    assert [(each.column, each.rows) for each in found.columns] == [("v", 1), ("m", 1), ("s", 1)]
    assert found.columns[0].largest is not None
    assert (found.columns[0].largest.key, found.columns[0].largest.after) == ((LABEL, key), 3)
    [row] = found.sample
    assert row.kind == "changed"
    assert row.before == {
        "timelabel": LABEL, "k": key, "v": 1, "m": {"{'x': 1.0}": [{"u": 0.0}]}, "s": {"n": {"q": {"r": 1}}},
    }  # fmt: skip
    assert row.after == {
        "timelabel": LABEL, "k": key, "v": 3, "m": {"{'x': 1.0}": [{"u": 0.0}, None]}, "s": {"n": {"q": {"r": 2}}},
    }  # fmt: skip


def test_a_sample_has_the_largest_changes_of_each_number(spark: SparkSession) -> None:
    """Columns with other scales have the same weight, and an infinite change is the largest of its column."""
    plain = f"'{LABEL}' AS timelabel, id, 10D AS small, CAST(10 AS DECIMAL(9)) AS large, 0F AS odd, 'x' AS text"
    changed = (
        f"'{LABEL}' AS timelabel, id, 10 + if(id = 900, 0.5D, if(id = 70, 0.2D, 0D)) AS small, "
        "CAST(10 + if(id = 800, 100000, if(id = 60, 90000, 0)) AS DECIMAL(9)) AS large, "
        "CAST(if(id = 700, 'Infinity', if(id = 50, 'NaN', if(id = 40, '1e30', '0'))) AS FLOAT) AS odd, "
        "if(id < 20, 'y', 'x') AS text"
    )
    spark.range(1000).createOrReplaceTempView("ids")
    before, after = (spark.sql(f"SELECT {columns} FROM ids") for columns in (plain, changed))
    found = compare_rows(before, after, match_columns(before, after, ("id",)), most_labels=1, most_shown=6)
    assert [row.after["id"] for row in found.sample if row.after is not None] == [700, 800, 900, 60, 70, 0]
    assert {each.column: each.rows for each in found.columns} == {"text": 20, "odd": 3, "small": 2, "large": 2}
