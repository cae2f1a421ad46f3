"""Physical plans: their exchanges, sorts and windows; and choosing a plan starts no job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from waterclock.temporal import Counts, FrameStatistics, compute_temporal, denorm_temporal, denorm_transactional

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BROADCAST, HASH = FrameStatistics(1_000, 100, 40, 10), FrameStatistics(1_000_000, 100_000, 40, 10)
BUCKETS = FrameStatistics(1_000_000, 10_000, 100, 10, 0, 10**15)
SLICES, SORTED = FrameStatistics(1_000_000, 100_000, 5_000, 10), FrameStatistics(100_000_000, 100_000, 5_000, 10)


@pytest.fixture(scope="module", autouse=True)
def _plainly_planned(spark: SparkSession) -> Iterator[None]:
    """Disable adaptive plans, which print their operators twice."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield
    spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    """Write raw rows, a parent, facts, and versions with a key of the parent to files."""
    folder: Path = tmp_path_factory.mktemp("stored")
    frames = {
        "raw": "SELECT 'k' AS c, timestamp'2020-01-01 00:00:00Z' AS t, 'x' AS a, 1 AS b, false AS gone, 1 AS seq",
        "facts": "SELECT 'k' AS p, 'l' AS q, timestamp'2020-01-02 00:00:00Z' AS at, 1 AS f",
        "parent": "SELECT 'k' AS p, timestamp'2020-01-01 00:00:00Z' AS rec_eff_time, 'x' AS a, 1 AS b, "
        "timestamp'9999-12-31 00:00:00Z' AS rec_exp_time, true AS rec_is_current",
        "child": "SELECT 'c' AS c, timestamp'2020-01-01 00:00:00Z' AS rec_eff_time, 'k' AS p, "
        "timestamp'9999-12-31 00:00:00Z' AS rec_exp_time, true AS rec_is_current",
    }
    for name, query in frames.items():
        spark.sql(query).write.parquet(str(folder / name))
    return {name: spark.read.parquet(str(folder / name)) for name in frames}


def planned(df: DataFrame) -> str:
    """Return the plan that Spark would run, without running it."""
    return str(df._jdf.queryExecution().executedPlan().toString())


def operators(df: DataFrame) -> tuple[int, int, int]:
    """Return the numbers of hash exchanges, sorts and windows."""
    plan = planned(df)
    lines = [line.lstrip(" :+-*(0123456789)") for line in plan.splitlines()]
    return (
        sum(line.startswith("Exchange hashpartitioning") for line in lines),
        sum(line.startswith("Sort ") for line in lines),
        sum(line.startswith("Window ") for line in lines),
    )


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({}, (1, 1, 3)),
        ({"nulls": "value"}, (1, 1, 3)),
        ({"track": "a"}, (1, 1, 3)),
        ({"fill_back": False, "sequence": "seq"}, (1, 1, 3)),
        ({"delete_when": "gone"}, (1, 2, 4)),
        ({"delete_when": "gone", "track": "a", "sequence": "seq"}, (1, 2, 4)),
    ],
)
@pytest.mark.parametrize("is_counted", [False, True], ids=["plain", "counted"])
def test_versions_take_one_exchange_and_one_sort(
    stored: dict[str, DataFrame], arguments: dict[str, object], wanted: tuple[int, int, int], is_counted: bool
) -> None:
    counts = Counts() if is_counted else None
    made = compute_temporal(stored["raw"], "c", time="t", counts=counts, **arguments)  # type: ignore[arg-type]
    assert operators(made) == wanted


@pytest.mark.parametrize("arguments", [{}, {"keep": "b"}, {"nulls": "value"}, {"fill_back": False, "sequence": "seq"}])
def test_versions_are_counted_as_their_window_gives_them(
    stored: dict[str, DataFrame], arguments: dict[str, object]
) -> None:
    """Any computation in between would copy each row."""
    made = compute_temporal(stored["raw"], "c", time="t", counts=Counts(), **arguments)  # type: ignore[arg-type]
    lines = [line.lstrip(" :+-*(0123456789)") for line in planned(made).splitlines()]
    counting = next(at for at, line in enumerate(lines) if line.startswith("CollectMetrics"))
    assert lines[counting + 1].startswith("Window ")


@pytest.mark.parametrize(
    ("numbers", "wanted", "join"),
    [
        (BROADCAST, (0, 0, 0), "BroadcastHashJoin"),
        (HASH, (2, 0, 0), "ShuffledHashJoin"),
        (BUCKETS, (2, 0, 0), "ShuffledHashJoin"),
        (SORTED, (4, 2, 0), "SortMergeJoin"),
        (SLICES, (4, 0, 0), "ShuffledHashJoin"),
        (None, (1, 1, 1), "Window"),
    ],
    ids=["broadcast", "hash", "buckets", "sorted slices", "slices", "window"],
)
def test_a_fact_is_joined_by_the_plan_of_the_parent_s_numbers(
    stored: dict[str, DataFrame], numbers: FrameStatistics | None, wanted: tuple[int, int, int], join: str
) -> None:
    made = denorm_transactional(stored["facts"], "p", "at", stored["parent"], "p", numbers=numbers)
    assert operators(made) == wanted
    assert join in planned(made)


def test_only_two_exchanges_of_slices_are_wide(stored: dict[str, DataFrame]) -> None:
    made = denorm_transactional(stored["facts"], "p", "at", stored["parent"], "p", numbers=SLICES)
    on_slices = re.findall(r"Exchange hashpartitioning\(k0#\d+, slice#\d+L, part#\d+L", planned(made).replace("p_", ""))
    assert len(on_slices) == 2


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [(BROADCAST, (1, 1, 2)), (HASH, (2, 1, 2)), (BUCKETS, (2, 1, 2))],
    ids=["broadcast", "hash", "buckets"],
)
def test_a_split_sorts_the_parent_once(
    stored: dict[str, DataFrame], numbers: FrameStatistics, wanted: tuple[int, int, int]
) -> None:
    made = denorm_temporal(stored["child"], "p", stored["parent"], "p", exact=True, numbers=numbers)
    assert operators(made) == wanted


def test_several_roles_shuffle_the_parent_once(stored: dict[str, DataFrame]) -> None:
    once = denorm_transactional(stored["facts"], "p", "at", stored["parent"], "p", "home", numbers=HASH)
    both = denorm_transactional(once, "q", "at", stored["parent"], "p", "work", numbers=HASH)
    assert planned(both).count("ReusedExchange") == 1
    both = denorm_transactional(
        denorm_transactional(stored["facts"], "p", "at", stored["parent"], "p", "home", numbers=BROADCAST),
        *("q", "at", stored["parent"], "p", "work"),
        numbers=BROADCAST,
    )
    assert planned(both).count("ReusedExchange") == 1


def test_choosing_a_plan_starts_no_job(spark: SparkSession, stored: dict[str, DataFrame]) -> None:
    def jobs() -> int:
        return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())

    before = jobs()
    compute_temporal(stored["raw"], "c", time="t", delete_when="gone", counts=Counts())
    for numbers in (None, BROADCAST, HASH, BUCKETS, SLICES, SORTED):
        denorm_transactional(stored["facts"], "p", "at", stored["parent"], "p", numbers=numbers, counts=Counts())
        denorm_transactional(stored["facts"], "p", "at", stored["parent"], "p", before_first="extend", numbers=numbers)
        denorm_temporal(stored["child"], "p", stored["parent"], "p", exact=True, numbers=numbers)
    assert jobs() == before
