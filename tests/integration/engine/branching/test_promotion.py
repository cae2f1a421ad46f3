"""A promotion adopts the slices of a branch if code and inputs are equal, with the result of computing them again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.branches import Branched, contents
from tests.tiny import day, described
from waterclock.batches.earlier_revisions import PROMOTED
from waterclock.engine.branching.creation import record_new_branch
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.sales PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;
TRANSFORM marts.net PARTITIONED (id KEY, *) AS SELECT id, {net} FROM shop.sales;
TRANSFORM marts.recent PARTITIONED AS SELECT sum(net) AS net FROM PAST(marts.net, '2 days');
TRANSFORM marts.running (net BIGINT) AS SELECT t.net + p.net AS net
  FROM (SELECT coalesce(sum(net), 0) AS net FROM marts.net) t
  CROSS JOIN (SELECT coalesce(max(net), 0) AS net FROM PREVIOUS(marts.running)) p;
"""
BEFORE, AFTER = FLOW.format(net="amount AS net"), FLOW.format(net="amount * 10 AS net, amount > 3 AS is_large")
COLUMNS = "id INTEGER, amount INTEGER, at TEXT"
SALES = [(n, n + 1, f"2020-01-{1 + n // 2:02d} 08:00:00") for n in range(6)]
OWN = ("marts.net", "marts.recent", "marts.running")
NOW = day(4)


