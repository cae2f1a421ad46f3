"""HIDDEN columns on Spark: stored with each row, readable by name, in no * of queries, Python code and publishes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tiny import Tiny, day, described, evening
from waterclock.engine.query.notebook import resolve
from waterclock.engine.query.query import preview, query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = """
COLLECT shop.orders PARTITIONED ({columns})
  FROM land.acme.orders EVERY DAY START '2020-01-01' BY ARRIVAL TIME;
"""
COLUMNS = (
    "id BIGINT, amount INT ELSE QUARANTINE, file AS (_source.file) HIDDEN EXPECT (file LIKE '%.gz'), "
    "n AS (_source.row) HIDDEN, *"
)
READERS = """
TRANSFORM shop.seen PARTITIONED AS SELECT * FROM shop.orders;
TRANSFORM shop.traced PARTITIONED (n HIDDEN, *) AS SELECT o.file, o.n, o.*, m.most
  FROM shop.orders o CROSS JOIN (SELECT max(amount) AS most FROM shop.orders) m;
TRANSFORM shop.few PARTITIONED AS SELECT id FROM shop.orders;
TRANSFORM shop.past PARTITIONED AS SELECT * FROM PAST(shop.orders, '2 days');
TRANSFORM shop.state (id BIGINT KEY, amount INT, file STRING HIDDEN) MERGE
  EXPECT count(DISTINCT *) = count(*) AS once OVER TABLE, count(DISTINCT file) < 4 AS told OVER TABLE
AS SELECT id, amount, file FROM shop.orders;
TRANSFORM shop.versions (id BIGINT KEY, amount INT, file STRING HIDDEN) TEMPORAL
AS SELECT id, amount, file FROM shop.orders;
TRANSFORM shop.tracked (id BIGINT KEY, amount INT, file STRING HIDDEN) TEMPORAL TRACK (amount, file)
AS SELECT id, amount, file FROM shop.orders;
TRANSFORM shop.of_state AS SELECT * FROM shop.state;
PUBLISH shop.state TO out.state;
PUBLISH shop.orders TO out.orders;
PUBLISH shop.orders (file, *) TO out.files;
PUBLISH shop.orders (id, n) TO out.places;
"""
PYTHON = """
import waterclock as wc

@wc.transform("shop.code", partitioned=True)
def code(orders=wc.table("shop.orders")):
    return orders

@wc.transform("shop.asked", partitioned=True)
def asked(orders=wc.table("shop.orders", hidden=True)):
    return orders
"""


def first(number: int) -> str:
    return f"acme_orders_2020_01_0{number}_23_59_59.csv.gz"


def columns_of(tiny: Tiny, sql: str) -> list[str]:
    with tiny.opened() as work:
        return [name for name, _ in query(work, sql, limit=10).columns]


def test_a_hidden_column_is_stored_and_returned_only_if_named(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    for number in (1, 2, 3):
        tiny.land("orders", evening(number), f"id,amount,extra\n1,10,a\n{number + 1},{number},b\n9,x,c\n")
    (tmp_path / "flows" / "code.py").write_text(PYTHON)
    tiny.declare(ORDERS.format(columns=COLUMNS) + READERS)
    outcome = tiny.run(day(4))
    assert not outcome.failed, described(outcome)

    whole = ["timelabel", "id", "amount", "extra"]
    assert sorted(columns_of(tiny, "SELECT * FROM shop.orders")) == sorted(whole)
    assert tiny.rows("SELECT id, n, file FROM shop.orders WHERE n = 3 ORDER BY id") == [
        (number + 1, 3, first(number)) for number in (1, 2, 3)
    ]
    assert columns_of(tiny, "SELECT file, * FROM shop.orders")[0] == "file"
    assert len(columns_of(tiny, "SELECT file, * FROM shop.orders")) == len(whole) + 1
    for name in ("seen", "past", "code"):
        assert sorted(columns_of(tiny, f"SELECT * FROM shop.{name}")) == sorted(whole), name
    assert sorted(columns_of(tiny, "SELECT * FROM shop.asked")) == sorted([*whole, "file", "n"])
    assert sorted(columns_of(tiny, "SELECT * FROM shop.traced")) == sorted([*whole, "file", "most"])
    assert tiny.rows("SELECT file, n FROM shop.traced WHERE id = 3") == [(first(2), 3)]
    assert columns_of(tiny, "SELECT * EXCEPT (timelabel) FROM shop.of_state") == ["id", "amount"]
    assert tiny.rows("SELECT file FROM shop.state WHERE id = 1") == [(first(3),)]
    # the file that delivered a row changes each day, while its visible columns do not
    assert tiny.rows("SELECT count(*) FROM shop.versions WHERE id = 1") == [(1,)]
    assert tiny.rows("SELECT count(*) FROM shop.tracked WHERE id = 1") == [(3,)]
    assert "file" not in columns_of(tiny, "SELECT * FROM shop.versions")
    assert tiny.rows("SELECT file FROM shop.versions WHERE id = 2") == [(first(1),)]
    with tiny.opened() as work:
        assert "file" not in [name for name, _ in preview(work, "shop.orders", limit=3).columns]

    assert sorted(_columns(tiny, "orders")) == ["amount", "extra", "id"]
    assert sorted(_columns(tiny, "files")) == ["amount", "extra", "file", "id"]
    assert _columns(tiny, "state") == ["id", "amount"]
    assert tiny.delivered("SELECT id, amount FROM state WHERE id = 3") == [(3, 2)]
    assert tiny.delivered("SELECT id, n FROM places WHERE id = 4") == [(4, 3)]
    [(label, row)] = tiny.rows("SELECT timelabel, row FROM shop.orders_quarantine ORDER BY timelabel LIMIT 1")
    assert (label, '"9"' in row or ":9" in row) == ("20200101000000", True)


def test_hiding_a_column_changes_only_readers_of_all_columns(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.land("orders", evening(1), "id,amount,extra\n1,10,a\n")
    shown = COLUMNS.replace(" HIDDEN", "")
    tiny.declare(
        ORDERS.format(columns="id BIGINT, amount INT, *")
        + "TRANSFORM shop.seen PARTITIONED AS SELECT * FROM shop.orders;"
    )
    assert not tiny.run(day(2)).failed
    tiny.declare(ORDERS.format(columns=shown) + READERS)
    codes = {name: table.fingerprint for name, table in tiny.load().flow.tables.items()}
    tiny.declare(ORDERS.format(columns=COLUMNS) + READERS)
    flow = tiny.load().flow
    changed = {name for name, table in flow.tables.items() if table.fingerprint != codes[name]}
    assert changed == {"shop.seen", "shop.traced", "shop.past", "out.orders", "out.files"}

    # the rows of the first day were collected before the column existed
    assert tiny.rows("SELECT id, extra, file, n FROM shop.orders") == [(1, "a", None, None)]
    assert sorted(columns_of(tiny, "SELECT * FROM shop.orders")) == ["amount", "extra", "id", "timelabel"]
    tiny.land("orders", evening(2), "id,amount,extra\n2,20,b\n")
    outcome = tiny.run(day(3))
    assert not outcome.failed, described(outcome)
    assert tiny.rows("SELECT id, file FROM shop.orders ORDER BY id") == [(1, None), (2, first(2))]
    assert sorted(columns_of(tiny, "SELECT * FROM shop.past")) == ["amount", "extra", "id", "timelabel"]


MODEL = """
COLLECT shop.cities (id BIGINT KEY, name STRING, file STRING HIDDEN, land BIGINT REFERENCES shop.lands)
  FROM shop.cities EVERY DAY;
