"""Metrics of bytes are read from the texts in which Spark 4.2 shows them."""

from __future__ import annotations

import pytest

from waterclock.engine.spark.shuffle_reads import Spread, parse_spread

HEAD = "total (min, med, max (stageId: taskId))\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"{HEAD}2.3 MiB (93.3 KiB, 135.0 KiB, 1537.5 KiB (stage 22.0: task 70))",
            Spread(2_411_725, 95_539, 138_240, 1_574_400, 22),
        ),
        (f"{HEAD}1.5 GiB (0.0 B, 10.0 B, 1.5 GiB (stage 3.1: task 4))", Spread(1_610_612_736, 0, 10, 1_610_612_736, 3)),
        ("1610.6 KiB", Spread(1_649_254, 1_649_254, 1_649_254, 1_649_254, None)),
        ("0.0 B", None),
        ("", None),
        ("400,000", None),
        (f"{HEAD}1.5 s (731 ms, 789 ms, 789 ms (stage 20.0: task 63))", None),
    ],
)
def test_a_metric_has_its_spread_and_the_stage_of_the_largest_task(text: str, expected: Spread | None) -> None:
    assert parse_spread(text) == expected
