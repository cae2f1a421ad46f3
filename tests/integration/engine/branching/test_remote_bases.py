"""A read-only user branches a base in a bucket with its ledger in PostgreSQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.integration.engine.branching.remote_base import NOW, RemoteBase, make_remote_base
from tests.integration.engine.branching.test_changed_base import maintain
from tests.tiny import day
from tests.unit.cli.conftest import ask
from waterclock.engine.branching.deletion import delete_branch
from waterclock.engine.branching.known_branches import find_branch
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, files_below, replace_text
from waterclock.ledger.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def command(base: RemoteBase, *words: str) -> str:
    """Run a command in the branch."""
    done = ask(*words, "--project", str(base.root), "--env", "try")
    assert done.exit_code in (0, 3), done.output
    return done.stdout


@pytest.mark.parametrize("branch_in_bucket", [False, True])
def test_a_user_who_may_only_read_tries_a_change(
    tmp_path: Path, spark: SparkSession, *, branch_in_bucket: bool
) -> None:
    base = make_remote_base(tmp_path / "shop", spark, branch_in_bucket=branch_in_bucket)
    branch = base.project.of("try")
    before = base.digest_of_all()
    with base.only_reading():
        _require_refusals(base)
        state = branch.create(NOW)
        assert set(state.heads) == {"shop.sales", "marts.net", "marts.same", "marts.running"}
        plan = json.loads(command(base, "plan", "--json"))
        assert plan["changed"] == {"marts.net": ["query"]}
        assert plan["affected"] == {"marts.running": "marts.net"}
        branch.make()
        for sql, rows in (
            ("SELECT id, net FROM marts.net", [(n, 10 * (n + 1)) for n in range(4)]),
            ("SELECT net FROM marts.running", [(100,)]),
            ("SELECT n FROM marts.same", [(2,), (2,)]),
        ):
            assert sorted(branch.rows(sql)) == rows, sql
        why = json.loads(command(base, "diff", "marts.running@2020-01-02", "--against", "prod", "--why", "--json"))
        assert [(it["kind"], it["table"], it["parts"]) for it in why["causes"]] == [("code", "marts.net", ["query"])]
    assert base.digest_of_all() == before

    base.project.promote(branch, NOW)
    assert base.project.rows("SELECT net FROM marts.running") == [(100,)]
    promoted = base.digest_of_all()
    assert promoted != before
    with base.only_reading():
        delete_branch(find_branch(branch.root, "try"))
    assert base.digest_of_all() == promoted
    left = files_below(entry_path(f"s3://{base.bucket}", "branches"))
    assert not [file.path for file in left if file.size]
    assert not (base.root / ".branches").exists()


MERGED = """
COLLECT shop.sales (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.sales
  EVERY DAY BY DATA TIME at MERGE ORDER BY at KEEP VERSIONS 7 DAYS;
TRANSFORM marts.net PARTITIONED AS SELECT id, {net} AS net FROM shop.sales;
"""


def test_rows_that_production_removed_are_reported_to_a_user_who_cannot_keep_them(
    tmp_path: Path, spark: SparkSession
) -> None:
    base = make_remote_base(tmp_path / "shop", spark, branch_in_bucket=False, flow=MERGED)
    branch = base.project.of("try")
    with base.only_reading():
        branch.create(NOW)
    base.project.declare(MERGED.format(net="amount"))
    base.project.shop("UPDATE sales SET amount = amount + 100")
    with base.project.ledger() as ledger:
        ledger.decisions.request_restate("shop.sales", [day(1), day(2)], "recollect", who="a test")
    assert not base.project.run(NOW).failed
    assert "shop.sales" in maintain(base.project)
    base.project.declare(MERGED.format(net="amount * 10"))
    with base.only_reading():
        with pytest.raises((AssertionError, WaterclockError), match=r"E475[\s\S]*shop\.sales") as raised:
            branch.make()
        assert "waterclock branch delete try" in str(raised.value)
        with pytest.raises(WaterclockError, match=r"E475.*shop\.sales"):
            branch.rows("SELECT * FROM shop.sales")


def _require_refusals(base: RemoteBase) -> None:
    """Check that the reader's login cannot write to production: otherwise the test would be meaningless."""
    with pytest.raises(WaterclockError, match=r"E603|E609"):
        replace_text(entry_path(f"s3://{base.bucket}", "lake", "written"), "x")
    with (
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        psycopg.connect(base.reader["ledger"].partition("?")[0]) as role,
    ):
        role.execute(f"DELETE FROM {base.schema}.events")
    with pytest.raises(WaterclockError), Ledger.open(base.reader["ledger"]) as ledger:
        ledger.decisions.request_restate("marts.net", [NOW], "recompute", who="a reader")