COLLECT shop.lands (id BIGINT KEY, called STRING, file STRING HIDDEN) FROM shop.lands EVERY DAY;
COLLECT shop.people (id BIGINT KEY, city BIGINT REFERENCES shop.cities, file STRING HIDDEN, more STRING HIDDEN)
  FROM shop.people EVERY DAY;
TRANSFORM shop.flat AS SELECT * FROM FLAT(shop.people);
TRANSFORM shop.told AS SELECT file, * FROM FLAT(shop.people) p;
TRANSFORM shop.before EVERY DAY
AS SELECT * FROM PREVIOUS(shop.people) UNION ALL BY NAME SELECT file, * FROM shop.people;
"""
FLATS = """
import waterclock as wc

@wc.transform("shop.code")
def code(people=wc.flat("shop.people")):
    return people

@wc.transform("shop.asked")
def asked(people=wc.flat("shop.people", hidden=True)):
    return people
"""


def test_flat_brings_no_hidden_column_of_a_parent(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = Tiny(tmp_path, spark)
    tiny.source("lands", "id INTEGER, called TEXT, file TEXT", [(1, "DE", "l.csv")])
    tiny.source("cities", "id INTEGER, name TEXT, file TEXT, land INTEGER", [(1, "Ulm", "c.csv", 1)])
    tiny.source("people", "id INTEGER, city INTEGER, file TEXT, more TEXT", [(7, 1, "p.csv", "m")])
    (tmp_path / "flows" / "code.py").write_text(FLATS)
    tiny.declare(MODEL)
    outcome = tiny.run(day(2))
    assert not outcome.failed, described(outcome)
    whole = {"timelabel", "id", "city", "name", "land", "called"}
    assert set(columns_of(tiny, "SELECT * FROM shop.flat")) == whole
    assert set(columns_of(tiny, "SELECT * FROM shop.code")) == whole
    assert set(columns_of(tiny, "SELECT * FROM shop.asked")) == whole | {"file", "more"}
    assert tiny.rows("SELECT id, file, name, called FROM shop.told") == [(7, "p.csv", "Ulm", "DE")]
    assert tiny.rows("SELECT id, city, file FROM shop.before") == [(7, 1, "p.csv")], (
        "there are no rows before the first tick"
    )
    assert not tiny.run(day(3)).failed
    assert tiny.rows("SELECT id, city, file FROM shop.before ORDER BY file") == [(7, 1, None), (7, 1, "p.csv")]

    monkeypatch.chdir(tmp_path)
    assert [set(resolve("shop.people", hidden=asked).columns) for asked in (False, True)] == [
        {"timelabel", "id", "city"},
        {"timelabel", "id", "city", "file", "more"},
    ]


def _columns(tiny: Tiny, table: str) -> list[str]:
    ours = ("_waterclock_label", "timelabel")
    found = tiny.delivered(f"SELECT name FROM pragma_table_info('{table}')")
    return [name for (name,) in found if name not in ours]
