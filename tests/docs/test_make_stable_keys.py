"""The page on stable keys: its commands print the output shown, and other systems compute the same keys by its code."""

from __future__ import annotations

import hashlib
import random
import re
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.docs.console import ROOT, commands_of, failures, session
from tests.postgres import server
from tests.row_keys import encoded, key_of

PAGE = (ROOT / "docs" / "howto" / "make-stable-keys.md").read_text(encoding="utf-8")
TOML = """[project]
name = "web"
[env.dev]
publish = true
connections.landing = { path = "data/new" }
connections.shop = { path = "shop.db", create = true }
"""
FILES = {
    "2026_11_16": "7,2026-11-16T09:00:00Z,/cart,10.5\n7,2026-11-16T09:30:00Z,/cart,3\n",
    "2026_11_17": "7,2026-11-16T09:00:00Z,/cart,12.5\n",
}
AT = datetime(2026, 11, 16, 9, 0, 0, 250_000, UTC)
EVENTS = [(7, AT, "/cart"), (-70, AT.replace(year=1914), ""), (2**62, AT.replace(microsecond=1), "é漢\U0001f600'")]
CREATE = "CREATE TABLE events (user_id BIGINT, received_at TIMESTAMPTZ, page TEXT)"


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_python_of_the_page_is_the_one_that_spark_is_compared_with() -> None:
    names: dict[str, Any] = {}
    exec(block("py"), names)
    drawn = random.Random(3)
    numbers = [drawn.choice([drawn.randrange(-(10**12), 10**12), 0, 10**6]) for _ in range(100)]
    values: list[Any] = [None, "", "é", True, date(2026, 1, 2), AT, AT.replace(tzinfo=None), b"\x00\xff", *numbers]
    values += [Decimal(number).scaleb(-drawn.randrange(6)) for number in numbers]
    for value in values:
        assert names["part"](value) == encoded(value)
        assert names["key_of"](value, 7) == key_of(value, 7)


def test_the_examples_of_the_table_are_encoded_so() -> None:
    day = datetime(2026, 11, 16, 9, tzinfo=UTC)
    values = ["ab", 7, Decimal("1.50"), True, day.date(), day, day.replace(tzinfo=None), b"\x00\xff"]
    rows = PAGE.partition("| Type | Letter |")[2].partition("\n\n")[0]
    assert re.findall(r"`(\w+:\S+)`", rows) == [encoded(value) for value in values]


def test_duckdb_computes_the_same_keys() -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute(CREATE)
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", EVENTS)
        assert connection.execute(block("duckdb")).fetchall() == [(key_of(*event),) for event in EVENTS]


def test_postgresql_computes_the_same_keys() -> None:
    with closing(server().connect()) as connection, connection.cursor() as cursor:
        cursor.execute(CREATE.replace("CREATE TABLE", "CREATE TEMPORARY TABLE"))
        cursor.executemany("INSERT INTO events VALUES (%s, %s, %s)", EVENTS)
        assert cursor.execute(block("postgres")).fetchall() == [(key_of(*event),) for event in EVENTS]


def test_sqlite_makes_the_text_of_a_key() -> None:
    found = re.search(r"`('s' \|\| .*?)`", PAGE, re.DOTALL)
    assert found is not None
    with closing(sqlite3.connect(":memory:")) as connection:
        text = connection.execute(f"SELECT {found[1]} FROM (SELECT ? AS page)", ("é漢/",)).fetchone()[0]
    assert hashlib.sha256(text.encode()).hexdigest() == key_of("é漢/")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    landing = folder / "data" / "new" / "web" / "events"
    landing.mkdir(parents=True)
    for day, rows in FILES.items():
        header = "user_id,received_at,page,amount\n"
        (landing / f"web_events_{day}_23_59_59.csv").write_text(header + rows, encoding="utf-8")
    (folder / "flows").mkdir()
    (folder / "waterclock.toml").write_text(TOML, encoding="utf-8")
    (folder / "flows" / "web.dpl").write_text(block("sql"), encoding="utf-8")
    with session(tmp_path, is_warm=True) as shell:
        shell.run("cd /tmp/mine")
        wrong = failures(commands_of(PAGE), shell)
    assert not wrong, "\n\n".join(wrong)
    received = datetime(2026, 11, 16, 9, tzinfo=UTC)
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        found = dict(shop.execute("SELECT visit, amount FROM visits").fetchall())
    assert {key: float(amount) for key, amount in found.items()} == {
        key_of(7, received): 12.5,
        key_of(7, received.replace(minute=30)): 3.0,
    }
