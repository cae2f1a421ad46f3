"""Bad input of every kind: a clear error names table and timelabel, nothing is lost, and the next run continues."""

from __future__ import annotations

import errno
import gzip
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, evening, labels
from waterclock.engine.run_outcome import RunOutcome
from waterclock.engine.spark.session import Sessions
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = "id INTEGER, amount INTEGER, at TEXT"
COLLECT = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders
  EVERY DAY BY DATA TIME at;
"""
CLICKS = """
COLLECT web.clicks PARTITIONED (id BIGINT KEY, customer) FROM land.acme.clicks
  EVERY DAY START '2020-01-01' BY ARRIVAL TIME;
"""
DOUBLED = "TRANSFORM clean.orders PARTITIONED AS SELECT id, 2 * amount AS doubled FROM shop.orders;"
REPOSITORY = Path(__file__).parents[2]
PATIENCE = 300.0  # a cold Spark on a busy machine takes minutes


@pytest.fixture
def tiny(tmp_path: Path, spark: SparkSession) -> Tiny:
    made = Tiny(tmp_path, spark)
    toml = tmp_path / "waterclock.toml"
    toml.write_text(toml.read_text().replace('path = "shop.sqlite"', 'path = "shop.sqlite", timeout = 0.05'))
    made.source("orders", ORDERS, [(n, n, f"2020-01-{n:02d} 12:00:00") for n in range(1, 6)])
    return made


def the_error(outcome: RunOutcome) -> WaterclockError:
    (failed,) = outcome.failed
    assert failed.error is not None
    return failed.error


def retry(tiny: Tiny, table: str, number: int) -> None:
    with tiny.ledger() as ledger:
        ledger.decisions.retry(table, [day(number)], who="a test")


def ids(tiny: Tiny, table: str = "shop.orders") -> list[int]:
    return sorted(row[0] for row in tiny.rows(f"SELECT id FROM {table}"))


def version(tiny: Tiny, table: str) -> int:
    log = tiny.root / ".waterclock" / "tables" / table.replace(".", "/") / "_delta_log"
    return max(int(path.stem) for path in log.glob("*.json"))


def test_half_written_and_misnamed_files_are_reported_and_not_collected(tiny: Tiny) -> None:
    tiny.declare(CLICKS)
    tiny.land("clicks", evening(1), "id,customer\n1,a\n")
    whole = tiny.land("clicks", day(1, 13), "id,customer\n2,b\n3,c\n")
    content = whole.read_bytes()
    whole.write_bytes(content[: len(content) // 2])
    misnamed = whole.with_name("clicks of monday.csv.gz")
    misnamed.write_bytes(gzip.compress(b"id,customer\n9,z\n"))
    tiny.land("clicks", evening(2), "id,customer\n4,d\n")
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert ids(tiny, "web.clicks") == [1]
    for path, problem in ((whole, "half-written"), (misnamed, "misnamed")):
        assert any(str(path) in said and problem in said and "web.clicks" in said for said in tiny.heard.said_)
        assert path.exists()

    whole.write_bytes(content)
    tiny.land("clicks", day(3, 1), "id,customer\n5,e\n")
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    # its own window is sealed: the oldest open one contains it
    assert ids(tiny, "web.clicks") == [1, 2, 3, 4]
    assert misnamed.exists()


def test_a_broken_row_is_named_with_file_and_line_and_other_labels_go_on(tiny: Tiny) -> None:
    tiny.declare(CLICKS + COLLECT)
    for number in (1, 2, 3, 4):
        tiny.land("clicks", evening(number), f"id,customer\n{number},a\n")
    broken = tiny.land("clicks", day(2, 13), "id,customer\n21,a\n22,b\nx23,c\n")
    outcome = tiny.run(day(4))
    error = the_error(outcome)
    assert error.code == "E806"
    assert not error.transient
    text = error.render()
    assert f"{broken}:4" in text
    assert f"web.clicks@{labels(2)[0]}" in text
    assert "x23" in text
    assert "Traceback" not in text
    assert tiny.done("shop.orders") == labels(1, 2, 3)
    assert tiny.done("web.clicks") == labels(1, 3)
    assert ids(tiny, "web.clicks") == [1, 3]
    assert broken.exists()

    assert tiny.run(day(4)).done == 0  # a permanent error waits for a user
    broken.write_bytes(gzip.compress(b"id,customer\n21,a\n22,b\n23,c\n", mtime=0))
    retry(tiny, "web.clicks", 2)
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert ids(tiny, "web.clicks") == [1, 2, 3, 21, 22, 23]
    assert tiny.open_claims() == 0


def test_rows_without_a_valid_data_time_are_reported(tiny: Tiny) -> None:
    tiny.declare(
        COLLECT + "COLLECT web.visits PARTITIONED (id, at TIMESTAMP) FROM land.acme.visits EVERY DAY BY DATA TIME at;"
    )
    tiny.shop("INSERT INTO orders VALUES (8, 8, NULL), (9, 9, 'yesterday'), (10, 10, NULL)")
    tiny.land("visits", evening(1), "id,at\n1,2020-01-01 10:00:00\n2,\n3,\n")
    tiny.land("visits", evening(2), "id,at\n4,2020-01-02 10:00:00\n")
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    told = {(report.group.table, said) for report in tiny.heard.finished_ for said in report.warnings}
    assert told == {
        ("shop.orders", "left out, rows without a data time: 2"),
        ("shop.orders", "left out, rows whose data time cannot be read: 1"),
        ("web.visits", "left out, rows without a data time: 2"),
    }
    with tiny.ledger() as ledger:
        said = ledger.past.row_warnings(["shop.orders", "web.visits"])
    assert {batch: len(texts) for batch, texts in said.items()} == {
        ("shop.orders", day(2)): 2,
        ("web.visits", day(2)): 1,
    }


def test_a_missing_source_column_is_reported_by_name(tiny: Tiny) -> None:
    tiny.declare(COLLECT + DOUBLED)
    assert not tiny.run(day(2)).failed
    tiny.shop("ALTER TABLE orders RENAME COLUMN amount TO amuont")
    error = the_error(tiny.run(day(3)))
    assert error.code == "E805"
    text = error.render()
    assert "no column amount" in text
    assert "amuont" in text
    assert f"shop.orders@{labels(2)[0]}" in text
    assert ids(tiny, "clean.orders") == [1]

    tiny.shop("ALTER TABLE orders RENAME COLUMN amuont TO amount")
    retry(tiny, "shop.orders", 2)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id, doubled FROM clean.orders ORDER BY id") == [(1, 2), (2, 4)]


def test_a_locked_database_is_tried_again_and_the_next_run_carries_on(tiny: Tiny) -> None:
    tiny.declare(COLLECT + DOUBLED)
    with closing(sqlite3.connect(tiny.root / "shop.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        error = the_error(tiny.run(day(2)))
        assert (error.code, error.transient) == ("E811", True)
        assert f"shop.orders@{labels(1)[0]}" in error.render()
        assert any("locked" in said and "tried again" in said for said in tiny.heard.said_)
        with tiny.ledger() as ledger:
            assert len(ledger.past.audit("shop.orders", day(1)).attempts) == tiny.settings.attempts
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert ids(tiny, "clean.orders") == [1]


def test_a_missing_database_fails_only_its_own_tables(tiny: Tiny) -> None:
    tiny.declare(COLLECT + CLICKS)
    for number in (1, 2):
        tiny.land("clicks", evening(number), f"id,customer\n{number},a\n")
    away = (tiny.root / "shop.sqlite").rename(tiny.root / "away.sqlite")
    error = the_error(tiny.run(day(2)))
    assert error.code == "E810"
    text = error.render()
    assert f"shop.orders@{labels(1)[0]}" in text
    assert "shop.sqlite" in text
    assert ids(tiny, "web.clicks") == [1]
    assert not (tiny.root / "shop.sqlite").exists()

    away.rename(tiny.root / "shop.sqlite")
    retry(tiny, "shop.orders", 1)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert ids(tiny) == [1]


def test_a_missing_landing_folder_fails_only_its_own_tables(tiny: Tiny) -> None:
    tiny.declare(COLLECT + CLICKS)
    for number in (1, 2):
        tiny.land("clicks", evening(number), f"id,customer\n{number},a\n")
    away = (tiny.root / "landing").rename(tiny.root / "away")
    error = the_error(tiny.run(day(2)))
    assert error.code == "E804"
    assert f"web.clicks@{labels(1)[0]}" in error.render()
    assert ids(tiny) == [1]

    away.rename(tiny.root / "landing")
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert ids(tiny, "web.clicks") == [1]


def test_a_full_disk_in_the_stage_leaves_nothing_visible_and_is_made_good(tiny: Tiny) -> None:
    tiny.declare(COLLECT + DOUBLED)

    def fill(point: str) -> None:
        if point == "written":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "part-00000.parquet")

    with inject_faults(fill):
        error = the_error(tiny.run(day(2)))
    assert (error.code, error.transient) == ("E711", True)
    assert f"shop.orders@{labels(1)[0]}" in error.render()
    assert ids(tiny) == []
    assert tiny.open_claims() == 0
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert ids(tiny, "clean.orders") == [1]


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """Mount a file system of a few kilobytes at `folder`; skip the test if this user may not."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if sys.platform != "linux" or os.geteuid() != 0 or subprocess.call(mount, stderr=subprocess.DEVNULL):
        pytest.skip("a small file system is mounted by root on Linux only")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_reported_with_the_batch(tiny: Tiny) -> None:
    tiny.declare(COLLECT + "TRANSFORM big.texts PARTITIONED AS SELECT id, repeat(uuid_of, 1) AS text FROM "
                 "(SELECT id, sha2(CAST(id * n AS STRING), 512) AS uuid_of FROM shop.orders "
                 "LATERAL VIEW explode(sequence(1, :count)) AS n);")  # fmt: skip
    toml = tiny.root / "waterclock.toml"
    toml.write_text(toml.read_text() + "[vars]\ncount = 40000\n")
    with small_disk(tiny.root / ".waterclock" / "tables" / "big" / "texts", 600):
        error = the_error(tiny.run(day(2)))
        assert error.code == "E711", error.render()
        assert f"big.texts@{labels(1)[0]}" in error.render()
        assert tiny.rows("SELECT count(*) FROM big.texts") == [(0,)]
        toml.write_text(toml.read_text().replace("40000", "10"))
        outcome = tiny.run(day(2))
        assert not outcome.failed, described(outcome)
        assert tiny.rows("SELECT count(*) FROM big.texts") == [(10,)]


