from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from tests.ledgers import Desk
from waterclock.batches.access import Access
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.permissions.users_and_roles import Right, SignIn


def create(at_desk: Desk, name: str, days: float = 1) -> None:
    at_desk.ledger.access.create_token(
        name, f"digest of {name}", user="anna", rights={Right.QUERY, Right.LOOK},
        until=at_desk.ledger.now() + timedelta(days=days), who="ben",
    )  # fmt: skip


def test_a_token_is_found_by_its_digest_until_it_ends_or_is_revoked(at_desk: Desk) -> None:
    create(at_desk, "nightly")
    create(at_desk, "short", days=0)
    found = at_desk.ledger.access.find_token("digest of nightly")
    assert found is not None
    assert (found.name, found.user, found.created_by) == ("nightly", "anna", "ben")
    assert found.rights == {Right.LOOK, Right.QUERY}
    assert at_desk.ledger.access.find_token("digest of short") is None
    assert at_desk.ledger.access.find_token("nightly") is None
    at_desk.ledger.access.revoke_token("nightly", who="cleo")
    assert at_desk.ledger.access.find_token("digest of nightly") is None
    listed = {token.name: token.revoked_by for token in at_desk.ledger.access.list_tokens()}
    assert listed == {"nightly": "cleo", "short": None}


def test_a_name_is_used_once_and_an_unknown_one_is_refused_with_the_nearest(at_desk: Desk) -> None:
    create(at_desk, "nightly")
    with pytest.raises(WaterclockError, match="there is a token nightly already"):
        create(at_desk, "nightly")
    with pytest.raises(WaterclockError) as unknown:
        at_desk.ledger.access.revoke_token("nigthly", who="ben")
    assert (unknown.value.code, unknown.value.fix) == ("E943", "did you mean nightly?")
    at_desk.ledger.access.revoke_token("nightly", who="ben")
    with pytest.raises(WaterclockError, match="is already revoked"):
        at_desk.ledger.access.revoke_token("nightly", who="ben")


def test_accesses_are_listed_newest_first_and_forgotten_with_tokens_that_ended(at_desk: Desk) -> None:
    access, start = at_desk.ledger.access, at_desk.ledger.now()
    for hours, who in enumerate(("anna", "ben", "anna")):
        access.record([Access(who, SignIn.TOKEN, f"query {hours}", ("marts.a",), at=start + timedelta(hours=hours))])
    create(at_desk, "old", days=0)
    create(at_desk, "new", days=9)
    found = access.list_accesses(since=None, who=None, most=10)
    assert [each.action for each in found] == ["query 2", "query 1", "query 0"]
    assert found[0].tables == ("marts.a",)
    assert [each.action for each in access.list_accesses(since=None, who="anna", most=1)] == ["query 2"]
    assert len(access.list_accesses(since=start + timedelta(hours=1), who=None, most=10)) == 2
    assert access.forget(start + timedelta(hours=2)) == 2
    assert [each.action for each in access.list_accesses(since=None, who=None, most=10)] == ["query 2"]
    assert [token.name for token in access.list_tokens()] == ["new"]


@pytest.mark.parametrize("at_desk", ["sqlite"], indirect=True)
def test_the_accesses_of_a_person_are_read_by_an_index_search(at_desk: Desk) -> None:
    newest = "SELECT * FROM accesses WHERE who = 'anna' ORDER BY at DESC, id DESC LIMIT 9"
    with at_desk.ledger._database.read() as connection:
        plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {newest}")]
    assert plan == ["SEARCH accesses USING INDEX accesses_by_person (who=?)"]


def test_tokens_and_accesses_are_no_news_of_batches(at_desk: Desk) -> None:
    before = at_desk.ledger.sequence()
    create(at_desk, "nightly")
    at_desk.ledger.access.record([Access("anna", SignIn.TOKEN, "query")])
    assert at_desk.ledger.sequence() == before
    exported = "".join(at_desk.ledger.maintenance.export_lines())
    assert "digest of nightly" not in exported


def test_a_ledger_of_the_first_version_gets_both_tables(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.open(url).close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database, database:
        database.execute("DROP TABLE access_tokens")
        database.execute("DROP TABLE accesses")
        for table in ("erasures", "erased_persons", "erasure_steps"):
            database.execute(f"DROP TABLE {table}")
        database.execute("ALTER TABLE ledger DROP COLUMN erasures")
        database.execute("UPDATE alembic_version SET version_num = '0019'")
    with Ledger.open(url) as ledger:
        assert ledger.access.list_tokens() == ()
        assert ledger.access.list_accesses(since=None, who=None, most=1) == ()
