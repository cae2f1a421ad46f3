"""k_anonymity() and l_diversity() in rules of batches, tables and deliveries, compared with plain Python."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, labels
from waterclock.engine.batch.rule_values import evaluate_aggregates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Person = tuple[str | None, int | None, str | None]
FLOW = """
COLLECT shop.people PARTITIONED (id BIGINT, zip STRING, age BIGINT, ill STRING, at TIMESTAMP) FROM shop.people
  EVERY DAY BY DATA TIME at
  EXPECT k_anonymity(zip, age) >= 2 AS k,
    l_diversity(ill, zip, age) >= 2 AND count(*) < 100 AS l ELSE WARN,
    k_anonymity(left(zip, 1)) >= 4 AS whole OVER TABLE ELSE WARN;
TRANSFORM safe.people PARTITIONED AS SELECT left(zip, 1) AS zip, ill FROM shop.people;
PUBLISH safe.people TO out.people EXPECT k_anonymity(zip) >= 3 AS sent ELSE HOLD;
"""


def smallest(people: Iterable[Person]) -> tuple[int, int]:
    """Return the smallest number of people per zip and age, and the smallest number of their known illnesses."""
    groups: dict[tuple[str | None, int | None], list[str | None]] = defaultdict(list)
    for zip_, age, ill in people:
        groups[zip_, age].append(ill)
    most = 2**63 - 1
    sizes = [len(group) for group in groups.values()]
    kinds = [len({ill for ill in group if ill is not None}) for group in groups.values()]
    return min(sizes, default=most), min(kinds, default=most)


@pytest.mark.parametrize("seed", range(6))
def test_measures_are_those_of_plain_python(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    people: list[Person] = [
        (rng.choice(["10", "20", None]), rng.choice([7, 8, None]), rng.choice(["cold", "flu", None]))
        for _ in range(rng.choice([0, 1, 20, 60]))
    ]
    rows = spark.createDataFrame(people, "zip STRING, age BIGINT, ill STRING")
    asked = ["k_anonymity(zip, age)", "l_diversity(ill, zip, age)", "k_anonymity(age, zip) + count(*) - count(1)"]
    k, diverse = smallest(people)
    assert evaluate_aggregates(rows, asked) == [k, diverse, k]
    assert evaluate_aggregates(rows, ["k_anonymity(zip, age) >= 2"]) == [k >= 2]
    assert evaluate_aggregates(rows, asked[:1], as_texts=True) == [str(k)]


def test_rules_of_a_batch_a_table_and_a_delivery(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    of_day: dict[int, list[Person]] = {
        1: [("10", 7, "cold"), ("10", 7, "flu"), ("20", None, "cold"), ("20", None, "flu")],
        2: [("10", 7, "cold"), ("10", 7, None)],
        3: [("10", 7, "cold"), ("10", 7, "flu"), ("20", 8, "cold")],
    }
    rows = [
        (100 * number + at, *person, f"2020-01-{number:02d} 12:00:00")
        for number, people in of_day.items()
        for at, person in enumerate(people)
    ]
    tiny.source("people", "id INTEGER, zip TEXT, age INTEGER, ill TEXT, at TEXT", rows)
    tiny.declare(FLOW)
    outcome = tiny.run(day(4))
    said = {report.group.batches[0].window.label: report.error for report in outcome.failed if report.error}
    of_people = {label: error.what for label, error in said.items() if "shop.people" in error.what}
    assert tiny.done("shop.people") == labels(1, 2), described(outcome)
    assert of_people.keys() == {labels(3)[0]}
    assert "k: the batch is not (k_anonymity(zip, age) >= 2), where k_anonymity(zip, age) is 1" in str(of_people)
    held = [report.error.what for report in tiny.heard.finished_ if report.error and report.error.code == "E755"]
    assert held, described(outcome)
    sent = "sent: the batch is not (k_anonymity(zip) >= 3), where k_anonymity(zip) is 2"
    assert all(each.endswith(sent) for each in held)
    warned = [
        warning
        for report in tiny.heard.finished_
        if report.group.batches[0].table == "shop.people"
        for warning in report.warnings
    ]
    varied = "l: the batch is not (l_diversity(ill, zip, age) >= 2 AND count(*) < 100), where count(*) is 2"
    assert [each for each in warned if each.startswith("l:")] == [varied]
    assert "whole: the table would not be (k_anonymity(left(zip, 1)) >= 4)" in warned
    for number in (1, 2):
        k, diverse = smallest(of_day[number])
        assert k >= 2, number
        assert (diverse >= 2) == (number == 1)
