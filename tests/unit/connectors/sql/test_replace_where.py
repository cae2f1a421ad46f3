"""REPLACE WHERE at databases: replaces only the rows of the condition, also with other writers of the table."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.systems import DuckDatabase, MysqlDatabase, PostgresDatabase, SqliteDatabase, unit_of
from waterclock.connectors.delivering import Delivery, DeliveryOutcome
from waterclock.connectors.sql.replace_where import condition_text
from waterclock.errors import WaterclockError
from waterclock.flow.conditions import Condition, Term
from waterclock.flow.enums import Mode

Row = tuple[str | None, int | None]
Database = SqliteDatabase | DuckDatabase | PostgresDatabase | MysqlDatabase
DATABASES: dict[str, Callable[[Path], Database]] = {
    "sqlite": SqliteDatabase, "duckdb": DuckDatabase, "postgres": PostgresDatabase, "mysql": MysqlDatabase,
}  # fmt: skip
_COMPARE: dict[str, Any] = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, ">=": operator.ge}


@pytest.fixture(
    params=["sqlite", *(pytest.param(name, marks=pytest.mark.slow) for name in ("duckdb", "postgres", "mysql"))]
)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return DATABASES[request.param](tmp_path)


def term(op: str, column: str, value: Any = None) -> Term:
    named = Term("column", value=column)
    return Term(op, (named,) if op == "null" else (named, Term("value", value=value)))


def where(found: Term, text: str = "of ours") -> Condition:
    return Condition(text, found, "UTC")


EU = where(term("=", "id", "EU"), "id = 'EU'")
US = where(term("=", "id", "US"), "id = 'US'")


def deliver(
    database: Database,
    folder: Path,
    claim: int,
    rows: list[Row],
    of: Condition | None,
    project: str = "ours",
    **options: bool,
) -> DeliveryOutcome:
    path = folder / f"{project}-{claim}.parquet"
    schema = pa.schema([("id", pa.string()), ("amount", pa.int32())])
    pq.write_table(pa.Table.from_pylist([{"id": at, "amount": n} for at, n in rows], schema=schema), path)
    made = Delivery(
        project=project,
        publish="ops.totals",
        claim=claim,
        label=datetime(2013, 1, 1, tzinfo=UTC),
        label_text="20130101000000",
        mode=Mode.REPLACE,
        is_from_partitioned=False,
        columns=(("id", "STRING"), ("amount", "INT")),
        files=(path,),
        where=of,
        note=condition_text(of),
    )
    deliverer = database.connector.deliverer(database.setting)
    return deliverer.deliver(unit_of("ops", "totals", **options), [made])[-1].outcome


def held(database: Database) -> list[Row]:
    return sorted(((row["id"], row["amount"]) for row in database.rows()), key=str)


def theirs(database: Database, *rows: Row) -> None:
    database.run("CREATE TABLE totals (id TEXT, amount INTEGER)")
    for at, amount in rows:
        database.run(f"INSERT INTO totals VALUES ('{at}', {amount})")


def test_rows_of_the_condition_alone_are_replaced(database: Database, tmp_path: Path) -> None:
    theirs(database, ("US", 1), ("eu", 2))
    deliver(database, tmp_path, 1, [("EU", 10), ("EU", 11)], EU)
    assert held(database) == [("EU", 10), ("EU", 11), ("US", 1), ("eu", 2)]
    deliver(database, tmp_path, 2, [("EU", 12)], EU)
    assert held(database) == [("EU", 12), ("US", 1), ("eu", 2)]
    deliver(database, tmp_path, 2, [("EU", 99)], EU)  # the claim already exists
    assert held(database) == [("EU", 12), ("US", 1), ("eu", 2)]
    deliver(database, tmp_path, 3, [], EU)
    assert held(database) == [("US", 1), ("eu", 2)]


def test_matching_foreign_rows_are_refused_until_they_are_adopted(database: Database, tmp_path: Path) -> None:
    theirs(database, ("EU", 1))
    with pytest.raises(WaterclockError, match="E820"):
        deliver(database, tmp_path, 1, [("EU", 10)], EU)
    assert held(database) == [("EU", 1)]
    assert deliver(database, tmp_path, 2, [("EU", 10)], EU, adopt=True) is DeliveryOutcome.DELIVERED
    assert held(database) == [("EU", 10)]


def test_two_projects_share_a_table_and_a_third_cannot_replace_all_its_rows(database: Database, tmp_path: Path) -> None:
    deliver(database, tmp_path, 1, [("EU", 10)], EU)
    deliver(database, tmp_path, 1, [("US", 20)], US, project="other")
    deliver(database, tmp_path, 2, [("EU", 11)], EU)
    assert held(database) == [("EU", 11), ("US", 20)]
    with pytest.raises(WaterclockError, match="E820"):
        deliver(database, tmp_path, 1, [("EU", 10)], None, project="third", adopt=True)
    assert held(database) == [("EU", 11), ("US", 20)]


@pytest.mark.parametrize(("before", "now"), [(EU, US), (EU, None), (None, EU)])
def test_a_changed_condition_is_refused_until_it_is_adopted(
    database: Database, tmp_path: Path, before: Condition | None, now: Condition | None
) -> None:
    deliver(database, tmp_path, 1, [("EU", 10)], before)
    with pytest.raises(WaterclockError, match="E831") as told:
        deliver(database, tmp_path, 2, [("US", 20)], now)
    assert held(database) == [("EU", 10)]
    assert "adopt true" in (told.value.fix or "")
    deliver(database, tmp_path, 3, [("US", 20)], now, adopt=True)
    assert ("US", 20) in held(database)


@pytest.mark.parametrize("of", [term("=", "amount", "EU"), term("=", "id", 1), term("=", "amount", True)])
def test_condition_values_of_another_type_are_refused(database: Database, tmp_path: Path, of: Term) -> None:
    theirs(database, ("EU", 1))
    with pytest.raises(WaterclockError, match="E830"):
        deliver(database, tmp_path, 1, [], where(of))
    assert held(database) == [("EU", 1)]


def truth(of: Term, row: dict[str, Any]) -> bool | None:
    """Evaluate a condition with three values, as SQL does."""
    if of.op == "not":
        inner = truth(of.parts[0], row)
        return None if inner is None else not inner
    if of.op in {"and", "or"}:
        found = [truth(part, row) for part in of.parts]
        decides = of.op == "or"
        return decides if decides in found else None if None in found else not decides
    value = row[str(of.parts[0].value)]
    if of.op == "null":
        return value is None
    return None if value is None else bool(_COMPARE[of.op](value, of.parts[1].value))


def some_term(chance: random.Random, depth: int = 2) -> Term:
    if depth and chance.random() < 0.6:
        op = chance.choice(["and", "or", "not"])
        return Term(op, tuple(some_term(chance, depth - 1) for _ in range(1 if op == "not" else 2)))
    column = chance.choice(["id", "amount"])
    if chance.random() < 0.2:
        return term("null", column)
    if column == "id":
        return term(chance.choice(["=", "<>"]), column, chance.choice(["EU", "US", "it's %s"]))
    return term(chance.choice(list(_COMPARE)), column, chance.randrange(4))


def test_any_condition_finds_the_rows_that_it_is_true_of(database: Database, tmp_path: Path, *, is_long: bool) -> None:
    chance = random.Random(7)
    everything = [(at, amount) for at in ("EU", "US", "it's %s", None) for amount in (0, 1, 2, 3, None)]
    for number in range(1, 160 if is_long else 16):
        whole = replace(where(some_term(chance)), text=f"condition {number}")
        deliver(database, tmp_path, number * 2, everything, None, adopt=True)
        deliver(database, tmp_path, number * 2 + 1, [], whole, adopt=True)
        kept = [row for row in everything if truth(whole.term, {"id": row[0], "amount": row[1]}) is not True]
        assert held(database) == sorted(kept, key=str), whole
