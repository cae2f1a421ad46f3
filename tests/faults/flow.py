"""A flow with every kind of batch, and its complete content after some days."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from tests.tiny import Tiny, evening

FLOW = """
COLLECT shop.orders PARTITIONED (id BIGINT KEY, customer STRING, amount BIGINT, at TIMESTAMP)
  FROM shop.orders EVERY DAY BY DATA TIME at;
COLLECT web.clicks PARTITIONED (id KEY, customer) FROM land.acme.clicks EVERY DAY BY ARRIVAL TIME
  EXPECT customer != 'c2' OR id = '22' AS known ELSE QUARANTINE, id != '41' ELSE DROP;
COLLECT shop.lands (customer KEY, land) FROM shop.lands EVERY DAY;
COLLECT shop.customers (customer KEY, name, gone BIGINT, at TIMESTAMP) FROM shop.customers
  EVERY DAY BY DATA TIME at MERGE ORDER BY at DELETE WHEN gone = 1;
TRANSFORM clean.orders PARTITIONED (id KEY, *) EXPECT amount > 0 AS paid ELSE WARN
  AS SELECT o.id, o.customer, l.land, o.amount FROM shop.orders o LEFT JOIN shop.lands l ON l.customer = o.customer;
TRANSFORM marts.spent (customer KEY, *) MERGE ORDER BY orders
  AS SELECT customer, count(*) AS orders, sum(amount) AS amount FROM clean.orders GROUP BY customer;
TRANSFORM marts.total (customer STRING KEY, amount BIGINT)
  AS SELECT customer, sum(amount) AS amount FROM
     (SELECT customer, amount FROM PREVIOUS(marts.total) UNION ALL SELECT customer, amount FROM clean.orders)
     GROUP BY customer;
TRANSFORM marts.lands AS SELECT land, count(*) AS orders FROM HISTORY(clean.orders) GROUP BY land;
PUBLISH marts.lands TO out.lands;
PUBLISH clean.orders TO out.orders;
PUBLISH marts.spent TO out.spent;
PUBLISH clean.orders (id, land) TO files.orders OPTIONS (format 'csv');
"""
TABLES = ("shop.orders", "web.clicks", "shop.lands", "shop.customers", "clean.orders", "marts.spent", "marts.total",
          "marts.lands")  # fmt: skip
DELIVERED = ("lands", "orders", "spent")
DAYS = 5


def prepare(tiny: Tiny) -> None:
    """Fill the sources: five days, one with a customer who leaves, and a file that arrives on each day."""
    rows = [(n, f"c{n % 4}", n + 1, f"2020-01-{1 + n // 4:02d} {8 + n % 4:02d}:00:00") for n in range(4 * DAYS)]
    tiny.source("orders", "id INTEGER, customer TEXT, amount INTEGER, at TEXT", rows)
    tiny.source("lands", "customer TEXT, land TEXT", [(f"c{n}", "de" if n % 2 else "fr") for n in range(4)])
    tiny.source(
        "customers",
        "customer TEXT, name TEXT, gone INTEGER, at TEXT",
        [(f"c{n}", f"name {n}", 0, "2020-01-01 09:00:00") for n in range(4)]
        + [("c1", "name 1", 1, "2020-01-02 09:00:00"), ("c2", "other", 0, "2020-01-03 09:00:00")],
    )
    for number in range(1, DAYS + 1):
        tiny.land("clicks", evening(number), f"id,customer\n{number}1,c1\n{number}2,c2\n")
    tiny.declare(FLOW)


def standing(tiny: Tiny, tables: Sequence[str] = TABLES, delivered: Sequence[str] = DELIVERED) -> dict[str, Any]:
    """Return the content that readers see: tables, destinations, done batches, and open claims."""
    seen: dict[str, Any] = {table: sorted(tiny.rows(f"SELECT * FROM {table}"), key=repr) for table in tables}
    if "web.clicks" in tables:
        aside = tiny.rows("SELECT timelabel, row, broken FROM web.clicks_quarantine")
        seen["aside"] = sorted((label, row, list(broken)) for label, row, broken in aside)
    with closing(sqlite3.connect(tiny.root / "out.sqlite")) as database:
        for table in delivered:
            seen[f"out.{table}"] = sorted(database.execute(f"SELECT * FROM {table}"), key=repr)
    seen["files"] = {
        path.name: path.read_text() for path in sorted((tiny.root / "files").rglob("*.csv")) if path.is_file()
    }
    seen["archive"] = sorted(path.name for path in (tiny.root / ".waterclock" / "archive").rglob("*.csv.gz"))
    seen["batches"] = tiny.batches()
    seen["digests"] = dict(tiny.digests())
    seen["open claims"] = tiny.open_claims()
    return seen
