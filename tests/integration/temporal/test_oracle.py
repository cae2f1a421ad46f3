"""Random histories, hundreds in one frame, against the oracle in plain Python."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.model.temporal_oracle import OPEN, Row, Rules, in_effect, split, versions_of
from waterclock.temporal import (
    Counts,
    FrameStatistics,
    compute_temporal,
    denorm_temporal,
    denorm_transactional,
    measure_temporal,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
# a seed makes hundreds of histories; shrinking it is useless, and the assertions name the rows that differ
one_frame_each = settings(
    max_examples=settings().max_examples // 13,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
NAMES = ("a", "b", "c")
DAY = 86_400_000_000
FIRST = 1_577_836_800_000_000
ANY_RANDOM = st.integers(0, 2**32).map(random.Random)
# these numbers choose a plan: the result is right even if they are wrong
PLANS = {
    "window": None,
    "broadcast": FrameStatistics(10, 1, 2, 0),
    "hash": FrameStatistics(1_000_000, 100_000, 2, 0),
    "buckets": FrameStatistics(
        1_000_000, 10_000, 100, 10, 1_577_836_800_000_000, 1_577_836_800_000_000 + 3 * 86_400_000_000
    ),
    "buckets elsewhere": FrameStatistics(1_000_000, 10_000, 100, 10, 1_577_900_000_000_000, 1_577_800_000_000_000),
    "slices": FrameStatistics(1_000_000, 100_000, 5_000, 10),
    "sorted slices": FrameStatistics(100_000_000, 100_000, 5_000, 10),
    "slices without limit": FrameStatistics(10**9, 10**8, 5_000, 10**8),
}


@dataclass(frozen=True)
class Asked:
    """A way to call `compute_temporal`, and the oracle's rules for it."""

    arguments: dict[str, Any]
    rules: Rules


@st.composite
def askings(draw: st.DrawFn) -> Asked:
    tracked = draw(st.none() | st.sets(st.sampled_from(NAMES), min_size=1))
    values = draw(st.sampled_from([(), NAMES, ("b",)]))
    fill_back = draw(st.booleans())
    arguments: dict[str, Any] = {"fill_back": fill_back, "nulls": dict.fromkeys(values, "value")}
    if values == NAMES:
        arguments["nulls"] = "value"
    if tracked is not None:
        arguments["track"] = sorted(tracked)
    if draw(st.booleans()):
        arguments["delete_when"] = "gone"
    return Asked(arguments, Rules(NAMES, frozenset(tracked or NAMES), frozenset(values), fill_back))


def raw_rows(chance: random.Random, cases: int, *, deletes: bool) -> list[Row]:
    """Return rows of many small histories; few times and values make ties, repeats and gaps frequent."""
    rows = [
        {
            "key": (case, chance.choice(["k", "k", "l"]) if chance.random() > 0.02 else None),
            "t": None if chance.random() < 0.02 else FIRST + chance.randrange(4) * DAY + chance.choice([0, 0, 1]),
            "seq": chance.choice([None, 1, 1, 2]),
            "gone": deletes and chance.random() < 0.2,
            "a": chance.choice([None, "", "x", "y"]),
            "b": chance.choice([None, None, 1, 2]),
            "c": chance.choice([None, False, True]),
        }
        for case in range(cases)
        for _ in range(chance.choice([1, 2, 3, 4, 6, 9]))
    ]
    chance.shuffle(rows)
    return rows


def raw_frame(spark: SparkSession, rows: list[Row], *, deletes: bool) -> DataFrame:
    data = [(*row["key"], row["t"], row["seq"], row["gone"], row["a"], row["b"], row["c"]) for row in rows]
    schema = "case int, k string, micros long, seq int, gone boolean, a string, b int, c boolean"
    df = spark.createDataFrame(data, schema).selectExpr(
        "case", "k", "timestamp_micros(micros) AS t", "seq", "gone", "a", "b", "c"
    )
    return df if deletes else df.drop("gone")


def found_versions(df: DataFrame) -> list[tuple[Any, ...]]:
    rows = df.selectExpr(
        "case", "k", "unix_micros(rec_eff_time)", "unix_micros(rec_exp_time)", *NAMES, "rec_is_current"
    ).collect()
    assert all(row[-1] == (row[3] == OPEN) for row in rows)
    return sorted((tuple(row)[:-1] for row in rows), key=repr)


