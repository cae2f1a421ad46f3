"""Deliveries to PostgreSQL: cases that the conformance suite does not cover."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.postgres import KEEPER, wait_until
from tests.systems import PostgresDatabase, setting_of, unit_of
from waterclock.connectors.delivering import Delivery, DeliveryOutcome
from waterclock.connectors.postgres import row_merging
from waterclock.connectors.postgres.connector import CONNECTOR
from waterclock.connectors.postgres.dialect import DIALECT
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode

pytestmark = pytest.mark.slow

LABEL = datetime(2013, 1, 1, tzinfo=UTC)
PLAIN = Delivery(
    project="flights",
    publish="ops.totals",
    claim=1,
    label=LABEL,
    label_text="20130101000000",
    mode=Mode.REPLACE,
    is_from_partitioned=False,
    columns=(("id", "STRING"), ("amount", "INT")),
    files=(),
)


@pytest.fixture
def database(tmp_path: Path) -> PostgresDatabase:
    return PostgresDatabase(tmp_path)


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


def deliver(database: PostgresDatabase, *deliveries: Delivery) -> DeliveryOutcome:
    return CONNECTOR.deliverer(database.setting).deliver(database.unit, deliveries)[-1].outcome


TYPES = {
    "s": ("STRING", pa.array(["", 'a"b\n,\\N']), "text", ["", 'a"b\n,\\N']),
    "b": ("BOOLEAN", pa.array([True, None]), "boolean", [True, None]),
    "i2": ("SMALLINT", pa.array([1, -2], pa.int16()), "smallint", [1, -2]),
    "i8": ("BIGINT", pa.array([2**62, None]), "bigint", [2**62, None]),
    "f": ("DOUBLE", pa.array([1.5, float("inf")]), "double precision", [1.5, float("inf")]),
    "n": ("DECIMAL(20,4)", pa.array([Decimal("1234567890123456.7891"), None], pa.decimal128(20, 4)), "numeric(20,4)",
          [Decimal("1234567890123456.7891"), None]),
    "d": ("DATE", pa.array([date(2013, 2, 28), None]), "date", [date(2013, 2, 28), None]),
    "tz": ("TIMESTAMP", pa.array([datetime(2013, 1, 1, 5, 0, 0, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
           "timestamp with time zone", [datetime(2013, 1, 1, 5, 0, 0, 1, tzinfo=UTC), None]),
    "ts": ("TIMESTAMP_NTZ", pa.array([datetime(2013, 1, 1, 5), None], pa.timestamp("us")),  # noqa: DTZ001
           "timestamp without time zone", [datetime(2013, 1, 1, 5), None]),  # noqa: DTZ001
    "by": ("BINARY", pa.array([b"\x00\xff", None]), "bytea", [b"\x00\xff", None]),
    "ai": ("ARRAY<BIGINT>", pa.array([[1, None], None]), "bigint[]", [[1, None], None]),
    "at": ("ARRAY<STRING>", pa.array([["a,b", '"', "\\", "", None, "NULL"], []]), "text[]",
           [["a,b", '"', "\\", "", None, "NULL"], []]),
    "st": ("STRUCT<x: INT>", pa.array([{"x": 1}, None]), "jsonb", [{"x": 1}, None]),
    "aa": ("ARRAY<STRUCT<x: INT>>", pa.array([[{"x": 1}], None]), "jsonb", [[{"x": 1}], None]),
}  # fmt: skip


def test_every_type_keeps_its_values(database: PostgresDatabase, folder: Path) -> None:
    table = pa.table({"key": pa.array([1, 2])} | {name: values for name, (_, values, _, _) in TYPES.items()})
    columns = (("key", "BIGINT"), *((name, kind) for name, (kind, _, _, _) in TYPES.items()))
    deliver(database, replace(PLAIN, columns=columns, files=sealed(folder, table)))
    rows = sorted(database.rows(), key=lambda row: row["key"])
    for name, (_, _, _, wanted) in TYPES.items():
        assert [row[name] for row in rows] == wanted, name
    asked = (
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = to_regclass('totals') AND attnum > 1"
    )
    assert dict(database.run(asked)) == {name: kind for name, (_, _, kind, _) in TYPES.items()}


def test_a_destination_keeps_its_own_types(database: PostgresDatabase, folder: Path) -> None:
    database.run(
        "CREATE TYPE mood AS ENUM ('sad', 'happy');"
        'CREATE TABLE totals ("ID" uuid PRIMARY KEY, feels mood, told jsonb, amount numeric(6,1), note text)'
    )
    one = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    table = pa.table({"id": [one], "feels": ["happy"], "told": ['{"a": 1}'], "amount": pa.array([7])})
    columns = (("id", "STRING"), ("feels", "STRING"), ("told", "STRING"), ("amount", "BIGINT"))
    made = replace(PLAIN, columns=columns, files=sealed(folder, table), mode=Mode.MERGE, keys=("id",))
    deliver(database, made)
    database.run("UPDATE totals SET note = 'mine'")
    deliver(database, replace(made, claim=2, label_text="20130102000000"))
    [row] = database.rows()
    assert (str(row["ID"]), row["feels"], row["told"], row["amount"], row["note"]) == (
        one, "happy", {"a": 1}, Decimal("7.0"), "mine",
    )  # fmt: skip


def test_a_value_that_the_destination_does_not_take_changes_nothing(database: PostgresDatabase, folder: Path) -> None:
    deliver(database, delivery(folder, ("a", 1)))
    database.run("ALTER TABLE totals ADD CHECK (amount < 100)")
    with pytest.raises(WaterclockError, match="rejected") as refused:
        deliver(database, delivery(folder, ("b", 200), claim=2, label_text="20130102000000"))
    assert refused.value.code == "E813"
    assert [row["id"] for row in database.rows()] == ["a"]
    assert CONNECTOR.deliverer(database.setting).find(database.unit, "flights", "ops.totals", 2) is None


AT = datetime(2013, 1, 1, 5, 30, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.APPEND, Mode.MERGE])
@pytest.mark.parametrize(
    ("kind", "spark", "fits", "cut"),
    [
        ("numeric(6,2)", "DECIMAL(6,3)", Decimal("1.550"), Decimal("1.555")),
        ("numeric(6,0)", "DECIMAL(6,3)", Decimal("-7.000"), Decimal("-7.001")),
        ("date", "TIMESTAMP", LABEL, AT),
        ("timestamptz(3)", "TIMESTAMP", AT.replace(microsecond=123000), AT),
        ("timestamp(0)", "TIMESTAMP", AT.replace(microsecond=0), AT),
    ],
)
def test_a_value_of_which_the_destination_keeps_less_is_refused(
    database: PostgresDatabase, folder: Path, mode: Mode, kind: str, spark: str, fits: object, cut: object
) -> None:
    """The server would round it silently."""
    database.run(f"CREATE TABLE totals (id text, amount {kind})")
    type_ = pa.decimal128(6, 3) if spark.startswith("DECIMAL") else pa.timestamp("us", "UTC")

    def brought(claim: int, *values: object) -> Delivery:
        rows = pa.table({"id": [str(at) for at in range(len(values))], "amount": pa.array(values, type_)})
        columns = (("id", "STRING"), ("amount", spark))
        told: dict[str, Any] = {
            "claim": claim,
            "mode": mode,
            "columns": columns,
            "keys": ("id",) if mode is Mode.MERGE else (),
        }
        return replace(PLAIN, files=sealed(folder, rows), **told)

    deliver(database, brought(1, fits, None))
    before = database.rows()
    assert len(before) == 2
    with pytest.raises(WaterclockError, match="amount cannot store") as refused:
        deliver(database, brought(2, fits, None, cut))
    assert refused.value.code == "E812"
    assert database.rows() == before


DROPPING = (
    "CREATE FUNCTION drops() RETURNS trigger LANGUAGE plpgsql AS"
    " $$BEGIN IF new.id = 'b' THEN RETURN NULL; END IF; RETURN new; END$$;"
    "CREATE TRIGGER drops BEFORE INSERT OR UPDATE ON totals FOR EACH ROW EXECUTE FUNCTION drops()"
)


@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.APPEND, Mode.MERGE])
def test_rows_that_a_trigger_drops_stop_the_delivery(database: PostgresDatabase, folder: Path, mode: Mode) -> None:
    database.run("CREATE TABLE totals (id text, amount int)")
    keys = ("id",) if mode is Mode.MERGE else ()
    deliver(database, delivery(folder, ("a", 1), ("b", 1), mode=mode, keys=keys))
    database.run(DROPPING)
    before = database.rows()
    later = {"label_text": "20130102000000", "mode": mode, "keys": keys}
    with pytest.raises(WaterclockError, match="of 2 rows") as refused:
        deliver(database, delivery(folder, ("a", 2), ("b", 2), claim=2, **later))
    assert refused.value.code == "E813"
    assert database.rows() == before
    assert deliver(database, delivery(folder, ("a", 2), claim=3, **later)) is DeliveryOutcome.DELIVERED


def test_rows_that_a_trigger_keeps_from_being_deleted_stop_the_delivery(
    database: PostgresDatabase, folder: Path
) -> None:
    deliver(database, delivery(folder, ("a", 1)))
    database.run(
        "CREATE FUNCTION keeps() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;"
        "CREATE TRIGGER keeps BEFORE DELETE ON totals FOR EACH ROW EXECUTE FUNCTION keeps()"
    )
    with pytest.raises(WaterclockError, match="stored 2 of 1 rows"):
        deliver(database, delivery(folder, ("a", 2), claim=2, label_text="20130102000000"))
    assert [row["amount"] for row in database.rows()] == [1]


@pytest.mark.parametrize("later", [[("A", 2)], [("b", 1), ("B", 2)]])
def test_keys_that_the_destination_treats_as_equal_are_refused(
    database: PostgresDatabase, folder: Path, later: list[tuple[str, int]]
) -> None:
    database.server.run("CREATE EXTENSION IF NOT EXISTS citext SCHEMA pg_catalog")
    database.run("CREATE TABLE totals (id citext PRIMARY KEY, amount int)")
    merged: dict[str, Any] = {"mode": Mode.MERGE, "keys": ("id",)}
    deliver(database, delivery(folder, ("a", 1), **merged))
    deliver(database, delivery(folder, ("a", 3), claim=2, label_text="20130102000000", **merged))
    with pytest.raises(WaterclockError, match="another key as equal") as refused:
        deliver(database, delivery(folder, *later, claim=3, label_text="20130103000000", **merged))
    assert refused.value.code == "E876"
    assert [(row["id"], row["amount"]) for row in database.rows()] == [("a", 3)]


@pytest.mark.parametrize("rule", ["CASCADE", "SET NULL"])
@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.APPEND])
def test_rows_that_others_refer_to_are_not_deleted_to_be_written_again(
    database: PostgresDatabase, folder: Path, mode: Mode, rule: str
) -> None:
    database.run("CREATE TABLE totals (id text PRIMARY KEY, amount int)")
    deliver(database, delivery(folder, ("a", 1), mode=mode))
    database.run(f"CREATE TABLE lines (of text REFERENCES totals ON DELETE {rule}); INSERT INTO lines VALUES ('a')")
    with pytest.raises(WaterclockError, match=f"lines refers to ops.totals by ON DELETE {rule}") as refused:
        deliver(database, delivery(folder, ("a", 2), claim=2, mode=mode))
    assert refused.value.code == "E820"
    assert database.run("SELECT of FROM lines") == [("a",)]
    database.run("DELETE FROM lines")
    assert deliver(database, delivery(folder, ("a", 2), claim=3, mode=mode)) is DeliveryOutcome.DELIVERED


def test_a_column_that_fits_two_of_the_destination_is_refused(database: PostgresDatabase, folder: Path) -> None:
    database.run('CREATE TABLE totals (id text, amount int, "Amount" int, other int, "Other" int)')
    with pytest.raises(WaterclockError, match="columns amount and Amount, which differ only by case") as refused:
        deliver(database, delivery(folder, ("a", 1)))
    assert refused.value.code == "E813"
    database.run('ALTER TABLE totals RENAME COLUMN "Amount" TO former')
    assert deliver(database, delivery(folder, ("a", 1))) is DeliveryOutcome.DELIVERED
    assert database.run("SELECT id, amount, former FROM totals") == [("a", 1, None)]


def test_an_interval_text_is_parsed_independently_of_the_servers_intervalstyle(
    database: PostgresDatabase, folder: Path
) -> None:
    database.run("CREATE TABLE totals (id text, amount interval)")
    rows = pa.table({"id": ["a"], "amount": ["-1 2:03:04"]})
    made = replace(PLAIN, columns=(("id", "STRING"), ("amount", "STRING")), files=sealed(folder, rows))
    database.server.run(f"ALTER ROLE {KEEPER} SET intervalstyle = 'sql_standard'")
    try:
        deliver(database, made)
    finally:
        database.server.run(f"ALTER ROLE {KEEPER} RESET intervalstyle")
    assert database.run("SELECT amount::text FROM totals") == [("-1 days +02:03:04",)]


@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.APPEND, Mode.MERGE])
def test_names_that_the_server_would_cut_are_refused(database: PostgresDatabase, folder: Path, mode: Mode) -> None:
    """Two names could become one."""
    one = delivery(folder, ("a", 1), mode=mode, keys=("id",) if mode is Mode.MERGE else ())
    at = CONNECTOR.deliverer(database.setting)
    long = "\u00e9" * 32  # 64 bytes
    with pytest.raises(WaterclockError, match="too long") as refused:
        at.deliver(unit_of("ops", long), [one])
    assert refused.value.code == "E813"
    with pytest.raises(WaterclockError, match=f"{long} is too long"):
        at.deliver(database.unit, [replace(one, columns=(("id", "STRING"), (long, "INT")))])
    assert database.rows() == []


@pytest.mark.parametrize("is_by_label", [True, False])
def test_any_other_name_is_taken(database: PostgresDatabase, folder: Path, *, is_by_label: bool) -> None:
    """A percent sign is literal, also in a statement with values."""
    at, unit = CONNECTOR.deliverer(database.setting), unit_of("ops", '50% "of" select;')
    for claim in (1, 2):
        one = delivery(folder, ("a", 1), claim=claim, mode=Mode.APPEND, is_from_partitioned=is_by_label)
        assert at.deliver(unit, [one])[-1].outcome is DeliveryOutcome.DELIVERED
        assert at.find_loss(unit, PLAIN.project, PLAIN.publish, claim) is None


def test_a_missing_schema_is_reported_with_its_fix(database: PostgresDatabase, folder: Path) -> None:
    with pytest.raises(WaterclockError, match="the database rejected") as refused:
        CONNECTOR.deliverer(database.setting).deliver(unit_of("ops", "nowhere.totals"), [delivery(folder, ("a", 1))])
    assert str(refused.value.fix).startswith("create the schema")


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_readers_see_the_old_or_the_new_rows_and_never_an_empty_table(
    database: PostgresDatabase, folder: Path, isolation: str
) -> None:
    """A reader that started before a REPLACE still sees the earlier rows, at least in a snapshot transaction."""
    deliver(database, delivery(folder, ("a", 1)))
    count = f"SELECT count(*), min(id) FROM {database.schema}.totals"
    with database.server.connect() as early:
        early.execute(f"BEGIN ISOLATION LEVEL {isolation}")
        early.execute("SELECT 1")
        seen = []
        for claim in range(2, 6):
            deliver(database, delivery(folder, ("b", claim), claim=claim, label_text=f"2013010{claim}000000"))
            seen.append(early.execute(count).fetchone())
    assert set(seen) == ({(1, "a")} if isolation == "REPEATABLE READ" else {(1, "b")})


def test_grants_views_and_keys_of_the_destination_stay(database: PostgresDatabase, folder: Path) -> None:
    deliver(database, delivery(folder, ("a", 1)))
    database.run("CREATE VIEW seen AS SELECT * FROM totals; DROP ROLE IF EXISTS looker; CREATE ROLE looker LOGIN")
    database.run(f"GRANT USAGE ON SCHEMA {database.schema} TO looker; GRANT SELECT ON totals TO looker")
    deliver(database, delivery(folder, ("b", 2), claim=2, label_text="20130102000000"))
    assert database.run("SELECT id FROM seen") == [("b",)]
    assert database.run("SELECT has_table_privilege('looker', 'totals', 'SELECT')") == [(True,)]


def test_two_that_deliver_one_claim_at_once_deliver_it_once(database: PostgresDatabase, folder: Path) -> None:
    made = delivery(folder, *((str(at), at) for at in range(500)), mode=Mode.APPEND, is_from_partitioned=True)
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda _: deliver(database, made), range(4)))
    assert set(outcomes) == {DeliveryOutcome.DELIVERED}
    assert len(database.rows()) == 500


def _sleep_in_the_middle(database: PostgresDatabase, made: Delivery) -> None:
    original = row_merging._copy

    def copy_and_sleep(*arguments: Any) -> tuple[int, int]:
        rows = original(*arguments)
        os.kill(os.getpid(), signal.SIGSTOP)
        return rows

    row_merging._copy = copy_and_sleep  # type: ignore[assignment]
    deliver(database, made)


@pytest.fixture
def sleeper(database: PostgresDatabase, folder: Path) -> Iterator[Any]:
    """Yield a runner that is stopped after it delivered its rows and before it commits."""
    made = delivery(folder, ("late", 1))
    process = get_context("fork").Process(target=_sleep_in_the_middle, args=(database, made))
    process.start()
    wait_until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    yield process
    process.kill()
    process.join()


def test_a_sleeping_runner_is_killed_and_delivers_nothing_when_it_wakes(
    database: PostgresDatabase, sleeper: Any
) -> None:
    deliverer = CONNECTOR.deliverer(database.setting)
    assert deliverer.kill(database.unit, "flights", "ops.totals", 1).outcome is DeliveryOutcome.KILLED
    os.kill(sleeper.pid, signal.SIGCONT)
    sleeper.join(30)
    assert sleeper.exitcode == 1
    assert database.rows() == []
    found = deliverer.find(database.unit, "flights", "ops.totals", 1)
    assert found is not None
    assert found.outcome is DeliveryOutcome.KILLED


def test_a_lock_timeout_is_a_transient_error(database: PostgresDatabase, folder: Path) -> None:
    deliver(database, delivery(folder, ("a", 1)))
    with database.server.connect() as other:
        other.execute(f"BEGIN; LOCK TABLE {database.schema}.totals IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(WaterclockError) as refused:
            deliver(database, delivery(folder, ("b", 2), claim=2, label_text="20130102000000"))
    assert (refused.value.code, refused.value.transient) == ("E811", True)
    assert [row["id"] for row in database.rows()] == ["a"]


def test_a_user_without_permission_is_reported(database: PostgresDatabase, folder: Path) -> None:
    deliver(database, delivery(folder, ("a", 1)))
    database.run("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
    database.run(f"GRANT USAGE ON SCHEMA {database.schema} TO guest; GRANT ALL ON waterclock_deliveries TO guest")
    options = {**database.setting.options, "url": database.server.url.replace("postgres@", "guest@")}
    guest = CONNECTOR.deliverer(replace(database.setting, options=options))
    with pytest.raises(WaterclockError, match="denies permission") as refused:
        guest.deliver(database.unit, [delivery(folder, ("b", 2), claim=2, label_text="20130102000000")])
    assert refused.value.code == "E821"


def test_an_unreachable_server_is_a_transient_error(database: PostgresDatabase, folder: Path) -> None:
    options = {**database.setting.options, "url": "postgresql://ann:secret@127.0.0.1:1/none"}
    away = CONNECTOR.deliverer(replace(database.setting, options=options))
    with pytest.raises(WaterclockError) as refused:
        away.deliver(database.unit, [delivery(folder, ("a", 1))])
    assert (refused.value.code, refused.value.transient) == ("E810", True)
    assert "secret" not in refused.value.render()


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("nobody@127.0.0.1:{port}/postgres", "refuses the login"),
        ("keeper:wrong@127.0.0.1:{port}/postgres", "refuses the login"),
        ("keeper@127.0.0.1:{port}/postgres", "refuses the login"),
        ("postgres@127.0.0.1:{port}/nowhere", "does not exist"),
    ],
)
def test_a_refused_connection_is_no_outage(database: PostgresDatabase, folder: Path, path: str, what: str) -> None:
    refusing = replace(database.setting, options={"url": f"postgresql://{path.format(port=database.server.port)}"})
    with pytest.raises(WaterclockError) as written:
        CONNECTOR.deliverer(refusing).deliver(database.unit, [delivery(folder, ("a", 1))])
    with pytest.raises(WaterclockError) as read:
        CONNECTOR.collector(refusing).clock(database.unit)
    for error in (written.value, read.value):
        assert (error.code, error.transient) == ("E810", False)
        assert error.what == f"the database of the connection {refusing.name} {what}"
        assert f"connections.{refusing.name}" in str(error.fix)
        assert "wrong" not in error.render()


@pytest.mark.parametrize(
    "login", ["se/cret", "12/secret", "12?secret", "12#secret", "se?cret=1", "sec%zz", "sec ret", "sec@cret"]
)
def test_no_part_of_a_password_in_an_address_is_shown(tmp_path: Path, login: str) -> None:
    setting = setting_of("ops", tmp_path, url=f"postgresql://loader:{login}@127.0.0.1:1/shop")
    with pytest.raises(WaterclockError) as refused:
        CONNECTOR.deliverer(setting)
    told = f"{refused.value} {refused.value.to_dict()} {refused.value.__cause__}".replace("{ secret = '...' }", "")
    assert refused.value.code == "E803"
    assert not [part for part in ("cret", "zz", "'se'") if part in told]


@pytest.mark.parametrize("url", ["host=/run dbname=shop", "postgresql:///shop", "postgresql://a,b:1,2/shop?user=x%40y"])
def test_other_addresses_are_taken(tmp_path: Path, url: str) -> None:
    CONNECTOR.deliverer(setting_of("ops", tmp_path, url=url))


@pytest.mark.parametrize(
    ("spark", "made"),
    [
        ("string", "TEXT"), ("VARCHAR(3)", "TEXT"), ("decimal", "NUMERIC(10,0)"), ("DECIMAL(38, 18)", "NUMERIC(38,18)"),
        ("array<array<int>>", "JSONB"), ("map<string,int>", "JSONB"), ("variant", "JSONB"), ("array<date>", "DATE[]"),
    ],
)  # fmt: skip
def test_spark_types_have_their_counterparts(spark: str, made: str) -> None:
    assert DIALECT.sql_type(spark) == made
