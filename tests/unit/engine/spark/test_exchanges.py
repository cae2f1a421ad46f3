"""Exchanges are read from the texts of plans, which Spark 4.2 wrote for the queries named here."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.engine.spark.exchanges import exchanges_in

PLANS = Path(__file__).with_name("plans")
EXPECTED = {
    # SELECT k, sum(v), count(DISTINCT id) FROM b GROUP BY k, upper(string(id))
    "distinct_count": [
        "GROUP BY k, an expression (Exchange by k, an expression)",
        "GROUP BY k, an expression, id (Exchange by k, an expression, id)",
    ],
    # SELECT k, sum(v) FROM (SELECT /*+ COALESCE(1) */ * FROM b) GROUP BY k
    "one_task": [],
    # SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) r FROM b ORDER BY v LIMIT 3
    "window_and_limit": [
        "ORDER BY with LIMIT (TakeOrderedAndProject to one task)",
        "OVER (PARTITION BY k) (Exchange by k)",
    ],
    # SELECT b.*, (SELECT max(v) FROM t) m FROM b WHERE k IN (SELECT k FROM t)
    "subquery_and_broadcast": ["an aggregate of all rows (Exchange to one task)"],
    # SELECT /*+ MERGE(b) */ ... FROM b JOIN t ON b.k = t.k AND b.id > t.id ORDER BY w, b.id DESC
    "merge_join_and_order": ["ORDER BY w, id DESC (Exchange by w, id DESC)", "a JOIN on k (Exchange by k)"],
    "repartition": ["a REPARTITION (Exchange by k)"],
    "rebalance": ["a REBALANCE (Exchange by k)"],
    "limit": ["LIMIT (CollectLimit to one task)"],
    # GROUP BY k of cached rows, which are the result of another GROUP BY k
    "cached": ["GROUP BY k (Exchange by k)"],
    # the write of SELECT k, sum(v), (SELECT max(v) FROM t) FROM b GROUP BY k, after it has run
    "written": ["GROUP BY k (Exchange by k)", "an aggregate of all rows (Exchange to one task)"],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_exchange_has_its_keys_and_the_part_of_the_query(name: str) -> None:
    plan = (PLANS / f"{name}.txt").read_text(encoding="utf-8")
    assert [str(each) for each in exchanges_in(plan)] == EXPECTED[name]


def test_every_plan_is_expected() -> None:
    assert {path.stem for path in PLANS.iterdir()} == set(EXPECTED)


def test_exchanges_of_an_initial_plan_that_did_not_run_do_not_count() -> None:
    plan = (PLANS / "written.txt").read_text(encoding="utf-8")
    final, _, rest = plan.partition("+- == Initial Plan ==")
    without = "\n".join(line for line in final.splitlines() if "Exchange" not in line and "Shuffle" not in line)
    assert [each.keys for each in exchanges_in(f"{without}\n+- == Initial Plan =={rest}")] == [""]  # the subquery's


def test_a_literal_that_resembles_a_plan_hides_no_exchange() -> None:
    plan = (PLANS / "repartition.txt").read_text(encoding="utf-8")
    trap = "ReadSchema: struct<id:bigint>\n\n+- == Initial Plan ==\n\n== Physical Plan ==\nProject (1)\n\n"
    assert exchanges_in(plan.replace("ReadSchema:", trap, 1)) == exchanges_in(plan)


def test_a_text_that_is_no_plan_is_not_taken_for_one_without_exchanges() -> None:
    with pytest.raises(ValueError, match="unknown form"):
        exchanges_in("== Physical Plan ==\n*(1) Range (0, 10, step=1, splits=2)\n\n")


def test_limits_of_one_task_move_no_rows_between_tasks() -> None:
    plan = """== Physical Plan ==
TakeOrderedAndProject (4)
+- Project (3)
   +- Coalesce (2)
      +- Scan parquet  (1)


(1) Scan parquet
Output [1]: [id#1L]

(2) Coalesce
Input [1]: [id#1L]
Arguments: {}

"""
    assert exchanges_in(plan.format(1)) == []
    assert [each.operator for each in exchanges_in(plan.format(2))] == ["TakeOrderedAndProject"]
