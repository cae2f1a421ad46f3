"""The result of FLAT does not depend on the join: for parents of which few rows or all rows are looked up."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import Tiny, day, described
from waterclock.engine.reads import flat_parents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]

FLOW = """
COLLECT raw.lands (land KEY, name, at TIMESTAMP) FROM shop.lands EVERY DAY BY DATA TIME at TEMPORAL AT at;
COLLECT raw.cities (city KEY, land REFERENCES raw.lands, size, at TIMESTAMP, gone BIGINT)
  FROM shop.cities EVERY DAY BY DATA TIME at TEMPORAL AT at DELETE WHEN gone = 1 FILL FORWARD;
COLLECT raw.shops (shop KEY, boss) FROM shop.shops EVERY DAY;
COLLECT raw.kinds (kind KEY, word, at TIMESTAMP) FROM shop.kinds EVERY DAY BY DATA TIME at MERGE ORDER BY at;
COLLECT raw.people (id KEY, city REFERENCES raw.cities, kind REFERENCES raw.kinds, at TIMESTAMP, gone BIGINT)
  FROM shop.people EVERY DAY BY DATA TIME at TEMPORAL AT at DELETE WHEN gone = 1;
COLLECT raw.sales PARTITIONED (sale KEY, shop REFERENCES raw.shops, buyer REFERENCES raw.people ROLE buyer AT sold_at,
  sold_at TIMESTAMP) FROM shop.sales EVERY DAY BY DATA TIME sold_at;
TRANSFORM flat.sales PARTITIONED AS SELECT f.*, upper(boss) AS loud FROM FLAT(raw.sales) AS f WHERE sale <> 's0';
TRANSFORM flat.people AS SELECT * FROM FLAT(raw.people);
TRANSFORM flat.split AS SELECT * FROM FLAT(raw.people, 'exact');
"""
FLATS = ("flat.sales", "flat.people", "flat.split")
SOURCES = {
    "lands": "land TEXT, name TEXT, at TEXT",
    "cities": "city TEXT, land TEXT, size TEXT, at TEXT, gone INTEGER",
    "shops": "shop TEXT, boss TEXT",
    "kinds": "kind TEXT, word TEXT, at TEXT",
    "people": "id TEXT, city TEXT, kind TEXT, at TEXT, gone INTEGER",
    "sales": "sale TEXT, shop TEXT, buyer TEXT, sold_at TEXT",
}


class History:
    """Sources that change at random, and the tables made from them."""

    def __init__(self, tiny: Tiny, seed: int) -> None:
        self.tiny = tiny
        self.random = random.Random(seed)
        for name, columns in SOURCES.items():
            tiny.source(name, columns)
        tiny.declare(FLOW)

    def pick(self, letter: str, most: int) -> str | None:
        return None if self.random.random() < 0.1 else f"{letter}{self.random.randint(1, most)}"

    def at(self, number: int) -> str:
        return f"2020-01-{number:02d} {self.random.randint(0, 23):02d}:{self.random.randint(0, 59):02d}:00"

    def row(self, source: str, number: int) -> tuple[Any, ...]:
        """Return a random row of a source for a day."""
        pick, gone = self.pick, int(self.random.random() < 0.1)
        if source == "lands":
            return f"l{self.random.randint(1, 3)}", pick("n", 9), self.at(number)
        if source == "cities":
            return f"c{self.random.randint(1, 5)}", pick("l", 3), pick("z", 3), self.at(number), gone
        if source == "kinds":
            return f"k{self.random.randint(1, 3)}", pick("w", 9), self.at(number)
        if source == "people":
            return f"p{self.random.randint(1, 9)}", pick("c", 6), pick("k", 4), self.at(number), gone
        return f"s{self.random.randint(0, 999)}", pick("h", 3), pick("p", 9), self.at(number)

    def tell(self, source: str, number: int) -> None:
        values = ", ".join("NULL" if value is None else repr(value) for value in self.row(source, number))
        self.tiny.shop(f"INSERT INTO {source} VALUES ({values})")

    def go_on(self, number: int) -> None:
        """Add the rows of a day, and run."""
        for source in ("lands", "cities", "kinds", "people", "sales"):
            for _ in range(self.random.randint(0, 2) if source != "sales" else 6):
                self.tell(source, number)
        if self.random.random() < 0.3 or number == 1:
            self.tiny.shop("DELETE FROM shops")
            for shop in (1, 2, 3):
                self.tiny.shop(f"INSERT INTO shops VALUES ('h{shop}', 'boss{self.random.randint(1, 3)}')")
        self.run(number)

    def correct(self, *sources: str) -> None:
        """Change rows of the first day in some sources, and recollect it."""
        for source in sources:
            self.tiny.shop(f"DELETE FROM {source} WHERE at LIKE '2020-01-01%' AND rowid % 2 = 0")
            self.tell(source, 1)
            with self.tiny.ledger() as ledger:
                ledger.decisions.request_restate(f"raw.{source}", [day(1)], "recollect", who="a test")

    def run(self, number: int) -> None:
        outcome = self.tiny.run(day(number + 1))
        assert not outcome.failed, described(outcome)


def answers(tiny: Tiny) -> dict[str, list[Any]]:
    return {name: sorted(tiny.rows(f"SELECT * FROM {name}"), key=repr) for name in FLATS}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_flat_read_with_key_lookups_equals_one_over_whole_parents(
    seed: int, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat_parents, "LEAST_BYTES", 0)
    history = History(Tiny(tmp_path / "lived", spark), seed)
    history.go_on(1)
    history.go_on(2)
    history.correct("cities", "people", "kinds")
    history.run(2)
    found = answers(history.tiny)

    monkeypatch.setattr(flat_parents, "LEAST_BYTES", 2**62)
    with history.tiny.ledger() as ledger:
        for name in FLATS:
            labels = [piece.label for piece in ledger.reads.slices(name, day(1), day(30))]
            ledger.decisions.request_restate(name, labels, "recompute", who="a test")
    outcome = history.tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert answers(history.tiny) == found
