"""Deliveries to Firebird: cases that the conformance suite does not cover."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.systems import FirebirdDatabase, setting_of, unit_of
from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.firebird.connector import CONNECTOR
from waterclock.connectors.sql import delivery_after_ddl as module
from waterclock.connectors.sql.versioned_views import BEHIND
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.declarations import Value
from waterclock.flow.enums import Mode

pytestmark = pytest.mark.slow

PLAIN = Delivery(
    project="flights",
    publish="ops.totals",
    claim=1,
    label=datetime(2013, 1, 1, tzinfo=UTC),
    label_text="20130101000000",
    mode=Mode.REPLACE,
    is_from_partitioned=False,
    columns=(("id", "STRING"), ("amount", "INT")),
    files=(),
)


@pytest.fixture
def database(tmp_path: Path) -> FirebirdDatabase:
    return FirebirdDatabase(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def sealed(folder: Path, table: pa.Table) -> tuple[Path, ...]:
    path = folder / f"part-{len(list(folder.iterdir()))}.parquet"
    pq.write_table(table, path)
    return (path,)


def delivery(folder: Path, *rows: tuple[str, int], **changes: Any) -> Delivery:
    table = pa.table({"id": [key for key, _ in rows], "amount": pa.array([amount for _, amount in rows], pa.int32())})
    return replace(PLAIN, files=sealed(folder, table), **changes)


def deliver(database: FirebirdDatabase, *deliveries: Delivery, **options: Value) -> Delivered:
    unit = unit_of("ops", "totals", **options)
    return CONNECTOR.deliverer(database.setting).deliver(unit, deliveries)[-1]


def refused(database: FirebirdDatabase, made: Delivery, **options: Value) -> WaterclockError:
    with pytest.raises(WaterclockError) as caught:
        deliver(database, made, **options)
    return caught.value


LONG = "ж" * 40_000
TYPES = {
    "s": ("STRING", pa.array(["", "a\"b\n,\\N '\u0436\U0001f600 ?"]), ["", "a\"b\n,\\N '\u0436\U0001f600 ?"]),
    "wordy": ("STRING", pa.array([LONG, None]), [LONG, None]),
    "b": ("BOOLEAN", pa.array([True, None]), [True, None]),
    "i2": ("SMALLINT", pa.array([1, -2], pa.int16()), [1, -2]),
    "i8": ("BIGINT", pa.array([-(2**63), 2**63 - 1]), [-(2**63), 2**63 - 1]),
    "f4": ("FLOAT", pa.array([0.1, None], pa.float32()), [pytest.approx(0.1), None]),
    "f": ("DOUBLE", pa.array([0.1 + 0.2, 1e-300]), [0.1 + 0.2, 1e-300]),
    "n": ("DECIMAL(18,4)", pa.array([Decimal("12345678901234.7891"), None], pa.decimal128(18, 4)),
          [Decimal("12345678901234.7891"), None]),
    "wide": ("DECIMAL(38,2)", pa.array([Decimal("9" * 36 + ".99"), None], pa.decimal128(38, 2)),
             ["9" * 36 + ".99", None]),
    "d": ("DATE", pa.array([date(2013, 2, 28), None]), [date(2013, 2, 28), None]),
    "tz": ("TIMESTAMP", pa.array([datetime(2013, 1, 1, 5, 0, 0, 100, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
           [datetime(2013, 1, 1, 5, 0, 0, 100), None]),  # noqa: DTZ001
    "ts": ("TIMESTAMP_NTZ", pa.array([datetime(2013, 1, 1, 5), None], pa.timestamp("us")),  # noqa: DTZ001
           [datetime(2013, 1, 1, 5), None]),  # noqa: DTZ001
    "by": ("BINARY", pa.array([b"\x00\xff'\\", None]), [b"\x00\xff'\\", None]),
    "ai": ("ARRAY<BIGINT>", pa.array([[1, None], None]), ["[1, null]", None]),
}  # fmt: skip


def test_every_type_keeps_its_values(database: FirebirdDatabase, folder: Path) -> None:
    table = pa.table({"key": pa.array([1, 2])} | {name: values for name, (_, values, _) in TYPES.items()})
    columns = (("key", "BIGINT"), *((name, kind) for name, (kind, _, _) in TYPES.items()))
    deliver(database, replace(PLAIN, columns=columns, files=sealed(folder, table)))
    rows = sorted(database.rows(), key=lambda row: row["key"])
    for name, (_, _, wanted) in TYPES.items():
        assert [row[name] for row in rows] == wanted, name


def test_many_rows_arrive_in_several_statements(database: FirebirdDatabase, folder: Path) -> None:
    rows = [(f"{at} {'x' * (at % 700)}", at) for at in range(1_500)]
    assert deliver(database, delivery(folder, *rows)).rows == 1_500
    assert sorted((row["id"], row["amount"]) for row in database.rows()) == sorted(rows)


@pytest.mark.parametrize(
    ("column", "spark", "values", "said"),
    [
        ("NUMERIC(9,2)", "DOUBLE", pa.array([1.005]), "2 digits after the point"),
        ("INTEGER", "DECIMAL(9,1)", pa.array([Decimal("1.5")], pa.decimal128(9, 1)), "whole numbers"),
        ("FLOAT", "INT", pa.array([16_777_217], pa.int32()), "6 digits"),
        ("VARCHAR(3)", "STRING", pa.array(["abcd"]), "3 characters"),
        ("CHAR(3)", "STRING", pa.array(["a "]), "blanks"),
        ("DATE", "TIMESTAMP", pa.array([datetime(2013, 1, 1, 5, tzinfo=UTC)], pa.timestamp("us", "UTC")),
         "time of day"),
        ("TIMESTAMP", "TIMESTAMP", pa.array([datetime(2013, 1, 1, 5, 0, 0, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
         "4 digits of a second"),
        ("BOOLEAN", "INT", pa.array([2], pa.int32()), "another kind"),
        ("VARCHAR(9)", "BINARY", pa.array([b"a"]), "another kind"),
    ],
)  # fmt: skip
def test_a_value_that_its_column_would_change_is_refused(
    database: FirebirdDatabase, folder: Path, column: str, spark: str, values: pa.Array, said: str
) -> None:
    database.run(f"CREATE TABLE totals (v {column})")
    error = refused(database, replace(PLAIN, columns=(("v", spark),), files=sealed(folder, pa.table({"v": values}))))
    assert error.code == "E812"
    assert said in (error.why or "")
    assert database.rows() == []


def test_a_value_out_of_range_is_refused(database: FirebirdDatabase, folder: Path) -> None:
    database.run("CREATE TABLE totals (id VARCHAR(9), amount SMALLINT)")
    assert refused(database, delivery(folder, ("a", 70_000))).code == "E813"
    assert database.rows() == []


def test_a_table_with_foreign_rows_is_refused_until_it_is_adopted(database: FirebirdDatabase, folder: Path) -> None:
    database.run("CREATE TABLE totals (id VARCHAR(9), amount INTEGER)")
    database.run("INSERT INTO totals VALUES ('theirs', 1)")
    assert refused(database, delivery(folder, ("a", 1))).code == "E820"
    assert deliver(database, delivery(folder, ("a", 1)), adopt=True).outcome is DeliveryOutcome.DELIVERED
    assert [row["id"] for row in database.rows()] == ["a"]


def test_a_view_is_refused(database: FirebirdDatabase, folder: Path) -> None:
    database.run("CREATE VIEW totals AS SELECT x AS id, x AS amount FROM unrelated")
    assert refused(database, delivery(folder, ("a", 1))).code == "E875"


def test_rows_that_others_refer_to_are_refused(database: FirebirdDatabase, folder: Path) -> None:
    deliver(database, delivery(folder, ("a", 1), mode=Mode.MERGE, keys=("id",)))
    database.run("ALTER TABLE totals ADD CONSTRAINT own UNIQUE (id)")
    database.run("CREATE TABLE parts (of_id VARCHAR(240) REFERENCES totals (id) ON DELETE CASCADE)")
    database.run("INSERT INTO parts VALUES ('a')")
    error = refused(database, delivery(folder, ("a", 2), claim=2))
    assert error.code == "E820"
    assert "PARTS refers to" in error.what
    assert database.run("SELECT count(*) FROM parts") == [(1,)]


@pytest.mark.parametrize("pair", [("a", "a "), ("a", "A")])
def test_keys_that_the_server_equates_are_refused(
    database: FirebirdDatabase, folder: Path, pair: tuple[str, str]
) -> None:
    database.run("CREATE TABLE totals (id VARCHAR(9) CHARACTER SET UTF8 COLLATE UNICODE_CI, amount INTEGER)")
    merged = {"mode": Mode.MERGE, "keys": ("id",)}
    both = delivery(folder, *((key, 1) for key in pair), **merged)
    assert refused(database, both).code == "E876"
    deliver(database, delivery(folder, (pair[0], 1), **merged))
    assert refused(database, delivery(folder, (pair[1], 2), claim=2, **merged)).code == "E876"
    assert [row["id"] for row in database.rows()] == [pair[0]]


def test_a_column_may_have_a_domain_with_a_quotation_mark_in_its_name(database: FirebirdDatabase, folder: Path) -> None:
    database.run('CREATE DOMAIN "of ""shop""" AS VARCHAR(9)')
    database.run('CREATE TABLE totals (id "of ""shop""", amount INTEGER)')
    deliver(database, delivery(folder, ("a", 1), mode=Mode.MERGE, keys=("id",)))
    deliver(database, delivery(folder, ("a", 2), mode=Mode.MERGE, keys=("id",), claim=2))
    assert [(row["id"], row["amount"]) for row in database.rows()] == [("a", 2)]


