"""Messages about labels that a promotion may not make."""

from __future__ import annotations

from tests.ledgers import day, flow, table
from waterclock.flow.enums import Kind, Mode
from waterclock.operations.promotion import find_conditions

NET = table("core.net", partitioned=True)
USERS = table("raw.users", partitioned=True, kind=Kind.COLLECT, reads=["core.net"])
NAMED = table("marts.named", partitioned=True, reads=["core.net", "raw.users"])
STATE = table("marts.state", mode=Mode.REPLACE, reads=["core.net"])
TOP = table("marts.top", partitioned=True, reads=["marts.named"])
FLOW = flow(NET, USERS, NAMED, STATE, TOP)
DAYS = (day(1), day(2))


def test_labels_that_read_a_collect_for_each_row_of_a_promoted_table_wait() -> None:
    waits = {"marts.named": "labels for which raw.users must first collect rows of core.net wait for a later run"}
    assert find_conditions(FLOW, {"marts.named": DAYS, "core.net": DAYS}, {}, {}) == waits
    assert find_conditions(FLOW, {"marts.named": DAYS}, {"core.net": DAYS}, {}) == waits
    assert find_conditions(FLOW, {"marts.named": DAYS}, {}, {}) == {}, "raw.users collects nothing"
    assert find_conditions(FLOW, {"core.net": DAYS}, {"marts.named": DAYS}, {}) == {}, "nothing of it is adopted"


def test_of_states_that_production_has_not_made_only_some_are_made() -> None:
    found = find_conditions(FLOW, {"marts.state": DAYS}, {}, {"marts.state": DAYS[:1]})
    assert found == {"marts.state": "of its states, only the newest and those that other tables read are made"}
    assert find_conditions(FLOW, {"marts.state": DAYS}, {}, {"marts.state": DAYS}) == {}, "they are requested"


def test_labels_that_read_failed_or_held_labels_wait() -> None:
    waits = "labels that read failed or held labels of core.net wait for these"
    named, top = {"marts.named": DAYS}, {"marts.top": DAYS}
    assert find_conditions(FLOW, named, {}, named, ["core.net"]) == {"marts.named": waits}
    assert find_conditions(FLOW, named, {}, named, ["marts.state"]) == {}, "it does not read that table"
    assert find_conditions(FLOW, top, {}, top, ["core.net"]) == {"marts.top": waits}, "through marts.named"
