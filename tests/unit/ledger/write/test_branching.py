"""A copied ledger becomes that of a branch: its tables are borrowed, and no running batch stays open."""

from __future__ import annotations

import pytest

from tests.ledgers import Desk, day, table
from waterclock.batches.access import Access
from waterclock.batches.former_names import is_borrowed
from waterclock.errors import WaterclockError
from waterclock.permissions.users_and_roles import Right
from waterclock.storage.lake import Lake


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("core.b", reads=["raw.a"]))


def start(at_desk: Desk) -> None:
    folders = {name: f"/prod/tables/{name.replace('.', '/')}" for name in ("raw.a", "core.b")}
    at_desk.ledger.maintenance.start_branch(folders, who="ann", base="prod")


def test_a_borrowed_table_cannot_be_claimed_until_the_branch_owns_it(at_desk: Desk) -> None:
    start(at_desk)
    for name in ("raw.a", "core.b"):
        with pytest.raises(WaterclockError, match="E473"):
            at_desk.claim(name, 0)
    at_desk.ledger.maintenance.own_tables({"core.b": "tables/core/b"}, who="ann")
    at_desk.claim("core.b", 0)
    with pytest.raises(WaterclockError, match="E473"):
        at_desk.claim("raw.a", 0)


def test_claims_that_were_open_in_production_are_closed_and_its_labels_are_unchanged(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    at_desk.claim("raw.a", 1)
    before = at_desk.ledger.past.made_labels("raw.a", day(0), day(9))
    start(at_desk)
    assert at_desk.ledger.claims.open() == []
    assert at_desk.ledger.past.made_labels("raw.a", day(0), day(9)) == before
    assert [row["status"] for row in at_desk.ledger.past.rows("batches") if row["table"] == "raw.a"] == ["done", None]


def test_pauses_and_requests_stay_in_production(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    at_desk.ledger.decisions.request_restate("raw.a", [day(0)], "recompute", who="ann")
    at_desk.ledger.decisions.pause_tables(["raw.a"], who="ann", why="x")
    start(at_desk)
    facts = at_desk.ledger.reads.snapshot(at_desk.flow).of("raw.a")
    assert facts.paused is None
    assert not facts.requested


def test_tokens_and_recorded_accesses_stay_in_production(at_desk: Desk) -> None:
    access = at_desk.ledger.access
    access.create_token("anna", "d" * 64, user="anna", rights=[Right.LOOK], until=day(900_000), who="ann")
    access.record([Access("anna", "token", "query", ("raw.a",))])
    assert access.list_accesses(since=None, who=None, most=10)
    start(at_desk)
    assert access.list_tokens() == ()
    assert access.find_token("d" * 64) is None
    assert access.list_accesses(since=None, who=None, most=10) == ()


def test_folders_of_borrowed_tables_are_absolute(at_desk: Desk) -> None:
    start(at_desk)
    lake = Lake("/branch", folders=at_desk.ledger.declared.former().folders)
    assert lake.folder("raw.a") == "/prod/tables/raw/a"
    assert lake.history("raw.a") == "/branch/history/raw/a"
    assert lake.folder("raw.new") == "/branch/tables/raw/new"
    assert [is_borrowed(lake.location(name)) for name in ("raw.a", "raw.new", "publish/out.x")] == [True, False, False]
    assert Lake("/branch", folders={"a.b": "s3://bucket/tables/a/b"}).folder("a.b") == "s3://bucket/tables/a/b"