def test_replace_where_replaces_only_its_texts(database: FirebirdDatabase, folder: Path) -> None:
    from waterclock.flow.conditions import Condition, Term

    database.run("CREATE TABLE totals (id VARCHAR(9) CHARACTER SET UTF8, amount INTEGER)")
    for key in ("a", "a "):
        database.run("INSERT INTO totals VALUES (?, 0)", key)
    where = Condition("id = 'a'", Term("=", parts=(Term("column", value="id"), Term("value", value="a"))), "UTC")
    deliver(database, delivery(folder, ("a", 1), where=where), adopt=True)
    assert sorted((row["id"], row["amount"]) for row in database.rows()) == [("a", 1), ("a ", 0)]


def test_a_claim_that_is_killed_while_it_delivers_leaves_nothing(database: FirebirdDatabase, folder: Path) -> None:
    made = delivery(folder, ("a", 1))
    killed: list[Delivered] = []

    def kill(point: str) -> None:
        if point == "deliver.rows":
            other = CONNECTOR.deliverer(database.setting)
            killed.append(other.kill(database.unit, made.project, made.publish, made.claim))

    with inject_faults(kill):
        error = refused(database, made)
    assert [one.outcome for one in killed] == [DeliveryOutcome.KILLED]
    assert error.code == "E810"
    assert error.transient
    assert database.rows() == []
    assert deliver(database, made).outcome is DeliveryOutcome.KILLED


