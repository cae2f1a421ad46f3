from __future__ import annotations

from pathlib import Path

from tests import stocks
from tests.ledgers import desk
from waterclock.batches.access import Access
from waterclock.operations.access_records import AccessLog, query_access
from waterclock.permissions.users_and_roles import SignIn, owner

ANNA = Access("anna", SignIn.TOKEN, "see rows", ("marts.a",))


class Minutes:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_equal_accesses_within_a_minute_become_two_records() -> None:
    opened, clock = desk(), Minutes()
    log = AccessLog(lambda: opened.ledger, clock)
    with opened.ledger:
        for _ in range(1000):
            log.write(log.count(ANNA))
        found = opened.ledger.access.list_accesses(since=None, who=None, most=10)
        assert [each.times for each in found] == [1]
        clock.now = 61
        log.write(log.count(ANNA))
        log.flush()
        found = opened.ledger.access.list_accesses(since=None, who=None, most=10)
        assert sorted(each.times for each in found) == [1, 1, 999]


def test_a_flood_of_different_accesses_is_bounded() -> None:
    opened = desk()
    log = AccessLog(lambda: opened.ledger, Minutes())
    with opened.ledger:
        for number in range(3000):
            log.write(log.count(Access("anna", SignIn.TOKEN, f"GET /{number}", refusal="a right is missing")))
        log.flush()
        found = opened.ledger.access.list_accesses(since=None, who=None, most=5000)
    assert len(found) <= 1002
    assert sum(each.times for each in found) == 3000


def test_nothing_is_recorded_before_the_first_run() -> None:
    log = AccessLog(lambda: None)
    log.record(ANNA)
    log.write(log.count(ANNA))
    log.flush()


def test_a_query_is_recorded_by_its_digest_and_the_tables_it_names(tmp_path: Path) -> None:
    flow = stocks.make(tmp_path / "shop").project.flow
    secret = "SELECT * FROM raw.orders WHERE sku = 'the name of a person'"
    access = query_access(owner("ops"), flow, secret, address="10.0.0.1")
    assert access.tables == ("raw.orders",)
    assert len(access.query or "") == 64
    assert "person" not in repr(access)
    both = query_access(owner("ops"), flow, "SELECT 1 FROM raw.weather_quarantine JOIN waterclock.batches")
    assert both.tables == ("raw.weather_quarantine", "waterclock.batches")
    assert query_access(owner("ops"), flow, "DROP TABLE raw.orders").tables == ()
