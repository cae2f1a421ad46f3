"""The filter that keeps one row per key: compared with brute force over random rows and pasts, and its plan's cost."""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from contextlib import redirect_stdout
from random import Random
from typing import TYPE_CHECKING

import pytest

from waterclock.storage.slices.row_filter import (
    MASK,
    QUARANTINE_DETAILS,
    ROW_DROPPED,
    ROW_KEPT,
    ROW_OUTCOME,
    ROW_QUARANTINED,
    RowFilter,
    RowFilterSettings,
    RowRule,
)
from waterclock.storage.slices.rule_marks import add_rule_marks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
Row = tuple[str, int, int | None, int | None, int | None]  # label, number, key, order, amount
COLUMNS = "timelabel STRING, number INT, id INT, at INT, amount INT"
LOW, PAST, KEY = 1, 2, 4
LABELS = ("20200101000000", "20200102000000")


def row_filter(outcome: int, order: tuple[str, ...], *, looks_back: bool) -> RowFilter:
    past = (RowRule("KEY (id) PAST 7 DAYS", "", outcome),) if looks_back else ()
    return RowFilter(
        (RowRule("low", "amount > 0", ROW_QUARANTINED), *past, RowRule("KEY (id)", "", outcome)),
        ("id",),
        True,
        order,
    )


def through(of: RowFilter, past: DataFrame | None = None) -> RowFilterSettings:
    return RowFilterSettings(of, {name: name for name in ("number", "id", "at", "amount")}, "", past=past)


def marked(frame: DataFrame, of: RowFilterSettings) -> dict[int, tuple[int, int]]:
    """Return, by row number, whether each row is kept and which rules it breaks."""
    found = (
        add_rule_marks(frame, of)
        .select("number", ROW_OUTCOME, f"{QUARANTINE_DETAILS}.{MASK}", f"{QUARANTINE_DETAILS}.row")
        .collect()
    )
    # a dropped row has no values left, not even its number: count these rows under negative numbers
    return {
        json.loads(row["row"])["number"]
        if row[ROW_OUTCOME] == ROW_QUARANTINED
        else -at
        if row[ROW_OUTCOME] == ROW_DROPPED
        else row["number"]: (
            row[ROW_OUTCOME],
            row[MASK] or 0,
        )
        for at, row in enumerate(found, 1)
    }


def rows_of(random: Random, labels: tuple[str, ...], many: int) -> list[Row]:
    pick = random.choice
    return [
        (pick(labels), number, pick([1, 2, 3, 4, None]), pick([1, 2, 3, None]), pick([-1, 1, 2, None]))
        for number in range(1, many + 1)
    ]


def wanted(rows: list[Row], past: set[int | None] | None, ordering: int) -> dict[int, tuple[set[int], int]]:
    """Return the outcomes that each row may have: of rows with equal order, any one may be kept."""
    masks: dict[int, set[int]] = {}
    groups: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        low = 0 if row[4] is not None and row[4] > 0 else LOW
        key = KEY if past is not None else PAST
        if row[2] is None:
            masks[row[1]] = {low | key}
        elif past and row[2] in past:
            masks[row[1]] = {low | PAST}
        else:
            masks[row[1]] = {low}
            if not low:
                groups[row[0], row[2]].append(row)
    for group in groups.values():
        key = KEY if past is not None else PAST
        if len(group) < 2:
            continue
        if not ordering:
            for row in group:
                masks[row[1]] = {key}
            continue
        place = [(row[3] is not None, (row[3] or 0) * ordering) for row in group]
        best = [row for row, at in zip(group, place, strict=True) if at == max(place)]
        for row in group:
            masks[row[1]] = {key} if row not in best else {0} if len(best) == 1 else {0, key}
    return {number: (mask, 0) for number, mask in masks.items()}