def test_a_foreign_commit_stops_its_table_until_it_is_undone(tiny: Tiny, spark: SparkSession) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    tiny.declare(COLLECT + DOUBLED)
    assert not tiny.run(day(2)).failed
    folder = str(tiny.root / ".waterclock" / "tables" / "shop" / "orders")
    spark.sql(f"OPTIMIZE delta.`{folder}`")
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    ours = version(tiny, "shop.orders")

    row = {"timelabel": [labels(1)[0]], "id": [77], "amount": [7], "at": [day(1, 12)]}
    write_deltalake(folder, pa.table(row), mode="append")
    error = the_error(tiny.run(day(4)))
    assert error.code == "E751"
    text = error.render()
    assert f"shop.orders@{labels(3)[0]}" in text
    assert f"version {ours + 1}" in text
    assert version(tiny, "shop.orders") == ours + 1
    assert tiny.done("shop.orders") == labels(1, 2)

    spark.sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF {ours}")
    retry(tiny, "shop.orders", 3)
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)
    assert ids(tiny) == [1, 2, 3]
    assert ids(tiny, "clean.orders") == [1, 2, 3]


FOLDS = """
COLLECT shop.orders (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at {mode};
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("point", ["before_commit", "looked"])
@pytest.mark.parametrize("mode", ["PARTITIONED", "APPEND", "MERGE ORDER BY at", "TEMPORAL AT at", "REPLACE"])
def test_a_foreign_commit_while_a_batch_is_made_stops_the_batch(
    tiny: Tiny, spark: SparkSession, mode: str, point: str
) -> None:
    """Regression: the next batch searched for foreign commits after this one, and never found it."""
    flow = {
        "PARTITIONED": COLLECT,
        "REPLACE": "COLLECT shop.orders (id BIGINT KEY, amount BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY;",
    }
    tiny.declare(flow.get(mode, FOLDS.format(mode=mode)))
    assert not tiny.run(day(2)).failed
    folder = str(tiny.root / ".waterclock" / "tables" / "shop" / "orders")
    right = sorted(spark.read.format("delta").load(folder).collect())
    ours = version(tiny, "shop.orders")
    struck: list[str] = []

    def strike(at: str) -> None:
        if at == point and not struck:
            struck.append(at)
            spark.sql(f"INSERT INTO delta.`{folder}` SELECT * FROM delta.`{folder}`")

    with inject_faults(strike):
        error = the_error(tiny.run(day(3)))
    assert struck
    assert error.code == "E751", error.render()
    assert f"version {ours + 1}" in error.render()
    assert tiny.done("shop.orders") == labels(1)

    spark.sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF {ours}")
    assert sorted(spark.read.format("delta").load(folder).collect()) == right
    retry(tiny, "shop.orders", 2)
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert ids(tiny) == ([1, 2, 3, 4, 5] if mode == "REPLACE" else [1, 2])


def test_a_storage_without_put_if_absent_is_refused_before_anything_is_claimed(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.declare(COLLECT)

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", refuse)
        with pytest.raises(WaterclockError) as refused:
            tiny.run(day(2))
    assert refused.value.code == "E602"
    assert str(tiny.root / ".waterclock") in refused.value.render()
    assert tiny.batches() == {}
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert ids(tiny) == [1]


def test_whatever_is_raised_once_spark_has_ended_its_end_is_the_reason(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.declare(COLLECT)
    broken = tiny.root / "flows" / "broken.py"
    broken.write_text(BROKEN)
    with monkeypatch.context() as patched:
        patched.setattr(Sessions, "has_ended", lambda _: True)
        error = the_error(tiny.run(day(2)))
    assert (error.code, error.transient) == ("E712", True), error.render()
    assert f"clean.orders@{labels(1)[0]}" in error.render()
    error = the_error(tiny.run(day(2)))  # transient errors are due again without a retry
    assert error.code == "E720", error.render()


BROKEN = """\
from __future__ import annotations

