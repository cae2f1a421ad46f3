"""Column lineage of DataFrame code: shapes of code with the expected source columns, written by hand."""

from __future__ import annotations

import re
from textwrap import indent
from typing import TYPE_CHECKING, Any

import pytest

from tests.code_shapes import SHAPES
from tests.lineages import CASES, UNTOLD, T, U
from waterclock.engine.batch.code_lineage import _columns_of_read
from waterclock.engine.batch.plan_lineage import lineage_of
from waterclock.engine.batch.plan_tree import plan_of
from waterclock.engine.spark.analysed_plan import analysed_plan
from waterclock.flow.declarations import Read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from waterclock.flow.code_lineage import CodeLineage

pytestmark = pytest.mark.spark
_COLUMNS = {
    "o": "id INT, customer INT, amount DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING>, "
    "more STRUCT<a: INT, b: STRING>, m MAP<STRING, INT>, j STRING, timelabel STRING",
    "c": "id INT, name STRING, country STRING, timelabel STRING",
}
# reported as possible sources although they are not: local rows of Python look like those of an RDD, and Spark's plan
# of an unpivot contains no expressions
INEXACT = {"local_rows", "unpivot"}


# cases of SQL lineage where the plan reports additional, possible sources
LARGER = {"WITH RECURSIVE"}
# expressions that Spark refuses, although SQL lineage resolves them
REFUSED = {"max(w + t.v)"}


@pytest.mark.parametrize("query", [query for query in CASES if not any(word in query for word in REFUSED)])
def test_lineage_from_the_spark_plan_equals_lineage_from_the_query(spark: SparkSession, query: str) -> None:
    for name, columns in (("t", T), ("u", U)):
        said = ", ".join(f"{column} {kind}" for column, kind in {**columns, "timelabel": "STRING"}.items())
        spark.createDataFrame([], said).alias(f"_read_{name}").createOrReplaceTempView(name)
    rows = spark.sql(re.sub(r"\braw\.", "", query))
    text = analysed_plan(rows)
    assert text is not None
    found = lineage_of(
        plan_of(text), rows.columns, {f"_read_{each}": _columns_of_read(Read(each)) for each in "tu"}, "tu"
    )
    origins = {name.lower(): made for name, made in found.columns.items()}
    for column, said in CASES[query].items():
        if said == UNTOLD:
            continue
        made = origins[column.lower()]
        told = {name if table == "t" else f"u.{name}" for table, name in made.inputs | made.maybe}
        if any(word in query for word in LARGER):
            assert told >= set(said.split()) or "u.*" in told, column
            assert made.maybe
        else:
            assert told == set(said.split()), column


@pytest.fixture(scope="module")
def reads(spark: SparkSession) -> dict[str, DataFrame]:
    """Return both tables without rows, named as the engine names the inputs of a transform."""
    return {name: spark.createDataFrame([], said).alias(f"_read_{name}") for name, said in _COLUMNS.items()}


def made(reads: Mapping[str, DataFrame], name: str) -> CodeLineage:
    from pyspark.sql import Window, functions

    code = SHAPES[name][0].strip()
    body = code if "return " in code else f"return {code}"
    known: dict[str, Any] = {"F": functions, "Window": Window}
    exec(f"def made(o, c):\n{indent(body, '    ')}", known)
    rows = known["made"](reads["o"], reads["c"])
    text = analysed_plan(rows)
    assert text is not None
    sources = {f"_read_{table}": _columns_of_read(Read(table)) for table in reads}
    return lineage_of(plan_of(text), rows.columns, sources, reads)


def told(found: CodeLineage) -> dict[str, set[str]]:
    shown = {
        name: {_word(each) for each in one.inputs} | {f"?{_word(each)}" for each in one.maybe}
        for name, one in found.columns.items()
    }
    return shown | {f"{use}:": {_word(each) for each in of} for use, of in found.uses.items()}


def _word(of: tuple[str, str]) -> str:
    return of[1] if of[0] == "o" and of[1] != "*" else ".".join(of)


def wanted(said: str) -> dict[str, set[str]]:
    columns, *uses = said.split(" | ")
    found: dict[str, set[str]] = {}
    for word in columns.split(" "):
        name, _, inputs = word.rpartition("=")
        at = found.setdefault(name, set()) if name else found[next(reversed(found))]
        at |= {inputs} - {""}
    return found | {f"{how}:": set(of.split()) for how, _, of in (use.partition(": ") for use in uses)}


@pytest.mark.parametrize("name", list(SHAPES))
def test_column_lineage_matches_the_expected_inputs(reads: Mapping[str, DataFrame], name: str) -> None:
    assert told(made(reads, name)) == wanted(SHAPES[name][1])


def test_the_corpus_has_at_least_60_shapes_and_at_most_5_percent_inexact_ones() -> None:
    assert len(SHAPES) >= 60
    assert len(INEXACT) <= len(SHAPES) / 20
