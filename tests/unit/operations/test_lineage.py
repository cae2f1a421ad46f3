from __future__ import annotations

from waterclock.operations.lineage import between, turned, within

READS = {"a": {}, "b": {"a": "a"}, "c": {"a": "LATEST(a)"}, "d": {"b": "b", "c": "c"}, "e": {"d": "d"}, "x": {"c": "c"}}


def test_arrows_turned_keep_how_a_table_is_read() -> None:
    assert turned(READS)["a"] == {"b": "a", "c": "LATEST(a)"}
    assert turned(turned(READS)) == READS


def test_so_many_steps_lead_so_far() -> None:
    assert within(READS, ["e"], 0) == {"e"}
    assert within(READS, ["e"], 1) == {"e", "d"}
    assert within(READS, ["e"], 2) == {"e", "d", "b", "c"}
    assert within(READS, ["e"]) == {"e", "d", "b", "c", "a"}


def test_between_two_tables_lies_what_is_on_a_way_from_one_to_the_other() -> None:
    assert between(READS, "a", "d") == between(READS, "d", "a") == {"a", "b", "c", "d"}
    assert between(READS, "c", "e") == {"c", "d", "e"}
    assert between(READS, "x", "b") == set()
    assert between(READS, "a", "a") == {"a"}
