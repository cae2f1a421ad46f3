from __future__ import annotations

import pytest

from waterclock.dpl.project import SparkDeclaration
from waterclock.engine.spark import confined_jvm
from waterclock.engine.spark.confined_jvm import why_unconfined


@pytest.mark.parametrize(
    ("spark", "why"),
    [
        (SparkDeclaration(), None),
        (SparkDeclaration(master="local[2]"), None),
        (None, None),
        (SparkDeclaration(master="spark://h:7077"), "Spark runs on a cluster"),
        (SparkDeclaration(connect="sc://h:15002"), "Spark runs on a Spark Connect server"),
        (SparkDeclaration(packages=("a:b:1",)), "the Spark setting `packages` is set"),
    ],
)
def test_queries_run_in_a_sandbox_only_in_a_local_spark_without_packages(
    spark: SparkDeclaration | None, why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATERCLOCK_UNCONFINED", raising=False)
    monkeypatch.setattr(confined_jvm, "landlock_version", lambda: 1)
    assert why_unconfined(spark) == why


def test_a_system_without_landlock_and_the_variable_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATERCLOCK_UNCONFINED", raising=False)
    monkeypatch.setattr(confined_jvm, "landlock_version", lambda: 0)
    assert why_unconfined(SparkDeclaration()) == "this system has no Landlock (Linux 5.13 or later)"
    monkeypatch.setenv("WATERCLOCK_UNCONFINED", "1")
    assert why_unconfined(SparkDeclaration()) == "WATERCLOCK_UNCONFINED is set"