import waterclock as wc


@wc.transform("clean.orders", partitioned=True)
def orders(orders: wc.DataFrame = wc.table("shop.orders")) -> wc.DataFrame:
    raise ValueError("what PySpark makes of a JVM that died")
"""
SLOW = """\
from __future__ import annotations

from pathlib import Path

import waterclock as wc


@wc.transform("clean.orders", partitioned=True)
def orders(orders: wc.DataFrame = wc.table("shop.orders")) -> wc.DataFrame:
    Path(__file__).with_name("begun").touch()
    endless = orders.sparkSession.range(10**12).selectExpr("sum(hash(id)) AS n")
    return orders.crossJoin(endless).selectExpr("id", "2 * amount AS doubled", "n")
"""


@pytest.mark.slow
@pytest.mark.soak
def test_a_jvm_killed_again_during_the_retry_is_reported_as_ended(tiny: Tiny) -> None:
    tiny.declare(COLLECT)
    slow = tiny.root / "flows" / "slow.py"
    slow.write_text(SLOW)
    run = subprocess.Popen(
        [sys.executable, "-m", "waterclock", "run", "--now", "2020-01-02"],
        cwd=tiny.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        for _ in range(2):
            wait_until(slow.with_name("begun").exists)
            wait_until((tiny.root / ".waterclock" / "tables" / "clean" / "orders" / "_delta_log").exists)
            time.sleep(1)  # the table is created, its batch is being made
            (jvm,) = (child for child in children(run.pid) if "java" in child[1])
            slow.with_name("begun").unlink()
            os.kill(jvm[0], signal.SIGKILL)
        said, _ = run.communicate(timeout=PATIENCE)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 1, said
    assert said.rpartition("\n\nE")[2].startswith("712 "), said
    assert "Traceback" not in said
    assert f"clean.orders@{labels(1)[0]}" in said
    assert tiny.open_claims() == 0

    slow.unlink()
    tiny.declare(COLLECT + DOUBLED.replace("AS doubled", "AS doubled, CAST(0 AS BIGINT) AS n"))
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id, doubled, n FROM clean.orders") == [(1, 2, 0)]


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until, "the condition was not met in time"
        time.sleep(0.05)


def children(process: int) -> list[tuple[int, str]]:
    """Return the processes that a process has started, with their commands."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # one that ended meanwhile
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == process:
                found.append((int(folder.name), (folder / "cmdline").read_text()))
    return found
