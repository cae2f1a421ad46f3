"""Slots that lose their log, or are dropped or created by others, and servers that were restored or replaced.

No Spark.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import postgres
from tests.followers import Follower
from tests.postgres import Server
from waterclock.batches.log_retention import LogSafety
from waterclock.connectors.change_collector import LogRetentionReporter
from waterclock.connectors.postgres.change_collection import confirm, drop_slots
from waterclock.connectors.postgres.connector import PostgresCollector
from waterclock.errors import WaterclockError


@pytest.fixture
def own() -> Iterator[Server]:
    """Yield a server for this test only, which it may break."""
    made = postgres.server.__wrapped__()
    yield made
    made.stop("immediate")


def refused(it: Follower, said: str) -> WaterclockError:
    """Return the error with which a batch is refused, at each attempt."""
    for _ in range(2):
        with pytest.raises(WaterclockError, match=said) as caught:
            it.read()
        assert caught.value.code == "E860"
        assert "snapshot" in str(caught.value.fix)
    return caught.value


def copied(at: Server, to: str) -> Path:
    """Copy the files of a stopped server."""
    copy = at.folder / to
    subprocess.run(["cp", "-a", str(at.folder / "data"), str(copy)], check=True)
    return copy


def restored(at: Server, copy: Path) -> None:
    """Replace the server's files by the copied ones."""
    at.stop("immediate")
    shutil.rmtree(at.folder / "data")
    subprocess.run(["cp", "-a", str(copy), str(at.folder / "data")], check=True)


def kept(it: Follower) -> tuple[LogSafety, int, int | None]:
    """Return the state of the slot, as the check of a run reads it."""
    collector = PostgresCollector(it.database)
    assert isinstance(collector, LogRetentionReporter)
    (found,) = collector.find_retained_logs(it.unit, [it.noted["slot"]]).values()
    return found.condition, found.held, found.most


def test_a_slot_whose_log_was_removed_is_reported_and_does_not_advance(own: Server) -> None:
    it = Follower("pgoutput", at=own)
    it.sql("UPDATE t SET a = 'x'")
    it.read()
    assert kept(it)[0] is LogSafety.SAFE
    own.run("ALTER SYSTEM SET max_slot_wal_keep_size = '16MB'")
    own.run("SELECT pg_reload_conf()")
    seen = []
    for number in range(8):
        it.sql(f"UPDATE t SET a = '{number}'")
        own.run("SELECT pg_switch_wal()")
        seen += [kept(it)[0]]
        if number > 3:
            own.run("CHECKPOINT")
    assert LogSafety.LOSING in seen
    stands, _, most = kept(it)
    assert (stands, most) == (LogSafety.LOST, 16 << 20)
    error = refused(it, "has lost its log")
    assert "max_slot_wal_keep_size" in str(error.why)
    confirm(it.database, it.unit, it.noted)  # the note of an earlier, committed batch: no error, and no change
    assert drop_slots(it.database, it.unit, [it.noted["slot"]]) == (it.noted["slot"],)
    refused(it, "is gone")
    assert kept(it)[0] is LogSafety.GONE


@pytest.mark.soak
@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
def test_a_slot_dropped_and_recreated_by_others_is_refused(own: Server, plugin: str) -> None:
    postgres.needs_wal2json(own)
    it = Follower(plugin, at=own)
    it.sql("UPDATE t SET a = 'x'")
    it.read()
    name = it.noted["slot"]
    it.sql("UPDATE t SET a = 'y'")
    own.run("SELECT pg_drop_replication_slot(%s)", name)
    refused(it, "is gone")
    own.run("SELECT pg_create_logical_replication_slot(%s, %s)", name, plugin)
    refused(it, "was advanced")


def test_a_restored_server_is_reported_though_its_slot_exists(own: Server) -> None:
    it = Follower("pgoutput", at=own)
    it.read()
    own.stop()
    copy = copied(own, "copy")
    own.start()
    it.sql("UPDATE t SET a = 'never was'")
    it.read()
    restored(own, copy)
    own.start()
    refused(it, "was restored")  # its log ends before the position that was collected
    promoted = replace(own)
    promoted.stop()
    (own.folder / "data" / "recovery.signal").touch()
    with (own.folder / "data" / "postgresql.conf").open("a") as conf:
        conf.write("restore_command = 'false'\n")
    promoted.start()
    postgres.wait_until(lambda: own.run("SELECT pg_is_in_recovery()") == [(False,)])
    for _ in range(3):  # makes its log longer than before
        it.sql("UPDATE t SET a = 'of the new timeline', b = repeat('b', 9000)")
    assert "timeline 2" in str(refused(it, "was restored").why)


def test_a_promoted_standby_with_the_slot_continues_without_loss(own: Server) -> None:
    it = Follower("pgoutput", at=own)
    it.sql("UPDATE t SET a = 'x'")
    it.read()
    it.sql("UPDATE t SET a = 'y' WHERE id = 1")
    own.stop()
    (own.folder / "data" / "standby.signal").touch()  # as for a promoted copy of the primary, including its slots
    own.start()
    with pytest.raises(WaterclockError, match="is a standby") as caught:
        it.read()
    assert caught.value.transient
    own.run("SELECT pg_promote()")
    postgres.wait_until(lambda: own.run("SELECT pg_is_in_recovery()") == [(False,)])
    it.sql("UPDATE t SET a = 'z' WHERE id = 2")
    it.read()
    assert it.noted["timeline"] == 2
    assert it.held == it.source()
