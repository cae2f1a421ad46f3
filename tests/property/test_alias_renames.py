"""Random queries whose aliases are renamed: proven equal only if SQLite returns the same columns and rows.

Each query is generated twice from one structure with other names. Then single names are replaced at random, which may
bind a column to another source, or to none: the oracle runs both queries.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from waterclock.operations.equal_code import differs_only_in_aliases

POOL, SEEDS, MUTATIONS = ("x", "y", "z", "s", "t"), 150, 12
Result = tuple[tuple[str, ...], list[tuple[Any, ...]]] | None


@dataclass
class Writer:
    """Writes a random query: `shape` decides its structure, `names` its aliases and the names of its CTEs."""

    shape: random.Random
    names: random.Random
    ctes: list[str] = field(default_factory=list)

    def write(self) -> str:
        """Return a query with the columns id and v."""
        heads = []
        for _ in range(self.shape.choice((0, 0, 1, 2))):
            body = self._select(1)
            name = self.names.choice([each for each in ("w", "u", "q", "r") if each not in self.ctes])
            heads.append(f"{name} AS ({body})")
            self.ctes.append(name)
        select = self._select(0)
        return f"WITH {', '.join(heads)} {select}" if heads else select

    def _select(self, depth: int, outer: str | None = None) -> str:
        count = self.shape.choice((1, 2, 2))
        aliases = self.names.sample([each for each in POOL if each != outer], count)
        sources = [f"{self._source(depth)} {alias}" for alias in aliases]
        first, last = aliases[0], aliases[-1]
        text = f"SELECT {first}.id AS id, {last}.v + {first}.v AS v FROM {sources[0]}"
        if count == 2:
            text += f" JOIN {sources[1]} ON {first}.id = {last}.id"
        if depth < 2 and self.shape.random() < 0.4:
            inner = self.names.choice([each for each in POOL if each != last])
            text += f" WHERE EXISTS (SELECT 1 AS o FROM raw.b {inner} WHERE {inner}.id = {last}.id)"
        return text

    def _source(self, depth: int) -> str:
        kind = self.shape.randrange(4)
        if kind == 0 and depth < 2:
            return f"({self._select(depth + 1)})"
        if kind == 1 and self.ctes:
            return self.ctes[self.shape.randrange(len(self.ctes))]
        return self.shape.choice(("raw.a", "raw.b"))


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as made:
        made.execute("ATTACH ':memory:' AS raw")
        for name, rows in (("a", [(1, 2), (2, 3), (3, 5)]), ("b", [(1, 7), (3, 11), (4, 13)])):
            made.execute(f"CREATE TABLE raw.{name} (id INTEGER, v INTEGER)")
            made.executemany(f"INSERT INTO raw.{name} VALUES (?, ?)", rows)
        yield made


def result_of(made: sqlite3.Connection, query: str) -> Result:
    """Return the columns and the rows of a query; None if it is invalid."""
    try:
        found = made.execute(query)
    except sqlite3.OperationalError:
        return None
    return tuple(each[0] for each in found.description), sorted(found.fetchall())


def are_equal(before: str, after: str) -> bool:
    old, new = (f"TRANSFORM m.t PARTITIONED AS {each}" for each in (before, after))
    return differs_only_in_aliases(old, new, {})


def mutated(query: str, at: random.Random) -> str:
    """Replace one name by another one, wherever it is an alias, a qualifier or a CTE."""
    names = list(re.finditer(r"(?<![\w.])[xyzstwuqr](?!\w)", query))
    chosen = at.choice(names)
    return f"{query[: chosen.start()]}{at.choice((*POOL, 'w', 'u'))}{query[chosen.end() :]}"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_renamed_aliases_are_equal_and_no_other_query_is(seed: int) -> None:
    before, after = (Writer(random.Random(seed), random.Random(f"{seed} {side}")).write() for side in "ab")
    at = random.Random(-seed - 1)
    with database() as made:
        expected = result_of(made, before)
        assert expected is not None, before
        assert result_of(made, after) == expected
        assert are_equal(before, after), f"{before}\n{after}"
        for _ in range(MUTATIONS):
            other = mutated(mutated(after, at), at)
            if are_equal(before, other):
                assert result_of(made, other) == expected, f"{before}\n{other}"


@pytest.mark.parametrize("seed", range(40))
def test_queries_that_differ_in_visible_columns_or_rows_are_never_equal(seed: int) -> None:
    before = Writer(random.Random(seed), random.Random(seed)).write()
    head, between, tail = before.rpartition(" AS id")
    visible = [
        before.replace(" AS id", " AS key"),
        before.replace(" AS v", " AS w"),
        f"{head} AS ident{tail}" if between else "",
        before.replace("raw.a", "raw.c") if "raw.a" in before else "",
        before.replace(".v +", ".v -"),
        f"{before} LIMIT 1",
    ]
    for other in filter(None, visible):
        assert not are_equal(before, other), f"{before}\n{other}"
