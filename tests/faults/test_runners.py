"""Several runners on one project, with faults: each batch is done once, and no reader sees part of one."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests import s3
from tests.faults.disturbing import Runners, has_faketime, watched
from tests.faults.killing import gateway_of, wait_for_leases
from tests.postgres import server
from tests.stores import fresh_bucket
from tests.tiny import TOML, Tiny, day, described
from waterclock.engine.run_settings import RunSettings
from waterclock.faults import inject_faults
from waterclock.files.object_stores import delta_options, is_remote
from waterclock.storage.lake import Lake
from waterclock.storage.log.delta_log import table_exists

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAYS = 3
ORDERS_A_DAY = 6
NOW = day(DAYS + 1)
FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, customer STRING, amount BIGINT, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at;
COLLECT shop.log (id BIGINT, at TIMESTAMP) FROM shop.orders EVERY DAY BY DATA TIME at APPEND;
TRANSFORM clean.orders PARTITIONED (id KEY, *) POOL few AS SELECT id, customer, amount FROM shop.orders;
TRANSFORM marts.spent (customer KEY, *) MERGE ORDER BY orders
  AS SELECT customer, count(*) AS orders, sum(amount) AS amount FROM clean.orders GROUP BY customer;
TRANSFORM marts.total (customer STRING KEY, amount BIGINT)
  AS SELECT customer, sum(amount) AS amount FROM
     (SELECT customer, amount FROM PREVIOUS(marts.total) UNION ALL SELECT customer, amount FROM clean.orders)
     GROUP BY customer;
PUBLISH clean.orders TO out.orders POOL few;
PUBLISH marts.spent TO out.spent;
"""
TABLES = ("shop.orders", "shop.log", "clean.orders", "marts.spent", "marts.total")
POOLS = "\n[pools]\nfew = 1\n"


