"""Bad input in second sets and linked projects: reported with a fix, nothing is lost, and the next run continues."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.test_bad_input import small_disk
from tests.tiny import Tiny, day, described, labels
from tests.unit.cli.conftest import ask
from waterclock.engine.maintenance.rebuild_all import rebuild_all
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SALES = """
COLLECT shop.sales PARTITIONED (id INT, at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME at;
TRANSFORM marts.texts PARTITIONED AS
  SELECT id, sha2(CAST(id * n AS STRING), 512) AS text FROM shop.sales LATERAL VIEW explode(sequence(1, 8000)) AS n;
"""


def test_a_rebuild_without_disk_space_keeps_the_old_set_and_later_succeeds(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("sales", "id INT, at TEXT", [(1, "2020-01-01 12:00:00")])
    tiny.declare(SALES)
    storage = tmp_path / tiny.storage
    with small_disk(storage, 16_000):
        outcome = tiny.run(day(2))
        assert not outcome.failed, described(outcome)
        before = tiny.rows("SELECT count(*), max(text) FROM marts.texts")
        free = shutil.disk_usage(storage).free
        (storage / "ballast").write_bytes(bytes(free - 400_000))
        with tiny.opened() as work, pytest.raises(WaterclockError) as refused:
            rebuild_all(work, day(2))
        assert refused.value.code == "E645", refused.value.render()
        assert "free disk space" in (refused.value.fix or "")
        assert not (storage / "rebuild").exists()
        assert tiny.rows("SELECT count(*), max(text) FROM marts.texts") == before
        assert tiny.run(day(2)).done == 0
        (storage / "ballast").unlink()
        with tiny.opened() as work:
            assert rebuild_all(work, day(2)).tables
        assert tiny.rows("SELECT count(*), max(text) FROM marts.texts") == before


LINKED = """
[project]
name = "{name}"
[env.dev]
storage = ".waterclock"
connections.there = {{ path = "../LINKED" }}
connections.shop = {{ path = "shop.sqlite" }}
connections.out = {{ path = "out.sqlite", create = true }}
connections.land = {{ path = "landing/new" }}
connections.files = {{ path = "files" }}
"""


def test_projects_that_wait_for_each_other_are_reported_and_run_once_the_cycle_is_broken(
    tmp_path: Path, spark: SparkSession
) -> None:
    def linked(name: str, there: str) -> Tiny:
        tiny = Tiny(tmp_path / name, spark, name, toml=LINKED.replace("LINKED", there))
        tiny.declare(
            f"CREATE CONNECTION there TYPE waterclock; COLLECT {name}.taken PARTITIONED (id INT) FROM"
            f" there.{there}.given EVERY DAY START '2020-01-01' BY DATA TIME timelabel;"
            f"TRANSFORM {name}.given PARTITIONED AS SELECT id FROM {name}.taken;"
        )
        return tiny

    one, other = linked("one", "other"), linked("other", "one")
    for _ in range(2):
        for tiny in (one, other):
            outcome = tiny.run(day(3))
            assert not outcome.failed, described(outcome)
            assert outcome.done == 0
    told = ask("plan", "one.taken", "--project", str(one.root), "--now", "2020-01-03", width=200).stdout
    assert "the two projects wait for each other" in told
    one.source("first", "id INT, at TEXT", [(1, "2020-01-01 12:00:00"), (2, "2020-01-02 12:00:00")])
    one.declare(
        "CREATE CONNECTION there TYPE waterclock; COLLECT one.taken PARTITIONED (id INT) FROM there.other.given"
        " EVERY DAY START '2020-01-01' BY DATA TIME timelabel;"
        "COLLECT one.given PARTITIONED (id INT, at TIMESTAMP)"
        " FROM shop.first EVERY DAY START '2020-01-01' BY DATA TIME at;"
    )
    for tiny in (one, other, one):
        outcome = tiny.run(day(3))
        assert not outcome.failed, described(outcome)
    assert one.done("one.taken") == labels(1, 2)
    assert one.rows("SELECT id FROM one.taken ORDER BY id") == [(1,), (2,)]
