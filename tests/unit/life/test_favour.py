"""Random lives prefer pairs that no life of the soak has met, and above all pairs that no soak has met."""

from __future__ import annotations

from random import Random

from tests.life.arriving import Arriving
from tests.life.declarations import Declared
from tests.life.favour import LIVES, RARE, Met, operated, operations, seeds_of
from tests.life.parts import Hold, Retain
from tests.life.people import Granted
from tests.soaks import SOAKS

ONE, OTHER = ("op reset", "RETAIN"), ("GRANT", "SUBJECT")


def test_a_pair_that_no_soak_has_met_counts_most() -> None:
    met = Met().with_pairs([ONE])
    assert met.gain({ONE}) == 0
    assert met.gain({ONE, OTHER}) == 1 + RARE
    later = met.next_soak()
    assert later.gain({ONE}) == 1
    assert later.gain({ONE, OTHER}) == 2 + RARE
    assert later.with_pairs([OTHER]).next_soak().gain({ONE, OTHER}) == 2


def test_an_operation_is_worth_the_declarations_that_it_has_not_met() -> None:
    met = Met().with_pairs([ONE])
    assert met.gain_of("reset", {"RETAIN"}) == 0
    assert met.gain_of("reset", {"RETAIN", "GRANT"}) == 1 + RARE
    assert met.next_soak().gain_of("reset", {"RETAIN", "GRANT"}) == 2 + RARE


def test_operations_follow_from_declarations() -> None:
    table = Declared("TRANSFORM", "made.t", "PARTITIONED")
    assert not {"release", "dropped windows before", "asked as a reader"} & {*operations(table)}
    table.parts = [Hold(), Retain(), Granted()]
    assert {"release", "dropped windows before", "asked as a reader"} <= {*operations(table)}
    publish = Declared("PUBLISH", "out.p", "PARTITIONED", of="made.t")
    found = operated([table, publish])
    assert "PUBLISH" in found["killed"]
    assert "PUBLISH" in found["pause"]
    assert "PUBLISH" not in found["recompute"]


def test_a_life_often_chooses_the_table_that_an_operation_has_not_met() -> None:
    life = Arriving(Random(3))
    named = sorted(life.flow, key=lambda name: len(life.flow[name].words))
    others = {("op reset", word) for name in named[:-1] for word in life.flow[name].words}
    assert life.flow[named[-1]].words - {word for _, word in others}
    life.met = Met().with_pairs(others)
    chosen = [life.pick(named, "reset") for _ in range(200)]
    assert chosen.count(named[-1]) > 140
    assert {*chosen} == {*named}


def test_four_soaks_have_other_seeds() -> None:
    seeds = [seed for soak in range(SOAKS) for seed in seeds_of(soak)]
    assert seeds == list(range(SOAKS * LIVES))
    assert seeds_of(0) == seeds_of(None)
