"""Tokens in the oracle of random lives: one for each person in all tables, equal to no value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.life import vault
from tests.life.books import Unexpected
from tests.life.branching import has_branch
from tests.life.declarations import BEHIND, FOREIGN, Declared
from tests.life.favour import LIVES
from tests.life.lives import lived
from tests.life.oracle import Oracle
from tests.life.part import Read
from tests.life.parts import Demands, KeyPast
from tests.life.people import Tokens
from tests.life.rows import DAY, Row, person_of, token_of
from tests.life.tokens import has_tokens
from tests.life.vault import Vault
from tests.unit.life.test_oracle import MADE, RAW, run

PEOPLE, TOKENS = "raw.people", {"1": "a" * 32, "2": "b" * 32}


def keys_of(*parts: Tokens | Demands | KeyPast, people: Tokens | None = None) -> dict[int, list[int]]:
    """Return the keys of a table that reads another table and sums a third one by key."""
    tables = {
        RAW: Declared("COLLECT", RAW, "PARTITIONED"),
        PEOPLE: Declared("COLLECT", PEOPLE, "MERGE", parts=[people] if people else []),
        MADE: Declared("TRANSFORM", MADE, "PARTITIONED", parts=[*parts], reads=(Read("PLAIN", RAW),)),
    }
    oracle = Oracle(tables, today=3)
    oracle.source[RAW] = [Row(1, 10, 60), Row(2, 20, 120), Row(1, 30, DAY + 60)]
    oracle.source[PEOPLE] = [Row(1, 5, 60)]
    run(oracle)
    return {label: [row.k for row in made.stay] for label, made in oracle.books[MADE].shown.items()}


def test_a_table_has_the_token_of_each_value() -> None:
    assert keys_of() == {1: [1, 2], 2: [1]}
    assert keys_of(Tokens()) == {1: [token_of(1), token_of(2)], 2: [token_of(1)]}
    assert token_of(token_of(1)) == token_of(1)
    assert person_of(token_of(1)) == person_of(1) == 1


def test_keys_and_references_are_tokens() -> None:
    assert keys_of(Tokens(), KeyPast(2)) == {1: [token_of(1), token_of(2)], 2: []}
    demand = Demands(PEOPLE)
    assert keys_of(demand) == {1: [1], 2: [1]}
    assert keys_of(demand, Tokens(), people=Tokens()) == {1: [token_of(1)], 2: [token_of(1)]}
    assert keys_of(demand, Tokens()) == keys_of(demand, people=Tokens()) == {1: [], 2: []}


def test_no_life_with_a_branch_has_tokens_and_others_stay_the_same() -> None:
    seeds = [seed for seed in range(4 * LIVES) if has_tokens(seed)]
    assert len(seeds) == 65
    assert not any(map(has_branch, seeds))
    plain, with_tokens = lived(1), lived(1, with_tokens=True)
    assert with_tokens.flow.keys() == plain.flow.keys()
    assert any(table.has(Tokens) for table in with_tokens.flow.values())
    drawn = {name: (table.reads, table.size, table.answers) for name, table in plain.flow.items()}
    assert {name: (table.reads, table.size, table.answers) for name, table in with_tokens.flow.items()} == drawn


def test_the_vault_of_a_life_keeps_the_token_of_each_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict(TOKENS)
    monkeypatch.setattr(vault, "find_tokens", lambda _, values: {it: found[it] for it in values if it in found})
    seen = Vault(tmp_path)
    assert [seen.key(text) for text in ("2", TOKENS["2"], BEHIND)] == [2, token_of(2), FOREIGN]
    with pytest.raises(Unexpected, match="is not a token"):
        seen.key("c" * 32)
    seen.erased.add("1")
    with pytest.raises(Unexpected, match="1 is erased"):
        seen.look()
    del found["1"]
    seen.look()
    assert seen.key(TOKENS["1"]) == token_of(1), "other tables may still have the token of an erased person"
    found["2"] = "d" * 32
    with pytest.raises(Unexpected, match="2 has the token d"):
        seen.look()
    found |= {"2": TOKENS["2"], "3": TOKENS["2"]}
    with pytest.raises(Unexpected, match="of another person"):
        seen.look()
