"""`check` refuses all functions that Spark itself lists as nondeterministic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from waterclock.dpl.query.determinism import check_deterministic_call
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.dpl.syntax.tokens import dialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_OF_THE_MOMENT = ("Nondeterministic", "CurrentTimestampLike")


def of_the_moment(spark: SparkSession) -> list[str]:
    """Return the functions of Spark whose expression gives another result at each run."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    kinds = [jvm.java.lang.Class.forName(f"{_EXPRESSIONS}.{name}", False, loader) for name in _OF_THE_MOMENT]
    registry: Any = spark._jsparkSession.sessionState().functionRegistry()
    found = []
    functions = registry.listFunction().iterator()
    while functions.hasNext():
        identifier = functions.next()
        info = registry.lookupFunction(identifier).get()
        made = jvm.java.lang.Class.forName(info.getClassName(), False, loader)
        if any(kind.isAssignableFrom(made) for kind in kinds):
            found.append(str(identifier.funcName()))
    return sorted(found)


def is_refused(call: str) -> bool:
    tokens = dialect().tokenize(call)
    return check_deterministic_call(SourceText("q", call), tokens, 0, tokens[0].text.upper()) is not None


def test_each_function_that_spark_calls_nondeterministic_is_refused(spark: SparkSession) -> None:
    names = of_the_moment(spark)
    assert {"rand", "uuid", "now", "shuffle", "monotonically_increasing_id"} <= set(names)
    assert [name for name in names if not is_refused(f"{name}()")] == []


def test_a_sample_with_a_seed_hangs_on_how_the_rows_are_divided(spark: SparkSession) -> None:
    def sampled(tasks: int) -> list[int]:
        spark.range(0, 50, 1, tasks).createOrReplaceTempView("sampled")
        rows = spark.sql("SELECT id FROM sampled TABLESAMPLE (50 PERCENT) REPEATABLE (3)").collect()
        return sorted(row.id for row in rows)

    assert sampled(1) == sampled(1) != sampled(4)
