"""Tables behind a view: versions are written once, and labels are dropped by metadata only."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.counting import calls_named
from tests.systems import DuckDatabase, MysqlDatabase, PostgresDatabase, SqliteDatabase, unit_of
from waterclock.connectors.delivering import Deliverer, Delivery, DeliveryOutcome, LabelTableDestination
from waterclock.connectors.sql.versioned_views import BEHIND
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.enums import Mode
from waterclock.timelabel.label import label_of

Row = tuple[str, int]
Database = SqliteDatabase | DuckDatabase | PostgresDatabase | MysqlDatabase
DATABASES: dict[str, Callable[[Path], Database]] = {
    "sqlite": SqliteDatabase, "duckdb": DuckDatabase, "postgres": PostgresDatabase, "mysql": MysqlDatabase,
}  # fmt: skip
START = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.fixture(
    params=["sqlite", "duckdb", *(pytest.param(name, marks=pytest.mark.slow) for name in ("postgres", "mysql"))]
)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return DATABASES[request.param](tmp_path)


def deliverer_of(database: Database) -> Deliverer:
    return database.connector.deliverer(database.setting)


def keeper_of(database: Database) -> LabelTableDestination:
    found = deliverer_of(database)
    assert isinstance(found, LabelTableDestination)
    return found


def deliver(
    database: Database,
    folder: Path,
    claim: int,
    rows: list[Row],
    day: int | None = None,
    more: tuple[str, ...] = (),
    at: int = 0,
    **options: Any,
) -> DeliveryOutcome:
    """Deliver the version of the day `at`, or if given, the rows of a day."""
    path = folder / f"{claim}-{day}.parquet"
    columns = {"id": [key for key, _ in rows], "amount": pa.array([amount for _, amount in rows], pa.int32())}
    pq.write_table(pa.table({**columns, **{name: ["x"] * len(rows) for name in more}}), path)
    label = START + timedelta(days=at if day is None else day)
    options = {"behind": "view", **options}
    made = Delivery(
        project="ours",
        publish="ops.totals",
        claim=claim,
        label=label,
        label_text=label_of(label),
        mode=Mode.REPLACE if day is None else Mode.APPEND,
        is_from_partitioned=day is not None,
        columns=(("id", "STRING"), ("amount", "INT"), *((name, "STRING") for name in more)),
        files=(path,),
        note=BEHIND if options["behind"] else "",
    )
    unit = unit_of("ops", "totals", **{name: value for name, value in options.items() if value})
    return deliverer_of(database).deliver(unit, [made])[-1].outcome


def shown(database: Database, columns: str = "id, amount") -> list[Any]:
    return sorted(tuple(row) for row in database.run(f"SELECT {columns} FROM totals"))


def tables(database: Database) -> list[str]:
    if isinstance(database, PostgresDatabase):
        sql = f"SELECT tablename FROM pg_tables WHERE schemaname = '{database.schema}'"
    elif isinstance(database, MysqlDatabase):
        sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = database()"
    else:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return sorted(row[0] for row in database.run(sql) if row[0].startswith("_totals"))


def test_the_view_switches_to_the_newest_version_and_the_old_one_stays_as_it_was(
    database: Database, tmp_path: Path
) -> None:
    deliver(database, tmp_path, 1, [("a", 1)])
    deliver(database, tmp_path, 2, [("b", 2), ("c", 3)])
    assert shown(database) == [("b", 2), ("c", 3)]
    assert tables(database) == ["_totals_v1", "_totals_v2"]
    assert database.run("SELECT id FROM _totals_v1") == [("a",)]
    deliver(database, tmp_path, 2, [("z", 9)])  # the claim exists: a version is never written again
    assert shown(database) == [("b", 2), ("c", 3)]


def test_a_label_of_a_view_over_many_labels_needs_no_more_statements(database: Database, tmp_path: Path) -> None:
    counts = []
    for low, high in ((0, 3), (3, 12)):
        for day in range(low, high):
            deliver(database, tmp_path, day + 1, [("a", day)], day=day)
        claim = 100 + high
        _, asked = calls_named(partial(deliver, database, tmp_path, claim, [("b", 1)], day=1), "execute", "sql")
        counts.append(asked)
        _, dropped = calls_named(
            lambda: keeper_of(database).drop(unit_of("ops", "totals", behind="view"), "ours", "ops.totals", ["none"]),
            "execute",
            "sql",
        )
        counts.append(dropped)
    assert counts[:2] == counts[2:]
    assert len(shown(database)) == 12


def test_a_failed_delivery_leaves_no_version_and_a_retry_creates_a_new_one(database: Database, tmp_path: Path) -> None:
    deliver(database, tmp_path, 1, [("a", 1)])

    def strike(point: str) -> None:
        if point == "deliver.rows":
            raise OSError("struck")

    with inject_faults(strike), pytest.raises(OSError, match="struck"):
        deliver(database, tmp_path, 2, [("b", 2)])
    assert (shown(database), tables(database)) == ([("a", 1)], ["_totals_v1"])
    deliver(database, tmp_path, 3, [("b", 2)])
    assert (shown(database), tables(database)) == ([("b", 2)], ["_totals_v1", "_totals_v3"])
    database.run("CREATE TABLE _totals_v4 (x INTEGER)")
    with pytest.raises(WaterclockError, match="E829"):
        deliver(database, tmp_path, 4, [("c", 2)])
    assert shown(database) == [("b", 2)]


def test_versions_are_dropped_once_they_are_kept_no_longer(database: Database, tmp_path: Path) -> None:
    for claim in (1, 2, 3):
        deliver(database, tmp_path, claim, [("a", claim)], keep="7 DAYS")
    assert tables(database) == ["_totals_v1", "_totals_v2", "_totals_v3"]
    long_ago = "2013-01-0{} 00:00:00"
    for claim in (1, 2):
        database.run(
            f"UPDATE waterclock_deliveries SET delivered_at = '{long_ago.format(claim)}' WHERE claim = {claim}"
        )
    deliver(database, tmp_path, 4, [("a", 4)], keep="7 DAYS")
    assert tables(database) == ["_totals_v2", "_totals_v3", "_totals_v4"]  # the second was replaced today


def test_the_version_in_the_view_is_kept_if_the_clock_was_set_back(database: Database, tmp_path: Path) -> None:
    for claim in (1, 2):
        deliver(database, tmp_path, claim, [("a", claim)], at=claim)
        database.run(f"UPDATE waterclock_deliveries SET delivered_at = '2013-01-0{4 - claim}' WHERE claim = {claim}")
    assert deliver(database, tmp_path, 3, [("a", 3)], at=1) is DeliveryOutcome.OLDER
    assert shown(database) == [("a", 2)]


def test_columns_that_come_and_go_change_the_view(database: Database, tmp_path: Path) -> None:
    deliver(database, tmp_path, 1, [("a", 1)], more=("note",))
    deliver(database, tmp_path, 2, [("b", 2)])
    assert shown(database) == [("b", 2)]
    deliver(database, tmp_path, 3, [("c", 3)], more=("note", "other"))
    assert shown(database, "id, note, other") == [("c", "x", "x")]


def test_each_label_has_a_table_of_its_own_under_the_view(database: Database, tmp_path: Path) -> None:
    for day in range(3):
        deliver(database, tmp_path, day + 1, [("a", day), ("b", day)], day)
    assert tables(database) == [f"_totals_2013010{day}000000" for day in (1, 2, 3)]
    deliver(database, tmp_path, 9, [("c", 7)], 1, more=("note",))  # restated, with an additional column
    rows: list[Any] = [("a", 0, "20130101000000", None), ("b", 0, "20130101000000", None)]
    rows += [("c", 7, "20130102000000", "x"), ("a", 2, "20130103000000", None), ("b", 2, "20130103000000", None)]
    assert shown(database, "id, amount, timelabel, note") == sorted(rows, key=str)
    lost = deliverer_of(database).find_loss(unit_of("ops", "totals", behind="view"), "ours", "ops.totals", 3)
    assert lost is None


def test_labels_are_dropped_as_metadata_and_together(database: Database, tmp_path: Path) -> None:
    for day in range(4):
        deliver(database, tmp_path, day + 1, [("a", day)], day)
    unit = unit_of("ops", "totals", behind="view")
    keeper = keeper_of(database)
    assert keeper.drop(unit, "ours", "ops.totals", ["20130101000000", "20130102000000", "20120101000000"]) == 2
    assert shown(database) == [("a", 2), ("a", 3)]
    assert keeper.labels(unit, "ours", "ops.totals") == ("20130103000000", "20130104000000")
    assert len(tables(database)) == 2
    deliver(database, tmp_path, 9, [("b", 9)], 4)
    assert shown(database) == [("a", 2), ("a", 3), ("b", 9)]


@pytest.mark.parametrize("by_label", [False, True])
def test_a_foreign_table_or_view_with_the_same_name_is_reported_and_kept(
    database: Database, tmp_path: Path, by_label: bool
) -> None:
    day = 0 if by_label else None
    database.run("CREATE TABLE totals (id TEXT)")
    with pytest.raises(WaterclockError, match="E829"):
        deliver(database, tmp_path, 1, [("a", 1)], day)
    database.run("DROP TABLE totals")
    database.run("CREATE VIEW totals AS SELECT 1 AS one")
    with pytest.raises(WaterclockError, match="E829"):
        deliver(database, tmp_path, 2, [("a", 1)], day)
    assert (shown(database, "one"), tables(database)) == ([(1,)], [])
    assert deliver(database, tmp_path, 3, [("a", 1)], day, adopt=True) is DeliveryOutcome.DELIVERED
    with pytest.raises(WaterclockError, match="E829") as told:  # the option is removed, while the view exists
        deliver(database, tmp_path, 4, [("b", 1)], day, behind="")
    assert shown(database) == [("a", 1)]
    assert "recompute ops.totals" in (told.value.fix or "")


@pytest.mark.slow
def test_postgres_touches_the_labels_that_a_query_names(tmp_path: Path) -> None:
    database = PostgresDatabase(tmp_path)
    for day in range(5):
        deliver(database, tmp_path, day + 1, [("a", day)], day)
    for condition, number in (
        ("timelabel = '20130102000000'", 1),
        ("timelabel IN ('20130102000000', '20130104000000')", 2),
        ("timelabel >= '20130103000000' AND amount > 0", 3),
        ("timelabel < '2013'", 0),
    ):
        plan = json.dumps(database.run(f"EXPLAIN (FORMAT json) SELECT * FROM totals WHERE {condition}"))
        assert plan.count('"Relation Name"') == number, condition


@pytest.mark.slow
def test_privileges_of_a_view_of_postgres_stay_if_its_columns_change(tmp_path: Path) -> None:
    database = PostgresDatabase(tmp_path)
    deliver(database, tmp_path, 1, [("a", 1)], more=("note",))
    database.run("GRANT SELECT ON totals TO PUBLIC; GRANT SELECT, INSERT ON totals TO postgres WITH GRANT OPTION")
    asked = (
        "SELECT grantee::bigint, privilege_type, is_grantable FROM pg_class, aclexplode(relacl)"
        " WHERE oid = 'totals'::regclass AND grantee <> relowner ORDER BY 1, 2"
    )
    before = database.run(asked)
    deliver(database, tmp_path, 2, [("b", 2)])
    assert shown(database) == [("b", 2)]
    assert [(privilege, can_grant) for _, privilege, can_grant in before] == [
        ("SELECT", False), ("INSERT", True), ("SELECT", True)
    ]  # fmt: skip
    assert database.run(asked) == before


def steps(path: Path, sql: str) -> int:
    """Count the steps of SQLite's virtual machine for a query."""
    count = 0

    def one() -> int:
        nonlocal count
        count += 1
        return 0

    with closing(sqlite3.connect(path)) as connection:
        connection.set_progress_handler(one, 10)
        connection.execute(sql).fetchall()
    return count * 10


