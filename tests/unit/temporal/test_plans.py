from __future__ import annotations

import subprocess
import sys

import pytest

from waterclock.temporal.plans import LIMITS, TemporalPlan, choose
from waterclock.temporal.version_statistics import FrameStatistics

ROW = 100
MANY = LIMITS.broadcast // ROW + 1


@pytest.mark.parametrize(
    ("numbers", "plan"),
    [
        (None, TemporalPlan.WINDOW),
        (FrameStatistics(0, 0, 0, 0), TemporalPlan.BROADCAST),
        (FrameStatistics(1_000, 100, LIMITS.few_versions, 3), TemporalPlan.BROADCAST),
        (FrameStatistics(MANY, 10_000, LIMITS.few_versions, 3), TemporalPlan.HASH),
        (FrameStatistics(MANY, MANY // LIMITS.bucketed, LIMITS.few_versions, 3, 0, 10), TemporalPlan.BUCKETS),
        (FrameStatistics(MANY, MANY // LIMITS.bucketed, LIMITS.few_versions, 3), TemporalPlan.HASH),
        (FrameStatistics(MANY, MANY // LIMITS.bucketed + 1, LIMITS.few_versions, 3, 0, 10), TemporalPlan.HASH),
        (FrameStatistics(MANY, MANY // LIMITS.bucketed, LIMITS.few_versions + 1, 3, 0, 10), TemporalPlan.SLICES),
        (FrameStatistics(1_000, 100, LIMITS.few_versions + 1, 3), TemporalPlan.SLICES),
        (FrameStatistics(MANY, 100, 5_000, 10_000), TemporalPlan.SLICES),
        (FrameStatistics(10 * LIMITS.build // ROW, 10_000_000, 10, 0), TemporalPlan.SORTED_SLICES),
        (FrameStatistics(10 * LIMITS.build // ROW, 10_000, 5_000, 1_000), TemporalPlan.SORTED_SLICES),
        (FrameStatistics(MANY, 1_000_000, 5_000, 1_000_000), TemporalPlan.WINDOW),
    ],
)
def test_the_plan_follows_from_the_numbers(numbers: FrameStatistics | None, plan: TemporalPlan) -> None:
    assert choose(numbers, row_bytes=ROW, partitions=4) is plan


def test_more_tasks_build_more() -> None:
    numbers = FrameStatistics(2 * LIMITS.build // ROW, 1_000_000, 10, 0)
    assert choose(numbers, row_bytes=ROW, partitions=1) is TemporalPlan.SORTED_SLICES
    assert choose(numbers, row_bytes=ROW, partitions=2) is TemporalPlan.HASH
    often = FrameStatistics(LIMITS.build // ROW, 1_000, 100, 0, 0, 10)
    assert choose(often, row_bytes=ROW, partitions=1) is TemporalPlan.HASH
    assert choose(often, row_bytes=ROW, partitions=2) is TemporalPlan.BUCKETS


def test_the_names_are_there_and_pyspark_is_loaded_only_for_them() -> None:
    code = (
        "import sys, waterclock.error_codes.catalog, waterclock.temporal as t\nold = 'pyspark' in sys.modules\n"
        "print(old, all(getattr(t, name) for name in dir(t)), 'pyspark' in sys.modules, set(dir(t)) == set(t.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "False True True True\n"
