"""A branch makes changed tables and their readers as a clean project would, and changes nothing of production."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.branches import Branched, contents
from tests.security.strangers import ANN, meeting_place, needs_root
from tests.tiny import day, described, labels
from waterclock.engine.branching.branch_state import read_branch_state, require_branch
from waterclock.engine.branching.deletion import delete_branch
from waterclock.engine.branching.known_branches import find_branch
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.operations.project_opening import open_read_only

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLLECTS = """
COLLECT shop.sales PARTITIONED (id BIGINT KEY, customer, amount BIGINT, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at;
COLLECT shop.customers (customer KEY, name, at TIMESTAMP) FROM shop.customers
  EVERY DAY BY DATA TIME at MERGE ORDER BY at;
"""
MARTS = """
TRANSFORM marts.net PARTITIONED (id KEY, *) AS SELECT id, customer, {net} AS net FROM shop.sales;
TRANSFORM marts.same PARTITIONED AS SELECT count(*) AS n FROM shop.sales;
TRANSFORM marts.recent PARTITIONED AS SELECT sum(net) AS net FROM PAST(marts.net, '2 days');
TRANSFORM marts.best (customer KEY, *) MERGE ORDER BY net
  AS SELECT customer, max(net) AS net FROM marts.net GROUP BY customer;
TRANSFORM marts.running (net BIGINT) AS SELECT t.net + p.net AS net
  FROM (SELECT coalesce(sum(net), 0) AS net FROM marts.net) t
  CROSS JOIN (SELECT coalesce(max(net), 0) AS net FROM PREVIOUS(marts.running)) p;
PUBLISH marts.net TO out.net;
"""
BEFORE, AFTER = COLLECTS + MARTS.format(net="amount"), COLLECTS + MARTS.format(net="amount * 10")
OWN = ("marts.net", "marts.recent", "marts.best", "marts.running")
SALES = [(n, f"c{n % 2}", n + 1, f"2020-01-{1 + n // 2:02d} 08:00:00") for n in range(6)]
CUSTOMERS = [("c0", "ann", "2020-01-01 09:00:00"), ("c1", "bob", "2020-01-02 09:00:00")]
NOW = day(4)
REPOSITORY = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Branched:
    """Return a project whose production has three days, with the changed flow in its files."""
    found = Branched(tmp_path_factory.mktemp("production"), spark)
    found.source("sales", "id INTEGER, customer TEXT, amount INTEGER, at TEXT", SALES)
    found.source("customers", "customer TEXT, name TEXT, at TEXT", CUSTOMERS)
    found.declare(BEFORE)
    outcome = found.run(NOW)
    assert not outcome.failed, described(outcome)
    found.declare(AFTER)
    return found


@pytest.fixture
def copied(production: Branched, tmp_path: Path) -> Branched:
    """Return a copy of the project, whose production may be changed."""
    return production.copied(tmp_path / "copied")


def test_a_branch_equals_a_clean_project_and_production_is_byte_identical(copied: Branched) -> None:
    before = contents(copied.root / ".prod")
    branch = copied.of("try")
    state = branch.create(NOW)
    assert set(state.heads) == {*OWN, "shop.sales", "shop.customers", "marts.same"}
    outcome = branch.make()
    made = {report.group.table for report in branch.heard.finished_}
    assert made == set(OWN)
    assert outcome.plan is not None

    clean = copied.of("clean")
    assert not clean.run(NOW).failed
    assert {it: digest for it, digest in branch.digests().items() if it[0] != "out.net"} == {
        it: digest for it, digest in clean.digests().items() if it[0] != "out.net"
    }
    for name in (*OWN, "marts.same", "shop.sales", "shop.customers"):
        query = f"SELECT * FROM {name}"
        assert sorted(branch.rows(query), key=repr) == sorted(clean.rows(query), key=repr), name
    assert contents(copied.root / ".prod") == before
    folder = Path(branch.load().storage)
    assert sorted(path.name for path in (folder / "tables" / "marts").iterdir()) == sorted(
        name.partition(".")[2] for name in OWN
    ), "no borrowed table is copied"
    assert not (folder / "tables" / "shop").exists()
    with closing(sqlite3.connect(copied.root / "out.sqlite")) as out:
        assert out.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,), "nothing was delivered"

    with open_read_only(branch.root, "try", None) as at:
        assert at.now == state.tick, "status shows the branch as of its tick"
    with open_read_only(branch.root, "try", "2020-01-02") as at:
        assert at.now == day(2)

    branch.heard.finished_.clear()
    branch.make()
    assert not branch.heard.finished_, "no batch is made twice"
    delete_branch(find_branch(branch.root, "try"))
    assert not folder.exists()
    assert contents(copied.root / ".prod") == before
    assert (copied.root / "flows").is_dir()


def test_labels_are_made_with_the_state_before_them(copied: Branched) -> None:
    branch = copied.of("try")
    branch.create(NOW)
    branch.make(labels="2020-01-03")
    made = {(report.group.table, batch.label) for report in branch.heard.finished_ for batch in report.group.batches}
    assert made == {(name, day(3)) for name in OWN}
    # sums of days: 1 + 2, 3 + 4, 5 + 6; only the last is multiplied
    assert branch.rows("SELECT net FROM marts.running") == [(3 + 7 + 110,)]
    assert sorted(branch.rows("SELECT customer, net FROM marts.best")) == [("c0", 50), ("c1", 60)]
    assert branch.rows(f"SELECT net FROM marts.recent WHERE timelabel = '{labels(3)[0]}'") == [(7 + 110,)]
    assert sorted(branch.rows("SELECT id, net FROM marts.net")) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 50), (5, 60)]


def test_the_newest_states_are_made_where_production_is_behind_the_tick(spark: SparkSession, tmp_path: Path) -> None:
    project = Branched(tmp_path, spark)
    project.source("sales", "id INTEGER, customer TEXT, amount INTEGER, at TEXT", SALES)
    flow = """
COLLECT shop.sales PARTITIONED (id BIGINT KEY, customer, amount BIGINT, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at;
TRANSFORM marts.net PARTITIONED AS SELECT {net} AS net FROM shop.sales;
TRANSFORM marts.total AS SELECT sum(net) AS net FROM HISTORY(marts.net);
"""
    project.declare(flow.format(net="amount"))
    assert not project.run(day(3)).failed
    new = "TRANSFORM marts.largest AS SELECT max(net) AS net FROM HISTORY(marts.net);"
    project.declare(flow.format(net="amount * 10") + new)
    branch = project.of("try")
    branch.create(NOW)  # the third day is due, and production has not made it
    branch.make()
    assert branch.rows("SELECT net FROM marts.total") == [(100,)], "not the 10 of production"
    assert branch.rows("SELECT net FROM marts.largest") == [(40,)]


def test_batches_that_failed_or_are_held_in_production_are_tried_by_changed_code(
    spark: SparkSession, tmp_path: Path
) -> None:
    project = Branched(tmp_path, spark)
    project.source("sales", "id INTEGER, customer TEXT, amount INTEGER, at TEXT", SALES)
    flow = """
COLLECT shop.sales PARTITIONED (id BIGINT KEY, customer, amount BIGINT, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at;
TRANSFORM marts.net PARTITIONED EXPECT net < {most} AS few AS SELECT id, amount AS net FROM shop.sales;
TRANSFORM marts.held PARTITIONED EXPECT net < {most} AS few ELSE HOLD AS SELECT id, amount AS net FROM shop.sales;
TRANSFORM marts.days PARTITIONED AS SELECT sum(net) AS net FROM marts.net;
TRANSFORM marts.total AS SELECT sum(net) AS net FROM HISTORY(marts.held);
"""
    project.declare(flow.format(most=3))  # refuses the second day and the third one
    assert len(project.run(NOW).failed) == 4
    project.declare(flow.format(most=9))
    branch = project.of("try")
    branch.create(NOW)
    branch.make()
    assert sorted(branch.rows("SELECT net FROM marts.days")) == [(3,), (7,), (11,)]
    assert branch.rows("SELECT net FROM marts.total") == [(21,)]
    branch.heard.finished_.clear()
    branch.make()
    assert not branch.heard.finished_, "no batch is made twice"
    plan, _ = project.promote(branch, NOW)
    assert plan.stopped == {name: (day(2), day(3)) for name in ("marts.net", "marts.held")}
    assert sorted(project.rows("SELECT net FROM marts.days")) == [(3,), (7,), (11,)]
    assert project.rows("SELECT net FROM marts.total") == [(21,)]


@needs_root
def test_a_user_who_may_only_read_production_creates_a_branch(copied: Branched, tmp_path: Path) -> None:
    warm = copied.copied(tmp_path / "warm")
    with meeting_place() as place:
        folder = copied.copied(place / "shared").root
        prod, branches = folder / ".prod", folder / ".branches"
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        branches.mkdir()
        os.chown(branches, ANN, ANN)
        before = contents(prod)
        words = [sys.executable, "-m", "tests.creating_a_branch", str(warm.root), str(folder), str(ANN)]
        ran = subprocess.run(
            words,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "HOME": str(place)},
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.split() == sorted(OWN)
        assert contents(prod) == before
        assert (branches / "try" / "ledger.db").stat().st_uid == ANN


POINTS = ("branch begun", "branch ledger read", "branch ledger copied", "ledger installed", "branch ledger installed")


class Killed(BaseException):
    """Ends the work at a fault point: no error handler catches it.

    `tests/faults/test_kill_branches.py` uses real kills.
    """


@pytest.mark.parametrize("point", POINTS)
def test_a_creation_that_fails_at_any_step_leaves_nothing(copied: Branched, point: str) -> None:
    before = contents(copied.root)
    branch = copied.of("try")
    with pytest.raises(Killed), inject_faults(_killing(point)):
        branch.create(NOW)
    assert contents(copied.root) == before
    with pytest.raises(WaterclockError, match="E470"):
        require_branch(branch.load())
    branch.create(NOW)
    with branch.ledger() as ledger:
        assert len(ledger.past.made_labels("marts.net", day(1), NOW)) == 3
    with pytest.raises(WaterclockError, match="E471"):
        branch.create(NOW)
    found = contents(copied.root)
    assert {name: found[name] for name in found if not name.startswith(".branches")} == before


@pytest.mark.parametrize("point", ["branch deletion begun", "branch contents removed"])
def test_a_deletion_that_is_killed_is_finished_by_the_next(copied: Branched, point: str) -> None:
    before = contents(copied.root / ".prod")
    branch = copied.of("try")
    branch.create(NOW)
    with pytest.raises(Killed), inject_faults(_killing(point)):
        delete_branch(find_branch(branch.root, "try"))
    with pytest.raises(WaterclockError, match="E470"):
        require_branch(branch.load())
    delete_branch(find_branch(branch.root, "try"))
    assert read_branch_state(branch.load()) is None
    assert not Path(branch.load().storage).exists()
    assert contents(copied.root / ".prod") == before


def test_a_run_killed_while_it_mirrors_tables_can_be_repeated(copied: Branched) -> None:
    branch = copied.of("try")
    branch.create(NOW)
    with pytest.raises(Killed), inject_faults(_killing("branch table mirrored")):
        branch.make()
    branch.make("marts.net")
    assert sorted(branch.rows("SELECT id, net FROM marts.net")) == [(n, 10 * (n + 1)) for n in range(6)]


def test_a_borrowed_table_that_production_changed_is_reported(copied: Branched) -> None:
    branch = copied.of("try")
    branch.create(NOW)
    copied.declare(AFTER.replace("SELECT count(*) AS n", "SELECT count(*) AS n, 1 AS more"))
    with copied.ledger() as ledger:
        ledger.decisions.request_restate("marts.same", [day(3)], "recompute", who="a test")
    assert not copied.run(NOW).failed
    copied.declare(AFTER)
    with pytest.raises(WaterclockError, match=r"E475.*marts\.same") as raised:
        branch.make()
    assert "waterclock branch delete try" in str(raised.value.fix)


def test_files_that_production_removed_fail_the_batch_and_leave_no_row_out(copied: Branched) -> None:
    branch = copied.of("try")
    branch.create(NOW)
    gone = list((copied.root / ".prod" / "tables" / "shop" / "sales" / "_stage").rglob("d=03/**/*.parquet"))
    assert gone
    for path in gone:
        path.unlink()
    with pytest.raises(AssertionError, match=r"E475[\s\S]*\.parquet"):
        branch.make("marts.net", labels="2020-01-03")
    assert (labels(3)[0], 2) in branch.rows("SELECT timelabel, count(*) FROM marts.net GROUP BY timelabel")
    assert {net for _, net in branch.rows("SELECT id, net FROM marts.net")} == {1, 2, 3, 4, 5, 6}


def test_a_branch_ends_with_its_lease(copied: Branched) -> None:
    from waterclock.engine.branching.base_checks import require_lease

    state = copied.of("try").create(NOW, now=datetime(2026, 11, 1, tzinfo=UTC), days=2)
    require_lease(state, state.expires_at - timedelta(seconds=1))
    with pytest.raises(WaterclockError, match="E474"):
        require_lease(state, state.expires_at)


def _killing(point: str) -> Callable[[str], None]:
    def strike(passed: str) -> None:
        if passed == point:
            raise Killed

    return strike
