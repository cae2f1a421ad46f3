"""Random flows with random erasures, killed at random steps, end as if the persons had never existed.

The oracle is a second project. Its source never had the persons' rows, and it is run and restated in the same order.
After each step, the rows of all other persons are compared: an erasure must not lose one of them, not even for a while.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.engine.erasing.test_erasing import (
    POINTS,
    content,
    erased,
    found,
    killed,
    maintain,
    places_with,
    run,
)
from tests.keys import DECLARED, VARIABLES
from tests.tiny import Tiny, day
from waterclock.engine.erasing.request import build_request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PERSONS = (4242420042, 4242420043, 4242420044, 7)
RAW = (
    "PARTITIONED (id BIGINT, {buyer}, at TIMESTAMP, amount BIGINT) {source} LOOKBACK 2 DAYS {rule}",
    "(id BIGINT, {buyer}, at TIMESTAMP, amount BIGINT) {source} LOOKBACK 2 DAYS APPEND {rule}",
    "(id BIGINT KEY, {buyer}, at TIMESTAMP, amount BIGINT) {source} LOOKBACK 2 DAYS MERGE ORDER BY at {rule}",
)
BELOW = (
    """(id BIGINT KEY, client BIGINT, amount BIGINT, at TIMESTAMP) MERGE ORDER BY at
    AS SELECT id % 3 AS id, buyer AS client, amount, at FROM raw.orders""",
    """(client BIGINT KEY, amount BIGINT, at TIMESTAMP) TEMPORAL AT at
    AS SELECT buyer AS client, amount, at FROM raw.orders""",
    "AS SELECT buyer AS client, id FROM raw.orders",
    "PARTITIONED AS SELECT buyer AS client, count(*) AS n FROM raw.orders GROUP BY buyer",
)


class History:
    """The project with the persons, and the one without them."""

    def __init__(self, root: Path, spark: SparkSession, drawn: random.Random) -> None:
        self.drawn = drawn
        self.gone = set(drawn.sample(PERSONS[:3], drawn.choice([1, 2])))
        self.tables = ["raw.orders"]
        flow = DECLARED + "COLLECT raw.orders " + drawn.choice(RAW).format(
            buyer="buyer BIGINT SUBJECT customer",
            source="FROM shop.orders EVERY DAY BY DATA TIME at",
            rule=drawn.choice(["", "EXPECT amount >= 0 AS positive ELSE QUARANTINE"]),
        )  # fmt: skip
        for number, text in enumerate(drawn.sample(BELOW, 2)):
            flow += f";\nTRANSFORM marts.t{number} {text}"
            self.tables.append(f"marts.t{number}")
        self.flow = flow + ";"
        self.both = [Tiny(root / name, spark) for name in ("a", "b")]
        for tiny in self.both:
            tiny.declare(self.flow)
            tiny.source("orders", "id INT, buyer INT, at TEXT, amount INT")
        self.tiny, self.clean = self.both
        self.numbers, self.seen = itertools.count(1), set[Any]()

    def order(self, of_day: int) -> None:
        """Add rows of a day, and late rows of earlier days."""
        for _ in range(self.drawn.randrange(2, 6)):
            number, who = next(self.numbers), self.drawn.choice(PERSONS)
            at = f"2020-01-{self.drawn.randrange(max(1, of_day - 1), of_day + 1):02d} 10:00:{number:02d}"
            amount = self.drawn.choice([-1, 5, 10])
            for tiny in self.both:
                if tiny is self.tiny or who not in self.gone:
                    tiny.shop(f"INSERT INTO orders VALUES ({number}, {who}, '{at}', {amount})")

    def run(self, of_day: int) -> None:
        for tiny in self.both:
            run(tiny, of_day + 1)
        self.compare()

    def restate(self, of_day: int) -> None:
        name, label = self.drawn.choice(self.tables), day(self.drawn.randrange(1, of_day + 1))
        for tiny in self.both:
            with tiny.ledger() as ledger:
                if label in {cell.label for cell in ledger.past.grid([name]) if cell.current_claim is not None}:
                    verb = "recollect" if name.startswith("raw") else "recompute"
                    ledger.decisions.request_restate(name, [label], verb, who="ann")

    def erase(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Erase a person, or continue; usually until the process is killed at some step."""
        who, point = self.drawn.choice(sorted(self.gone)), self.drawn.choice([*POINTS, ""])
        with killed(point, monkeypatch, self.drawn.randrange(1, 4)):
            erased(self.tiny, who, continues=self._is_unfinished(who))

    def compare(self) -> None:
        """Assert that no row of the others was lost. New ones may be missing: a killed erasure pauses a table."""
        rows = "SELECT id, buyer, amount FROM raw.orders"
        mine, all_ = ({row for row in tiny.rows(rows) if row[1] not in self.gone} for tiny in self.both)
        assert self.seen <= mine <= all_, self.flow
        self.seen = mine

    def finish(self) -> None:
        for who in sorted(self.gone):
            erased(self.tiny, who, continues=self._is_unfinished(who))
        for tiny in self.both:
            run(tiny, 4)
            maintain(tiny, 4)
        assert content(self.tiny, self.tables) == content(self.clean, self.tables), self.flow
        for who in self.gone:
            assert found(self.tiny, who) == []
            assert list(places_with(self.tiny, who)) == []

    def _is_unfinished(self, who: int) -> bool:
        with self.tiny.opened() as work:
            request = build_request(work, "customer", [str(who)])
            return any(
                each.finished_at is None and each.hashes == request.hashes for each in work.ledger.erasures.list()
            )


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(20))
def test_random_histories_end_as_if_the_persons_had_never_been(
    seed: int, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    drawn = random.Random(seed)
    history = History(tmp_path, spark, drawn)
    for of_day in (1, 2, 3):
        history.order(of_day)
        history.run(of_day)
        if drawn.random() < 0.6:
            history.erase(monkeypatch)
            history.compare()
        if drawn.random() < 0.5:
            history.restate(of_day)
            history.run(of_day)
        if drawn.random() < 0.5:
            maintain(history.tiny, of_day + 1)
            history.compare()
    history.finish()
