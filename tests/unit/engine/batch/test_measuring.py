"""Rules that compare a batch with earlier ones are evaluated on literals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from waterclock.engine.batch import measuring


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