@pytest.mark.parametrize("seed", range(3))
def test_one_row_of_each_key_stays_and_none_whose_key_was_there(seed: int, spark: SparkSession) -> None:
    random = Random(seed)
    for has_past, ordering in ((False, 1), (True, 1), (True, -1), (True, 0)):
        rows = rows_of(random, LABELS[:1] if has_past else LABELS, random.randint(0, 25))
        past: set[int | None] | None = {random.choice([1, 2, 3, 4, 5]) for _ in range(2)} if has_past else None
        order = ("`at` DESC NULLS LAST",) if ordering > 0 else ("`at` ASC NULLS LAST",) if ordering else ()
        of = row_filter(ROW_QUARANTINED, order, looks_back=has_past)
        keys = spark.createDataFrame([(key, 9) for key in past or ()], "id INT, at INT") if past else None
        frame = spark.createDataFrame(rows, COLUMNS)
        found = marked(frame, through(of, keys))
        meant = wanted(rows, past, ordering)
        assert found.keys() == meant.keys()
        for number, (outcome, mask) in found.items():
            assert mask in meant[number][0], (number, mask, meant[number], rows)
            assert outcome == (ROW_QUARANTINED if mask else ROW_KEPT)
        # at most one row per label and key is kept; exactly one if the past had none and some row breaks no rule
        stayed = Counter((row[0], row[2]) for row in rows if found[row[1]][0] == ROW_KEPT)
        assert not stayed or max(stayed.values()) == 1
        if ordering:
            plain = {(row[0], row[2]) for row in rows if row[2] is not None and (row[4] or 0) > 0}
            assert set(stayed) == {(label, key) for label, key in plain if key not in (past or set())}
        shuffled = random.sample(rows, len(rows))
        again = marked(spark.createDataFrame(shuffled, COLUMNS).repartition(3), through(of, keys))
        assert again == found  # ties are resolved by the rows' values, not by their position


def test_dropped_rows_are_counted_and_kept_rows_have_their_values(spark: SparkSession) -> None:
    rows: list[Row] = [(LABELS[0], 1, 7, 1, 1), (LABELS[0], 2, 7, 2, 1), (LABELS[0], 3, 8, 1, 1)]
    past = spark.createDataFrame([(8,)], "id INT")
    of = through(row_filter(ROW_DROPPED, ("`at` DESC NULLS LAST",), looks_back=True), past)
    found = add_rule_marks(spark.createDataFrame(rows, COLUMNS), of).collect()
    assert Counter(
        (row[ROW_OUTCOME], row[QUARANTINE_DETAILS][MASK] if row[QUARANTINE_DETAILS] else 0) for row in found
    ) == Counter([(ROW_KEPT, 0), (ROW_DROPPED, PAST), (ROW_DROPPED, KEY)])
    assert [tuple(row)[:5] for row in found if row[ROW_OUTCOME] == ROW_KEPT] == [rows[1]]


def exchanges(frame: DataFrame) -> int:
    return plan_of(frame).count("Exchange hashpartitioning")


def plan_of(frame: DataFrame) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        frame.explain()
    return out.getvalue()


def test_rows_and_their_past_meet_in_one_exchange(spark: SparkSession) -> None:
    frame = spark.range(100).selectExpr(
        f"'{LABELS[0]}' AS timelabel", "CAST(id AS INT) AS number", "CAST(id % 7 AS INT) AS id", "1 AS at",
        "1 AS amount",
    )  # fmt: skip
    past = spark.range(5).selectExpr("CAST(id AS INT) AS id", "'x' AS more")
    order = ("`at` DESC NULLS LAST",)
    assert exchanges(add_rule_marks(frame, through(row_filter(ROW_DROPPED, order, looks_back=False)))) == 1
    assert exchanges(add_rule_marks(frame, through(row_filter(ROW_DROPPED, order, looks_back=True), past))) == 1
    assert exchanges(add_rule_marks(frame, through(row_filter(ROW_DROPPED, (), looks_back=True), past))) == 1
    plan = plan_of(add_rule_marks(frame, through(row_filter(ROW_DROPPED, order, looks_back=True), past)))
    assert "Join" not in plan
    assert "more" not in plan  # of the past only the keys are read