def _die_in(database: FirebirdDatabase, made: Delivery, step: str) -> None:
    owner = module if step == "update_view" else module.AfterDdlDeliverer
    original = getattr(owner, step)

    def die(*arguments: Any, **named: Any) -> None:
        if step != "update_view":
            original(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, step, die)
    CONNECTOR.deliverer(database.setting).deliver(database.unit, [made])


@pytest.mark.parametrize(
    ("step", "options"),
    [
        ("_prepare_delivery", {}),
        ("_deliver_rows", {}),
        ("_deliver_rows", {"behind": "view"}),
        ("update_view", {"behind": "view"}),
    ],
)
def test_a_killed_runner_leaves_all_or_nothing(
    database: FirebirdDatabase, folder: Path, step: str, options: dict[str, Any]
) -> None:
    database.unit = unit_of("ops", "totals", **options)
    made = delivery(folder, ("a", 1), ("b", 2), note=BEHIND if options else "")
    process = get_context("fork").Process(target=_die_in, args=(database, made, step))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    deliverer = CONNECTOR.deliverer(database.setting)
    stands = deliverer.find(database.unit, "flights", "ops.totals", 1)
    assert (stands is not None) == (step == "update_view")
    assert database.rows() == [], "the runner that takes the claim over shows the stored rows"
    for _ in range(2):
        assert deliverer.deliver(database.unit, [made])[-1].outcome is DeliveryOutcome.DELIVERED
        assert sorted(row["id"] for row in database.rows()) == ["a", "b"]


