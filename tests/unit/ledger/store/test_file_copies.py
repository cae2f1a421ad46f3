"""A copied ledger has the rows of an export at one moment, and none that exports omit."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.ledgers import Desk, desk, desk_at_server, require_sums, table
from waterclock.batches.access import Access
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store.export import EXPORTED_TABLES
from waterclock.ledger.store.schema import metadata
from waterclock.permissions.users_and_roles import Right, SignIn

NEW = {"created_at", "moved_to"}


@pytest.fixture
def at_desk(tmp_path: Path) -> Desk:
    """Return a ledger in a file, with done, failed and running batches, and rows that no export contains."""
    made = desk(tmp_path)
    made.apply(table("raw.a", partitioned=True), table("core.b", reads=["raw.a"]))
    ledger = made.ledger
    made.done("raw.a", 0)
    made.done("core.b", 0, reads={0: [made.read("raw.a", 0, 1)]})
    ledger.claims.record_failed(made.claim("raw.a", 1), error="E610 secret of a failure", is_transient=False)
    made.claim("raw.a", 2)
    ledger.decisions.pause_tables(["core.b"], who="ann", why="a reason")
    until = made.clock() + timedelta(days=1)
    ledger.access.create_token("laptop", "digest-of-a-token", user="ann", rights=[Right.QUERY], until=until, who="ann")
    ledger.access.record([Access("ann", SignIn.TOKEN, "query", query="SELECT 'a logged query'")])
    ledger.runners.register("here", who="ann", command="run", flow="flow 1", lease_seconds=60)
    return made


def rows_of(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    with ledger._database.read() as connection:
        return {
            each.name: sorted(
                tuple(map(str, row))
                for row in connection.execute(sa.select(*(c for c in each.columns if c.name not in NEW)))
            )
            for each in metadata.sorted_tables
        }


def copied(ledger: Ledger, target: Path) -> Ledger:
    assert ledger.maintenance.copy_file(f"sqlite:///{target}")
    return Ledger.open(f"sqlite:///{target}")


def test_a_copy_has_the_rows_of_a_loaded_export(at_desk: Desk, tmp_path: Path) -> None:
    before = rows_of(at_desk.ledger)
    with copied(at_desk.ledger, tmp_path / "copy.db") as copy, Ledger.open("sqlite://") as loaded:
        loaded.maintenance.load([at_desk.ledger.maintenance.export_lines()])
        found = rows_of(copy)
        assert found == rows_of(loaded)
        require_sums(copy)
        assert copy.maintenance.moment().created_at >= at_desk.ledger.maintenance.moment().created_at
        copy.claims.close_lost(copy.claims.open()[0], why="another ledger")
    left_out = {name for name, rows in before.items() if rows and not found[name]}
    assert left_out == {"access_tokens", "accesses", "runners"} == metadata.tables.keys() - EXPORTED_TABLES
    assert rows_of(at_desk.ledger) == before, "the copied ledger is only read"


def test_the_bytes_of_rows_that_stay_are_not_in_the_copy(at_desk: Desk, tmp_path: Path) -> None:
    with copied(at_desk.ledger, tmp_path / "copy.db"):
        pass
    found = b"".join(path.read_bytes() for path in tmp_path.glob("copy.db*"))
    assert b"secret of a failure" in found
    assert b"digest-of-a-token" not in found
    assert b"a logged query" not in found
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0


def test_a_copy_is_that_of_one_moment_while_a_runner_writes(at_desk: Desk, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE tables SET paused_why = 'not committed'")
        before = rows_of(at_desk.ledger)
        found = Ledger.query(
            f"sqlite:///{tmp_path / 'ledger.db'}", lambda it: it.maintenance.copy_file(f"sqlite:///{tmp_path / 'c.db'}")
        )
        writer.execute("COMMIT")
    assert found
    with Ledger.open(f"sqlite:///{tmp_path / 'c.db'}") as copy:
        assert rows_of(copy)["tables"] == before["tables"] != rows_of(at_desk.ledger)["tables"]


def test_a_file_that_cannot_be_written_and_a_damaged_ledger_are_reported(at_desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(WaterclockError, match="E416") as raised:
        at_desk.ledger.maintenance.copy_file(f"sqlite:///{tmp_path / 'none' / 'copy.db'}")
    assert str(tmp_path / "none") in str(raised.value)
    at_desk.ledger.close()
    file = tmp_path / "ledger.db"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(WaterclockError, match="E422"):
        Ledger.query(f"sqlite:///{file}", lambda it: it.maintenance.copy_file(f"sqlite:///{tmp_path / 'copy.db'}"))


@pytest.mark.slow
def test_a_ledger_on_a_server_is_not_copied(tmp_path: Path) -> None:
    with desk_at_server().ledger as ledger:
        assert not ledger.maintenance.copy_file(f"sqlite:///{tmp_path / 'copy.db'}")
    assert not list(tmp_path.iterdir())
