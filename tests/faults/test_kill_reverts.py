"""A revert that is killed at any step leaves either the old or the new revision, and the next run cleans up."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at;
TRANSFORM clean.orders PARTITIONED (id KEY, *) AS SELECT id, amount FROM shop.orders;
"""
TABLES = ("shop.orders", "clean.orders")
ROWS = [(n, n + 1, f"2020-01-{1 + n // 2:02d} 08:00:00") for n in range(6)]
WHICH = "shop.orders@2020-01-01..2020-01-02"
NOW = day(4)
BEFORE_COMMIT = ("claimed", "seal", "sealed", "audited", "before_commit")
AFTER_COMMIT = ("after_commit", "committed", "recorded")
REPOSITORY = Path(__file__).parents[2]


def state(tiny: Tiny) -> dict[str, Any]:
    rows: dict[str, Any] = {name: sorted(tiny.rows(f"SELECT * FROM {name}"), key=repr) for name in TABLES}
    return rows | {"digests": dict(tiny.digests()), "batches": tiny.batches()}


def run(tiny: Tiny) -> None:
    outcome = tiny.run(NOW)
    assert not outcome.failed, described(outcome)


@pytest.fixture(scope="module")
def restated(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Tiny, dict[str, Any]]:
    """Return a project with two labels that were made again, and its state before that."""
    tiny = Tiny(tmp_path_factory.mktemp("restated"), spark)
    tiny.declare(FLOW)
    tiny.source("orders", "id INTEGER, amount INTEGER, at TEXT", ROWS)
    run(tiny)
    before = state(tiny)
    tiny.source("orders", "id INTEGER, amount INTEGER, at TEXT", [(n, amount * 10, at) for n, amount, at in ROWS])
    with tiny.ledger() as ledger:
        ledger.decisions.request_restate("shop.orders", [day(1), day(2)], "recollect", who="a test")
    run(tiny)
    return tiny, before


def revert(tiny: Tiny, point: str) -> int:
    words = ["tests.faults.killing_a_revert", str(tiny.root), WHICH, NOW.isoformat(), point]
    ran = subprocess.run(
        [sys.executable, "-m", *words], cwd=REPOSITORY, check=False, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode in {0, -signal.SIGKILL}, ran.stderr
    return ran.returncode


@pytest.mark.parametrize(
    "point", [pytest.param(it, marks=[] if it in {"sealed", "after_commit"} else pytest.mark.soak) for it in
              (*BEFORE_COMMIT, *AFTER_COMMIT)]
)  # fmt: skip
def test_a_kill_at_any_step_leaves_one_revision_or_the_other(
    restated: tuple[Tiny, dict[str, Any]], tmp_path: Path, point: str
) -> None:
    done, before = restated
    tiny = done.copied(tmp_path / "tiny")
    after = state(tiny)
    assert after["shop.orders"] != before["shop.orders"]
    assert revert(tiny, point) == -signal.SIGKILL, point
    run(tiny)
    assert tiny.open_claims() == 0
    assert state(tiny) == (after if point in BEFORE_COMMIT else before)
    with tiny.ledger() as ledger:
        audit = ledger.past.audit("shop.orders", day(2))
    current = audit.current
    assert current is not None
    assert current.revision is not None
    assert ("reverted" in current.revision.measures) == (point in AFTER_COMMIT)
    if point in BEFORE_COMMIT:
        assert revert(tiny, "none") == 0
        run(tiny)
    assert state(tiny) == before
