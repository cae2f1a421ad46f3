"""Lineage names exactly the columns whose values reach an output; checked by changing columns in Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.lineages import CASES, UNTOLD, T, U

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_T_ROWS = """
(1, 10, 3, 'a', array(1, 2), named_struct('a', 5, 'b', 'q'), array(named_struct('p', 7, 'q', 'r')), map('k', 8),
 '{"p": 9, "q": "z"}'),
(2, 20, 4, 'b', array(3), named_struct('a', 6, 'b', 'w'), array(named_struct('p', 17, 'q', 's')), map('k', 18),
 '{"p": 19, "q": "y"}')
"""
_ROWS = {"t": (T, _T_ROWS), "u": (U, "(1, 100, 'x'), (2, 20, 'y'), (3, 300, 'z')")}
_CHANGED = {
    "INT": "{c} + 1000",
    "STRING": "concat({c}, '!')",
    "ARRAY<INT>": "concat(transform({c}, e -> e + 1000), array(5))",
    "STRUCT<a: INT, b: STRING>": "named_struct('a', {c}.a + 1000, 'b', concat({c}.b, '!'))",
    "ARRAY<STRUCT<p: INT, q: STRING>>": "transform({c}, e -> named_struct('p', e.p + 1000, 'q', concat(e.q, '!')))",
    "MAP<STRING, INT>": "map_concat(transform_values({c}, (k, e) -> e + 1000), map('more', 5))",
}
_JSON = """replace(replace(j, '": ', '": 77'), '77"', '"77')"""
_ALL = frozenset({*T, *(f"u.{column}" for column in U)})
# these select rows, so changing their columns changes every output
_FILTERS = re.compile(r"JOIN|WHERE|FILTER|PIVOT|GROUP BY|EXISTS")


def put(spark: SparkSession, changed: Collection[str] = ()) -> None:
    """Write both tables, with some columns changed in every row."""
    for name, (columns, rows) in _ROWS.items():
        shown = []
        for column, kind in columns.items():
            is_changed = (f"u.{column}" if name == "u" else column) in changed
            text = (_JSON if column == "j" else _CHANGED[kind].replace("{c}", column)) if is_changed else column
            shown.append(f"CAST({text} AS {kind}) AS {column}")
        query = f"SELECT {', '.join(shown)}, 'l' AS timelabel FROM VALUES {rows} AS x({', '.join(columns)})"
        spark.sql(query).createOrReplaceTempView(name)


def outputs(spark: SparkSession, query: str) -> dict[str, list[str]]:
    """Return the distinct values of each output, without their counts, which show only which rows exist."""
    made = spark.sql(re.sub(r"\braw\.", "", query)).collect()
    return {name.lower(): sorted({repr(row[at]) for row in made}) for at, name in enumerate(made[0].__fields__)}


@pytest.mark.sampled(1)
def test_an_output_changes_with_the_columns_that_lineage_names_and_with_no_others(
    spark: SparkSession, *, is_long: bool
) -> None:
    found = [query for query in CASES if not _FILTERS.search(query)]
    assert len(found) > 20
    asked = {query: CASES[query] for query in found[:: 1 if is_long else 3]}
    wrong = []
    for query, cases in asked.items():
        put(spark)
        before = outputs(spark, query)
        for said in {each for each in cases.values() if each != UNTOLD}:
            columns = [column.lower() for column, each in cases.items() if each == said]
            named = set(said.split())
            put(spark, _ALL - named)
            after = outputs(spark, query)
            wrong += [(query, column, "misses a column") for column in columns if after[column] != before[column]]
            # these do not change if all values are shifted equally
            if not named or "row_number" in query or " IN (" in query:
                continue
            put(spark, named)
            after = outputs(spark, query)
            wrong += [(query, column, "names too much") for column in columns if after[column] == before[column]]
    assert not wrong, "\n".join(map(str, wrong))