def test_sqlite_reads_the_labels_that_a_query_names_also_of_very_many(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)
    rows = [("a", number) for number in range(500)]
    for day in range(4):
        deliver(database, tmp_path, day + 1, rows, day)
    one = steps(database.path, "SELECT sum(amount) FROM totals WHERE timelabel = '20130102000000'")
    assert one < steps(database.path, "SELECT sum(amount) FROM totals") / 3
    with closing(sqlite3.connect(database.path)) as connection, connection:
        for day in range(4, 900):
            label = label_of(START + timedelta(days=day))
            connection.execute(f"CREATE TABLE _totals_{label} (id TEXT, amount INTEGER)")
            connection.execute(f"INSERT INTO _totals_{label} VALUES ('b', 1)")
            connection.execute(
                "INSERT INTO waterclock_deliveries SELECT project, claim, publish, ?, outcome, mode, 1, 0, note, '2013'"
                " FROM waterclock_deliveries WHERE claim = 4 AND label = '20130104000000'",
                (label,),
            )
    deliver(database, tmp_path, 5, [("c", 1)], 900)
    assert database.run("SELECT count(*) FROM totals") == [(4 * 500 + 896 + 1,)]
    assert database.run("SELECT id FROM totals WHERE timelabel > '20150619'") == [("b",)] * 1 + [("c",)]
