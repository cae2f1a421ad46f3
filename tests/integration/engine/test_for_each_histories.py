"""Random histories of tables that request an API for each row give the same rows as a join in plain Python."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.apis import Space
from tests.integration.engine.test_for_each import Shop, Stopped, users
from tests.tiny import TOML, Tiny, day, labels
from waterclock.batches.ledger_snapshot import RECOMPUTE
from waterclock.faults import inject_faults
from waterclock.planner.plan import RECOLLECT
from waterclock.timelabel.label import instant_of

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]
FLOW = """
CREATE CONNECTION api TYPE rest;
COLLECT raw.orders PARTITIONED (id BIGINT, user_id BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at;
TRANSFORM mart.people EVERY DAY AS SELECT DISTINCT user_id FROM HISTORY(raw.orders);
COLLECT raw.one PARTITIONED (user_id BIGINT KEY, name STRING) FROM api.one
  OPTIONS (path 'detail/{user_id}', not_found 'skip', in_flight 3) FOR EACH raw.orders;
COLLECT raw.many PARTITIONED (user_id BIGINT, name STRING) FROM api.many
  OPTIONS (path 'details', params.ids '{user_id}', batch 3, match 'id', cache '7 days') FOR EACH raw.orders;
COLLECT raw.known (user_id BIGINT KEY, name STRING) FROM api.known
  OPTIONS (path 'detail/{user_id}', not_found 'skip') FOR EACH raw.orders MERGE;
COLLECT raw.state (user_id BIGINT KEY, name STRING) FROM api.state
  OPTIONS (path 'details', params.ids '{user_id}', batch 2, match 'id') FOR EACH mart.people EVERY DAY;
"""
TABLES = ("raw.orders", "raw.one", "raw.many", "raw.known", "raw.state")
POINTS = ("page.written", "page.kept", "claimed", "sealed", "audited", "before_commit", "committed", "recorded")
KNOWN, ALL, DAYS = range(1, 6), range(1, 9), 4


def settled(shop: Tiny, now: datetime) -> None:
    """Run until no work is left: failed batches are retried, and open claims of a stopped process are closed."""
    for _ in range(12):
        with shop.ledger() as ledger:
            for claim in ledger.claims.open():
                ledger.claims.close_lost(claim, why="its process ended")
            for (table, label), status in shop.batches().items():
                if status == "failed":
                    ledger.decisions.retry(table, [instant_of(label)], who="a test")
        if not shop.run(now).failed and "failed" not in shop.batches().values():
            return
    raise AssertionError("it does not end")


@pytest.mark.parametrize("seed", range(4))
def test_tables_equal_a_join_in_python_after_random_histories(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    chance, space = random.Random(f"each {seed}"), Space()
    space.set(rows=users(*KNOWN))
    toml = TOML + f'connections.api = {{{{ url = "{space.url}", tries = 2, timeout = 20 }}}}\n'
    shop = Shop(tmp_path, spark, toml=toml)
    shop.space = space
    shop.declare(FLOW)
    orders: dict[int, list[int | None]] = {}

    def strike(point: str) -> None:
        if point in POINTS and chance.random() < 0.1:
            raise Stopped(point)

    for _ in range(5):
        done = len(orders)
        for number in {chance.randint(1, min(done + 1, DAYS)), min(done + 1, DAYS)}:
            orders[number] = [chance.choice([None, *ALL]) for _ in range(chance.randrange(6))]
            if number <= done and "raw.orders" in {table for table, _ in shop.batches()}:
                shop.ask_again(RECOLLECT, "raw.orders", number)
        shop.order(*((number, user) for number, of in orders.items() for user in of))
        if done and chance.random() < 0.5:
            shop.ask_again(chance.choice([RECOLLECT, RECOMPUTE]), chance.choice(TABLES[1:]), chance.randint(1, done))
        space.set(faults=[chance.choice([None, 500, 429, "half", "cut"]) for _ in range(chance.randrange(6))])
        now = day(len(orders) + 1)
        with suppress(Stopped), inject_faults(strike):
            shop.run(now)
        settled(shop, now)
        there = {number: {user for user in of if user is not None and user in KNOWN} for number, of in orders.items()}
        expected = [(*labels(number), user, f"u{user}") for number in sorted(there) for user in sorted(there[number])]
        ever = [(user, f"u{user}") for user in sorted(set().union(*there.values()))]
        for table in ("raw.one", "raw.many"):
            assert shop.rows(f"SELECT timelabel, user_id, name FROM {table} ORDER BY ALL") == expected, table
        for table in ("raw.known", "raw.state"):
            assert shop.rows(f"SELECT user_id, name FROM {table} ORDER BY ALL") == ever, table