def test_deliveries_of_a_publish_wait_for_one_another_but_not_forever(database: FirebirdDatabase, folder: Path) -> None:
    errors: list[WaterclockError] = []
    impatient = setting_of("ops", folder, **{**database.setting.options, "timeout": 1})

    def intrude(point: str) -> None:
        if point == "deliver.rows" and not errors:
            with pytest.raises(WaterclockError) as caught:
                CONNECTOR.deliverer(impatient).deliver(database.unit, [delivery(folder, ("b", 2), claim=2)])
            errors.append(caught.value)

    with inject_faults(intrude):
        deliver(database, delivery(folder, ("a", 1)))
    assert [(error.code, error.transient) for error in errors] == [("E811", True)]
    assert [row["id"] for row in database.rows()] == ["a"]


def test_a_view_shows_the_newest_version_and_all_labels(database: FirebirdDatabase, folder: Path) -> None:
    for claim in (1, 2):
        made = delivery(folder, ("a", claim), claim=claim, label_text=f"2013010{claim}000000", note=BEHIND)
        deliver(database, made, behind="view")
    assert [(row["id"], row["amount"]) for row in database.rows()] == [("a", 2)]
    unit = unit_of("ops", "parts", behind="view")
    deliverer = CONNECTOR.deliverer(database.setting)
    for claim in (3, 4):
        made = delivery(
            folder, ("a", claim), claim=claim, label_text=f"2013010{claim}000000", publish="ops.parts", note=BEHIND
        )
        deliverer.deliver(unit, [replace(made, is_from_partitioned=True)])
    shown = database.run("SELECT amount, timelabel FROM parts ORDER BY 1")
    assert [(amount, label.strip()) for amount, label in shown] == [(3, "20130103000000"), (4, "20130104000000")]


def test_a_replaced_version_is_kept_for_its_time_whatever_the_zone_of_the_server(
    database: FirebirdDatabase, folder: Path
) -> None:
    for claim in (1, 2):
        made = delivery(folder, ("a", claim), claim=claim, label_text=f"2013010{claim}000000", note=BEHIND)
        deliver(database, made, behind="view", keep="1 HOUR")
    tables = database.run("SELECT TRIM(RDB$RELATION_NAME) FROM RDB$RELATIONS WHERE RDB$RELATION_TYPE = 0")
    assert len([name for (name,) in tables if name.lower().startswith("_totals_v")]) == 2


def test_a_new_column_is_added_and_a_lost_table_is_reported(database: FirebirdDatabase, folder: Path) -> None:
    deliver(database, delivery(folder, ("a", 1)))
    table = pa.table({"id": ["b"], "amount": pa.array([2], pa.int32()), "note": ["n"]})
    columns = (*PLAIN.columns, ("note", "STRING"))
    deliver(database, replace(PLAIN, claim=2, columns=columns, files=sealed(folder, table)))
    assert [(row["id"], row["note"]) for row in database.rows()] == [("b", "n")]
    database.run("DROP TABLE totals")
    lost = CONNECTOR.deliverer(database.setting).find_loss(database.unit, PLAIN.project, PLAIN.publish, 2)
    assert lost == "the table totals is gone"
