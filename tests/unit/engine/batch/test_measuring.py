"""Rules that compare a batch with earlier ones are evaluated on literals."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tests.ledgers import day, table
from waterclock.engine.batch import measuring
from waterclock.engine.batch.measuring import LabelMeasurement, MeasureHistory
from waterclock.flow.declarations import Place, Rule
from waterclock.flow.enums import Action, Scope
from waterclock.flow.measures import PASSED_OVER, ComparedSource, ComparedValue, MeasureComparison


def test_compared_values_are_literals_since_spark_connect_binds_none() -> None:
    asked: list[str] = []

    def sql(text: str) -> Any:  # without arguments
        asked.append(text)
        return SimpleNamespace(collect=lambda: [(True, False)])

    rules: Any = [(None, "CAST(:v0 AS bigint) > 1"), (None, "CAST(:v1 AS string) = ':v0' AND CAST(:v2 AS int) > 0")]
    spark: Any = SimpleNamespace(sql=sql)
    assert measuring._evaluate_expressions(spark, rules, {"v0": "12", "v1": "it's", "v2": None}) == [True, False]
    [text] = asked
    assert text == (
        "SELECT (CAST('12' AS bigint) > 1) AS r0, (CAST('it\\'s' AS string) = ':v0' AND CAST(NULL AS int) > 0) AS r1 "
        "FROM VALUES (1) AS t(one)"
    )


def test_a_partial_label_is_judged_and_later_ones_are_not_compared_with_it() -> None:
    own, before = ComparedValue(ComparedSource.OWN, "count(*)"), ComparedValue(ComparedSource.LAST_GOOD, "count(*)")
    comparison = MeasureComparison(("", " > ", ""), (own, before))
    rule = Rule("n", "more", Scope.BATCH, Action.WARN, Place("a.dpl", 1, 1), comparison=comparison)
    judged = replace(table("raw.a", partitioned=True), rules=(rule,))
    history = MeasureHistory(judged, {day(0): (9, {})})
    nothing: Any = None  # Spark is not used: no rule has a value to compare with
    judging = LabelMeasurement(nothing, judged, [day(0), day(1)], history, is_read=True)
    value = {"measure:count(*)": "3", "measured as:count(*)": "bigint"}
    skipped = ["more: no batch before it for last_good(count(*))"]
    for label, source in ((0, {"missing": [{"table": "raw.b"}]}), (1, {})):
        manifest: Any = SimpleNamespace(label=day(label), rows=3, source=source)
        assert judging.evaluate(nothing, manifest, value)[1][PASSED_OVER] == skipped