def wanted_versions(versions: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(((*v["key"], v["eff"], v["exp"], *(v[name] for name in NAMES)) for v in versions), key=repr)


@one_frame_each
@given(chance=ANY_RANDOM, asked=askings(), batches=st.integers(1, 3))
def test_versions_are_the_oracle_s_for_any_order_and_split(
    spark: SparkSession, chance: random.Random, asked: Asked, batches: int
) -> None:
    deletes = "delete_when" in asked.arguments
    rows = raw_rows(chance, 250, deletes=deletes)
    parts = [rows[at::batches] for at in range(batches)]
    df = reduce(lambda one, other: one.union(other), (raw_frame(spark, part, deletes=deletes) for part in parts))
    counts = Counts()
    made = compute_temporal(df, ["case", "k"], time="t", sequence="seq", counts=counts, **asked.arguments)

    wanted = versions_of(rows, asked.rules)

    assert found_versions(made) == wanted_versions(wanted)
    by_key: dict[Any, int] = defaultdict(int)
    for version in wanted:
        by_key[version["key"]] += 1
    assert counts.get == {
        "rows": len(rows),
        "no_key": sum(row["key"][1] is None for row in rows),
        "no_time": sum(row["t"] is None and row["key"][1] is not None for row in rows),
        "bad_time": 0,
        "versions": len(wanted),
        "keys": len(by_key),
        "most_versions": max(by_key.values()),
        "long_keys": 0,
    }
    assert measure_temporal(made, ["case", "k"]) == counts.numbers()


def histories(chance: random.Random, keys: int) -> list[Row]:
    """Return versions of keys: most have few, some very many, some of those in a burst; with deletes, so with gaps."""
    raw = []
    for key in range(keys):
        many = chance.choice([1, 2, 3, 5, 8]) if key % 12 else chance.choice([40, 90, 900])
        for _ in range(many):
            at = (
                chance.choice([chance.randrange(4 * DAY), 2 * DAY + chance.randrange(1000)])
                if many > 8
                else chance.randrange(5)
            )
            raw.append(
                {
                    "key": key if chance.random() > 0.02 else None,
                    "t": FIRST + (at if many > 8 else at * DAY),
                    "seq": None,
                    "gone": chance.random() < 0.2,
                    "a": chance.choice([None, "x", "y", "z"]),
                    "b": chance.choice([None, 1, 2]),
                }
            )
    return versions_of(raw, Rules(("a", "b"), frozenset("ab"), frozenset("a"), fill_back=False))


def temporal_frame(spark: SparkSession, rows: list[tuple[Any, ...]], schema: str, *, extra: str) -> DataFrame:
    df = spark.createDataFrame(rows, f"{schema}, eff long, exp long")
    return df.selectExpr(
        *extra.split(","),
        "timestamp_micros(eff) AS rec_eff_time",
        "timestamp_micros(exp) AS rec_exp_time",
        f"exp = {OPEN} AS rec_is_current",
    )


def parent_frame(spark: SparkSession, versions: list[Row]) -> DataFrame:
    rows = [(v["key"], v["a"], v["b"], v["eff"], v["exp"]) for v in versions]
    return temporal_frame(spark, rows, "p int, a string, b int", extra="p,a,b")


def grouped(versions: list[Row]) -> dict[Any, list[Row]]:
    by_key: dict[Any, list[Row]] = defaultdict(list)
    for version in versions:
        by_key[version["key"]].append(version)
    return by_key


def moment(chance: random.Random) -> int | None:
    where = chance.random()
    if where < 0.03:
        return None
    if where < 0.4:
        return FIRST + chance.randrange(6) * DAY - chance.choice([0, 1])
    return FIRST + chance.choice([chance.randrange(-DAY, 6 * DAY), 2 * DAY + chance.randrange(-10, 1010)])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("plan", PLANS)
@settings(one_frame_each, max_examples=2)
@given(chance=ANY_RANDOM)
def test_each_fact_finds_the_oracle_s_version_by_every_plan(
    spark: SparkSession, chance: random.Random, plan: str
) -> None:
    versions = histories(chance, 100)
    by_key = grouped(versions)
    facts = [(f, chance.choice([None, *range(105)]), moment(chance)) for f in range(1500)]
    facts += [(f, chance.choice([0, 12, 24]), moment(chance)) for f in range(1500, 2000)]
    rows = spark.createDataFrame(facts, "f int, p int, at long").selectExpr("f", "p", "timestamp_micros(at) AS at")
    counts = Counts()

    made = denorm_transactional(
        rows, "p", "at", parent_frame(spark, versions), "p", "then", numbers=PLANS[plan], counts=counts
    )
    assert made.columns == ["f", "p", "at", "a_then", "b_then"]
    found = {row.f: (row.a_then, row.b_then) for row in made.select("f", "a_then", "b_then").collect()}

    seen = {f: in_effect(by_key.get(p, []), p, at) for f, p, at in facts}
    assert counts.get["rows"] == len(facts) == len(found)
    assert found == {f: (None, None) if v is None else (v["a"], v["b"]) for f, v in seen.items()}
    assert counts.get["matched"] == sum(v is not None for v in seen.values())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("plan", PLANS)
@settings(one_frame_each, max_examples=2)
@given(chance=ANY_RANDOM)
def test_exact_spans_are_the_oracle_s_by_every_plan(spark: SparkSession, chance: random.Random, plan: str) -> None:
    versions = histories(chance, 60)
    by_key = grouped(versions)
    child = []
    for at in range(300):
        start, end = sorted((moment(chance) or FIRST, moment(chance) or OPEN))
        child.append(
            {"child": at, "parent": chance.choice([None, *range(62)]), "eff": start, "exp": max(end, start + 1)}
        )
    data = [(row["child"], row["parent"], row["eff"], row["exp"]) for row in child]
    frame = temporal_frame(spark, data, "child int, parent int", extra="child,parent")

    counts = Counts()
    made = denorm_temporal(
        frame, "parent", parent_frame(spark, versions), "p", exact=True, numbers=PLANS[plan], counts=counts
    )
    assert made.columns == ["child", "parent", "rec_eff_time", "rec_exp_time", "rec_is_current", "a", "b"]
    found = made.selectExpr(
        "child", "unix_micros(rec_eff_time)", "unix_micros(rec_exp_time)", "a", "b", "rec_is_current"
    ).collect()

    wanted = [
        (row["child"], span["eff"], span["exp"], span["a"], span["b"], span["exp"] == OPEN)
        for row in child
        for span in split(row, by_key, ("a", "b"))
    ]
    assert sorted(map(tuple, found), key=repr) == sorted(wanted, key=repr)
    assert counts.get["rows"] == len(wanted)
    assert counts.get["matched"] == sum((a, b) != (None, None) for _, _, _, a, b, _ in wanted)