@pytest.fixture(scope="module")
def branched(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Branched:
    """Return a production with three days, and a branch that has made the changed flow for the last two of them."""
    found = Branched(tmp_path_factory.mktemp("branched"), spark)
    found.source("sales", COLUMNS, SALES)
    found.declare(BEFORE)
    outcome = found.run(NOW)
    assert not outcome.failed, described(outcome)
    return found


@pytest.fixture
def production(branched: Branched, tmp_path: Path) -> Branched:
    """Return a copy of the project with its branch."""
    copied = branched.copied(tmp_path / "copied")
    copied.declare(AFTER)
    branch = copied.of("try")
    branch.create(NOW)
    branch.make(labels="2020-01-02..2020-01-03")
    return copied


def jobs(spark: SparkSession) -> int:
    return int(spark._jsc.sc().dagScheduler().numTotalJobs())


def made_again(production: Branched) -> dict[Any, Any]:
    """Return the digests of production once it has computed the labels itself."""
    with production.ledger() as ledger:
        for name in OWN:
            ledger.decisions.request_restate(name, [day(2), day(3)], "recompute", who="a test")
    outcome = production.run(NOW)
    assert not outcome.failed, described(outcome)
    return dict(production.digests())


def test_a_promotion_adopts_all_slices_without_a_job_and_equals_computing(
    production: Branched, tmp_path: Path, spark: SparkSession
) -> None:
    computed = made_again(production.copied(tmp_path / "computed"))
    branch = production.of("try")
    before, began = contents(production.root / ".branches"), jobs(spark)
    plan, _ = production.promote(branch, NOW)
    assert jobs(spark) == began
    assert plan.adopted == dict.fromkeys(OWN, (day(2), day(3)))
    assert not plan.computed
    assert contents(production.root / ".branches") == before
    assert dict(production.digests()) == computed
    for name in OWN:
        assert sorted(production.rows(f"SELECT * FROM {name}"), key=repr) == sorted(
            branch.rows(f"SELECT * FROM {name}"), key=repr
        )
    with production.ledger() as ledger:
        events = [row for row in ledger.past.rows("events") if row["kind"] == PROMOTED]
    assert sorted((row["table"], row["timelabel"]) for row in events) == sorted(
        (name, f"202001{number:02d}000000") for name in OWN for number in (2, 3)
    )
    again, _ = production.promote(branch, NOW)
    assert not again.tables
    assert again.equal == 6


def test_a_promotion_computes_labels_that_production_has_restated_since(production: Branched) -> None:
    production.source("sales", COLUMNS, [(n, 50 if n == 5 else amount, at) for n, amount, at in SALES])
    with production.ledger() as ledger:
        ledger.decisions.request_restate("shop.sales", [day(3)], "recollect", who="a test")
    outcome = production.run(NOW, only=("shop.sales",))
    assert not outcome.failed, described(outcome)
    plan, _ = production.promote(production.of("try"), NOW)
    assert plan.adopted == dict.fromkeys(OWN, (day(2),))
    assert plan.computed == dict.fromkeys(OWN, (day(3),))
    assert plan.reasons["marts.net"] == "shop.sales has other rows than the branch read"
    assert sorted(production.rows("SELECT id, net FROM marts.net")) == [
        (0, 1), (1, 2), (2, 30), (3, 40), (4, 50), (5, 500)
    ]  # fmt: skip
    assert production.rows("SELECT net FROM marts.running") == [(3 + 70 + 550,)]


class Killed(BaseException):
    """Ends the work at a fault point, as a kill does."""


@pytest.mark.parametrize("point", ["sealed", "before_commit", "after_commit"])
def test_a_promotion_that_is_killed_is_finished_by_the_next(production: Branched, point: str) -> None:
    def strike(passed: str) -> None:
        if passed == point:
            raise Killed

    branch, lasting = production.of("try"), production.settings
    production.settings = replace(lasting, lease=0.001)  # it has ended when the next process checks
    with pytest.raises(Killed), inject_faults(strike):
        production.promote(branch, NOW)
    production.settings = lasting
    production.promote(branch, NOW)
    production.promote(branch, NOW)
    assert production.open_claims() == 0
    own = {it: digest for it, digest in branch.digests().items() if it[0] in OWN}
    assert {it: digest for it, digest in production.digests().items() if it[0] in OWN} == own


def test_two_branches_run_at_once_and_are_promoted_one_after_the_other(branched: Branched, tmp_path: Path) -> None:
    production = branched.copied(tmp_path / "copied")
    production.declare(AFTER)
    record_new_branch(production.root, "second", "prod")
    branches = [production.of("try"), production.of("second")]
    for branch in branches:
        branch.create(NOW)
    before = contents(production.root / ".prod")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda branch: branch.make(labels="2020-01-02..2020-01-03"), branches))
    assert contents(production.root / ".prod") == before
    first, second = branches
    assert dict(first.digests()) == dict(second.digests())
    plan, _ = production.promote(first, NOW)
    assert plan.adopted == dict.fromkeys(OWN, (day(2), day(3)))
    plan, _ = production.promote(second, NOW)
    assert (plan.tables, plan.equal) == ((), 6)
    assert {it: digest for it, digest in production.digests().items() if it[0] in OWN} == {
        it: digest for it, digest in second.digests().items() if it[0] in OWN
    }


def test_a_branch_of_a_branch_yields_the_rows_of_its_own_code_and_changes_no_base(production: Branched) -> None:
    changed = FLOW.format(net="amount * 100 AS net, amount > 3 AS is_large")
    record_new_branch(production.root, "deep", "try")
    production.declare(changed.replace("sum(net) AS net FROM PAST", "sum(net) + 1 AS net FROM PAST"))
    before = contents(production.root / ".prod"), contents(production.root / ".branches" / "try")
    deep = production.of("deep")
    deep.create(NOW)
    deep.make(labels="2020-01-02..2020-01-03")
    assert (contents(production.root / ".prod"), contents(production.root / ".branches" / "try")) == before
    assert sorted(deep.rows("SELECT id, net FROM marts.net")) == [
        (0, 1), (1, 2), (2, 300), (3, 400), (4, 500), (5, 600)
    ]  # fmt: skip
    assert sorted(deep.rows("SELECT net FROM marts.recent"))[1:] == [(3 + 700 + 1,), (700 + 1100 + 1,)]
    assert deep.rows("SELECT net FROM marts.running") == [(3 + 700 + 1100,)]
