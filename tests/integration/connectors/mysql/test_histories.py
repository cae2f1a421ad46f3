"""Random histories of a MariaDB that is collected and published back equal its own tables."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import mariadb
from tests.integration.engine.test_for_each import Stopped
from tests.integration.engine.test_for_each_histories import POINTS, settled
from tests.tiny import TOML, Tiny, day
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak]
FLOW = """
CREATE CONNECTION web TYPE mysql;
COLLECT crm.customers (id STRING KEY, name STRING, updated_at TIMESTAMP NOT NULL, deleted_at TIMESTAMP)
  FROM web.customers OPTIONS (partitions 3) EVERY DAY BY DATA TIME updated_at
  MERGE ORDER BY updated_at DELETE WHEN deleted_at IS NOT NULL;
COLLECT crm.whole (id STRING KEY, name STRING) FROM web.customers EVERY DAY;
COLLECT crm.log PARTITIONED (number BIGINT, name STRING, at TIMESTAMP) FROM web.log EVERY DAY BY DATA TIME at;
PUBLISH crm.customers (id, name) TO web.merged MERGE;
PUBLISH crm.whole TO web.replaced;
PUBLISH crm.whole TO web.viewed OPTIONS (behind 'view');
PUBLISH crm.log TO web.logged;
"""
KEYS = ["a", "A", "a ", "\u00e4", "\U0001f600", "%s", "'", "`", "\\", "a\u0308", "\n", "x" * 200]
COLLATED = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"


class Web:
    """A database with customers that are marked as deleted, and a log."""

    def __init__(self, server: mariadb.Server) -> None:
        self.server, self.name = server, server.fresh_database()
        self.run(
            f"CREATE TABLE customers (id varchar(255) {COLLATED} PRIMARY KEY, name text {COLLATED},"
            " updated_at timestamp(6) NOT NULL DEFAULT 0, deleted_at timestamp(6) NULL)"
        )
        self.run(f"CREATE TABLE log (number int PRIMARY KEY, name text {COLLATED}, at datetime(6) NOT NULL)")

    def run(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        return sorted(self.server.run(sql, *values, database=self.name))


@pytest.mark.parametrize("seed", range(4))
def test_published_tables_equal_the_source_after_random_histories(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    chance, web = random.Random(f"mariadb {seed}"), Web(mariadb.server())
    url = web.server.url(web.name)
    tiny = Tiny(tmp_path, spark, toml=TOML + f'connections.web = {{{{ url = "{url}", timeout = 5 }}}}\n')
    tiny.declare(FLOW)
    number = 0

    def strike(point: str) -> None:
        if point in {*POINTS, "deliver.rows", "deliver.done"} and chance.random() < 0.08:
            raise Stopped(point)

    for of_day in range(1, 6):
        for second in sorted(chance.sample(range(86_400), 12)):
            at = f"{day(of_day):%Y-%m-%d} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.5"
            key, name = chance.choice(KEYS), chance.choice([None, "", "n", "\U0001f600" * 30, "\\N"])
            gone = at if chance.random() < 0.3 else None
            web.run("REPLACE INTO customers VALUES (%s, %s, %s, %s)", key, name, at, gone)
            number += 1
            web.run("INSERT INTO log VALUES (%s, %s, %s)", number, name, at)
        with suppress(Stopped), inject_faults(strike):
            tiny.run(day(of_day + 1))
        settled(tiny, day(of_day + 1))
        there = "SELECT HEX(id), HEX(name) FROM"
        assert web.run(f"{there} merged") == web.run(f"{there} customers WHERE deleted_at IS NULL")
        for unit in ("replaced", "viewed"):
            assert web.run(f"{there} {unit}") == web.run(f"{there} customers")
        told = "SELECT number, HEX(name), at, DATE_FORMAT(at, '%Y%m%d000000') FROM log"
        assert web.run("SELECT number, HEX(name), at, timelabel FROM logged") == web.run(told)