@dataclass
class Site:
    """A small project, how to query its destination, and the clock offsets in seconds that its runners may have."""

    tiny: Tiny
    ask: Callable[[str], list[tuple[Any, ...]]]
    skews: tuple[int, ...] = (0,)

    def look(self) -> None:
        """Assert that each label is complete or absent and has no duplicates, in tables and at the destination."""
        by_label = Counter(label for (label,) in self._asked("SELECT timelabel FROM orders"))
        assert set(by_label.values()) <= {ORDERS_A_DAY}, by_label
        ids = [row[0] for row in self._asked("SELECT id FROM orders")]
        assert len(ids) == len(set(ids)), "twice at the destination"
        customers = [row[0] for row in self._asked("SELECT customer FROM spent")]
        assert len(customers) == len(set(customers)), customers
        for name in ("shop.orders", "shop.log", "clean.orders"):
            rows = self._delta(name)
            counts = Counter(row["timelabel"] for row in rows)
            assert set(counts.values()) <= {ORDERS_A_DAY}, (name, counts)
            assert len({row["id"] for row in rows}) == len(rows), f"twice in {name}"

    def _asked(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return self.ask(sql)
        except (sqlite3.OperationalError, LookupError):  # not created yet
            return []

    def _delta(self, name: str) -> list[dict[str, Any]]:
        folder = Lake(_located(self.tiny.root, self.tiny.storage)).folder(name)
        if not table_exists(folder):
            return []
        table = DeltaTable(folder, storage_options=delta_options(folder))
        rows: list[dict[str, Any]] = table.to_pyarrow_table(columns=["id", "timelabel"]).to_pylist()
        return rows

    def standing(self) -> dict[str, Any]:
        """Return the final content that a reader sees."""
        seen: dict[str, Any] = {name: sorted(self.tiny.rows(f"SELECT * FROM {name}"), key=repr) for name in TABLES}
        seen["out.orders"] = sorted(self.ask("SELECT id, customer, amount, timelabel FROM orders"))
        seen["out.spent"] = sorted(self.ask("SELECT customer, orders, amount FROM spent"))
        seen["batches"] = self.tiny.batches()
        return seen

    def claims_that_committed(self) -> Counter[tuple[str, str]]:
        """Count the claims that were recorded as done, by batch."""
        with self.tiny.ledger() as ledger:
            return Counter(
                (row["table"], row["timelabel"]) for row in ledger.past.rows("events") if row["kind"] == "done"
            )


def _located(root: Path, storage: str) -> str:
    return storage if is_remote(storage) else str(root / storage)


def at_files(root: Path, spark: SparkSession) -> Site:
    """Return a site with the ledger in one SQLite file and the destination in another."""
    tiny = Tiny(root, spark, toml=TOML + POOLS)

    def ask(sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(root / "out.sqlite", timeout=30)) as database:
            return list(database.execute(sql))

    return Site(tiny, ask)


def at_bucket(root: Path, spark: SparkSession) -> Site:
    """Return a site with ledger and destination in PostgreSQL and storage in a bucket, which rejects clocks far off."""
    url = fresh_bucket()
    s3.reach(spark, url.rpartition("/")[2])
    said = s3.server().options()
    (root / "secrets").mkdir(parents=True, exist_ok=True)
    (root / "secrets" / "s3").write_text(said["secret_access_key"])
    plain = [f'{name} = "{value}"' for name, value in said.items() if name != "secret_access_key"]
    options = ", ".join([*plain, 'secret_access_key = {{ secret = "s3" }}'])
    site = at_server(root, spark, storage=f"{url}/lake", more=f"storage_options = {{{{ {options} }}}}")
    return replace(site, skews=(0, 600, -600))


def at_server(root: Path, spark: SparkSession, *, storage: str = ".waterclock", more: str = "") -> Site:
    """Return a site with ledger and destination in PostgreSQL."""
    at, schema = server(), server().fresh_schema()
    at.run(f"CREATE SCHEMA {schema}")
    toml = TOML.replace(
        'connections.out = {{ path = "out.sqlite", create = true }}',
        f'ledger = "{at.ledger_url()}"\n{more}\n'
        f'connections.out = {{{{ type = "postgres", url = "{at.url}", schema = "{schema}" }}}}',
    )
    tiny = Tiny(root, spark, storage=storage, toml=toml + POOLS)

    def ask(sql: str) -> list[tuple[Any, ...]]:
        import psycopg

        with closing(at.connect()) as connection:
            connection.execute(f"SET search_path = {schema}")
            try:
                return list(connection.execute(sql))
            except psycopg.errors.UndefinedTable as error:
                raise LookupError(sql) from error

    return Site(tiny, ask, skews=(0, 3600, -3600))


SITES = {"sqlite": at_files, "postgres": at_server, "s3": at_bucket}


def prepare(site: Site) -> None:
    rows = [
        (n, f"c{n % 4}", n + 1, f"2020-01-{1 + n // ORDERS_A_DAY:02d} {8 + n % ORDERS_A_DAY:02d}:00:00")
        for n in range(ORDERS_A_DAY * DAYS)
    ]
    site.tiny.source("orders", "id INTEGER, customer TEXT, amount INTEGER, at TEXT", rows)
    site.tiny.declare(FLOW)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> dict[str, Any]:
    """Return the final content of an undisturbed run."""
    site = at_files(tmp_path_factory.mktemp("undisturbed"), spark)
    prepare(site)
    outcome = site.tiny.run(NOW)
    assert not outcome.failed, described(outcome)
    return site.standing()


def disturbed(
    site: Site, spark: SparkSession, wanted: dict[str, Any], *, runners: int, disturbances: int, seed: int
) -> int:
    """Run the flow by several disturbed runners, and return the number of disturbances."""
    prepare(site)
    drawn = random.Random(seed)
    skews = site.skews if has_faketime() else (0,)
    at = Runners(site.tiny.root, NOW, gateway_of(spark), drawn, skews)
    try:
        with watched(site.look) as wrong:
            for _ in range(runners):
                at.start()
            for _ in range(disturbances):
                time.sleep(drawn.uniform(0.3, 2.5))
                at.disturb()
            at.wait(patience=240)
        assert not wrong, (seed, at.log, wrong)
    finally:
        at.end()
    wait_for_leases(site.tiny)
    outcome = site.tiny.run(NOW)
    assert not outcome.failed, (seed, described(outcome))
    site.look()
    assert site.tiny.open_claims() == 0
    found = site.standing()
    for part, rows in wanted.items():
        assert found[part] == rows, (seed, part, at.log)
    assert set(site.claims_that_committed().values()) == {1}, (seed, at.log)
    return at.disturbed


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ledger", [*list(SITES)[:2], pytest.param("s3", marks=pytest.mark.soak)])
def test_two_runners_that_are_disturbed_do_each_batch_once(
    ledger: str, tmp_path: Path, spark: SparkSession, wanted: dict[str, Any]
) -> None:
    site = SITES[ledger](tmp_path, spark)
    assert disturbed(site, spark, wanted, runners=2, disturbances=3, seed=_seed(ledger)) == 3


def test_a_postgres_outage_during_a_run_loses_and_duplicates_no_rows(
    tmp_path: Path, spark: SparkSession, wanted: dict[str, Any]
) -> None:
    """Ledger and destination are down for some seconds: the run waits for the ledger and retries the destination."""
    site = at_server(tmp_path, spark)
    prepare(site)
    site.tiny.settings = RunSettings(threads=2, attempts=6, retry_wait=0.5, who="a test")
    outages: list[threading.Thread] = []

    def outage() -> None:
        server().stop("immediate")
        time.sleep(3)
        server().start()

    def strike(point: str) -> None:
        if point == "committed" and not outages:
            outages.append(threading.Thread(target=outage))
            outages[0].start()

    try:
        with inject_faults(strike):
            outcome = site.tiny.run(NOW)
    finally:
        outages[0].join()
    assert not outcome.failed, described(outcome)
    assert any("the ledger answers again" in said for said in site.tiny.heard.said_), site.tiny.heard.said_
    found = site.standing()
    for part, rows in wanted.items():
        assert found[part] == rows, part
    assert set(site.claims_that_committed().values()) == {1}
    assert site.tiny.open_claims() == 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(13))
@pytest.mark.parametrize("runners", [2, 8])
@pytest.mark.parametrize("ledger", SITES)
def test_two_and_eight_runners_that_are_disturbed_again_and_again(
    ledger: str, runners: int, seed: int, tmp_path: Path, spark: SparkSession, wanted: dict[str, Any]
) -> None:
    site = SITES[ledger](tmp_path, spark)
    assert disturbed(site, spark, wanted, runners=runners, disturbances=4, seed=seed) > 0


def _seed(ledger: str) -> int:
    """Return a fixed seed on CI, and another one each time on a developer's machine."""
    return len(ledger) if os.environ.get("CI") else int(datetime.now().timestamp()) % 10_000  # noqa: DTZ005
