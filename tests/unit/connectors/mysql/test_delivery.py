"""Deliveries to MariaDB and MySQL: cases that the conformance suite does not cover."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.postgres import wait_until
from tests.systems import MysqlDatabase, setting_of, unit_of
from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.mysql.connector import CONNECTOR
from waterclock.connectors.mysql.dialect import DIALECT
from waterclock.connectors.sql import delivery_after_ddl as module
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
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
def database(tmp_path: Path) -> MysqlDatabase:
    return MysqlDatabase(tmp_path)


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


def deliver(database: MysqlDatabase, *deliveries: Delivery) -> DeliveryOutcome:
    return CONNECTOR.deliverer(database.setting).deliver(database.unit, deliveries)[-1].outcome


TYPES = {
    "s": ("STRING", pa.array(["", "a\"b\n,\\N '\u0436\U0001f600 %s"]), "longtext",
          ["", "a\"b\n,\\N '\u0436\U0001f600 %s"]),
    "b": ("BOOLEAN", pa.array([True, None]), "tinyint(1)", [1, None]),
    "i2": ("SMALLINT", pa.array([1, -2], pa.int16()), "smallint(6)", [1, -2]),
    "i8": ("BIGINT", pa.array([2**62, None]), "bigint(20)", [2**62, None]),
    "f": ("DOUBLE", pa.array([1.5, 1e-300]), "double", [1.5, 1e-300]),
    "n": ("DECIMAL(20,4)", pa.array([Decimal("1234567890123456.7891"), None], pa.decimal128(20, 4)), "decimal(20,4)",
          [Decimal("1234567890123456.7891"), None]),
    "d": ("DATE", pa.array([date(2013, 2, 28), None]), "date", [date(2013, 2, 28), None]),
    "tz": ("TIMESTAMP", pa.array([datetime(2013, 1, 1, 5, 0, 0, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
           "datetime(6)", [datetime(2013, 1, 1, 5, 0, 0, 1), None]),  # noqa: DTZ001
    "ts": ("TIMESTAMP_NTZ", pa.array([datetime(2013, 1, 1, 5), None], pa.timestamp("us")),  # noqa: DTZ001
           "datetime(6)", [datetime(2013, 1, 1, 5), None]),  # noqa: DTZ001
    "by": ("BINARY", pa.array([b"\x00\xff'\\", None]), "longblob", [b"\x00\xff'\\", None]),
    "ai": ("ARRAY<BIGINT>", pa.array([[1, None], None]), "longtext", ["[1, null]", None]),
    "st": ("STRUCT<x: INT>", pa.array([{"x": 1}, None]), "longtext", ['{"x": 1}', None]),
}  # fmt: skip


def test_every_type_keeps_its_values(database: MysqlDatabase, folder: Path) -> None:
    table = pa.table({"key": pa.array([1, 2])} | {name: values for name, (_, values, _, _) in TYPES.items()})
    columns = (("key", "BIGINT"), *((name, kind) for name, (kind, _, _, _) in TYPES.items()))
    deliver(database, replace(PLAIN, columns=columns, files=sealed(folder, table)))
    rows = sorted(database.rows(), key=lambda row: row["key"])
    for name, (_, _, _, wanted) in TYPES.items():
        assert [row[name] for row in rows] == wanted, name
    asked = (
        "SELECT column_name, column_type FROM information_schema.columns"
        " WHERE table_schema = database() AND table_name = 'totals' AND column_name <> 'key'"
    )
    assert dict(database.run(asked)) == {name: kind for name, (_, _, kind, _) in TYPES.items()}


def test_an_instant_is_one_in_a_timestamp_whatever_the_servers_zone(database: MysqlDatabase, folder: Path) -> None:
    database.run("CREATE TABLE totals (at timestamp(6) NULL, id int)")
    at = datetime(2013, 7, 1, 5, 0, 0, 1, tzinfo=UTC)
    table = pa.table({"at": pa.array([at], pa.timestamp("us", "UTC")), "id": [1]})
    columns = (("at", "TIMESTAMP"), ("id", "BIGINT"))
    deliver(database, replace(PLAIN, columns=columns, files=sealed(folder, table)))
    assert database.run("SELECT UNIX_TIMESTAMP(at) FROM totals") == [(Decimal("1372654800.000001"),)]


def test_a_destination_keeps_its_own_types(database: MysqlDatabase, folder: Path) -> None:
    database.run(
        "CREATE TABLE totals (`ID` char(3) CHARACTER SET latin1 COLLATE latin1_bin PRIMARY KEY, feels enum('sad','ok'),"
        " told json, amount decimal(6,1), many bigint unsigned, bits bit(3), note text)"
    )
    table = pa.table(
        {"id": ["caf"], "feels": ["ok"], "told": ['{"a": 1}'], "amount": [7], "many": [2**63 - 1], "bits": [5]}
    )
    columns = (("id", "STRING"), ("feels", "STRING"), ("told", "STRING"), ("amount", "BIGINT"), ("many", "BIGINT"))
    made = replace(
        PLAIN, columns=(*columns, ("bits", "BIGINT")), files=sealed(folder, table), mode=Mode.MERGE, keys=("id",)
    )
    deliver(database, made)
    database.run("UPDATE totals SET note = 'mine'")
    deliver(database, replace(made, claim=2, label_text="20130102000000"))
    [row] = database.rows()
    assert row == {
        "ID": "caf", "feels": "ok", "told": '{"a": 1}', "amount": Decimal("7.0"), "many": 2**63 - 1, "bits": b"\x05",
        "note": "mine",
    }  # fmt: skip


@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.MERGE])
def test_the_server_generates_no_value(database: MysqlDatabase, folder: Path, mode: Mode) -> None:
    database.run(
        "CREATE TABLE totals (id int AUTO_INCREMENT PRIMARY KEY, amount int, at timestamp NOT NULL DEFAULT now())"
    )
    at = pa.array([AT, AT], pa.timestamp("us", "UTC")).cast(pa.timestamp("s", "UTC"), safe=False)
    table = pa.table({"id": pa.array([0, 5], pa.int32()), "amount": pa.array([1, 2], pa.int32()), "at": at})
    columns = (("id", "INT"), ("amount", "INT"), ("at", "TIMESTAMP"))
    made = replace(PLAIN, columns=columns, files=sealed(folder, table), mode=mode, keys=("id",))
    for claim in (1, 2):
        deliver(database, replace(made, claim=claim, label_text=f"2013010{claim}000000"))
        assert [row["id"] for row in database.rows()] == [0, 5]
    for name in ("id", "at"):
        bent = table.set_column(table.column_names.index(name), name, pa.nulls(2, table[name].type))
        with pytest.raises(WaterclockError, match=f"{name} cannot store NULL") as refused:
            deliver(database, replace(made, claim=3, label_text="20130103000000", files=sealed(folder, bent)))
        assert refused.value.code == "E812"


def test_a_value_that_the_destination_does_not_take_changes_nothing(database: MysqlDatabase, folder: Path) -> None:
    deliver(database, delivery(folder, ("a", 1)))
    database.run("ALTER TABLE totals ADD CHECK (amount < 100)")
    with pytest.raises(WaterclockError, match="rejected") as refused:
        deliver(database, delivery(folder, ("b", 200), claim=2, label_text="20130102000000"))
    assert refused.value.code == "E813"
    assert [row["id"] for row in database.rows()] == ["a"]
    assert CONNECTOR.deliverer(database.setting).find(database.unit, "flights", "ops.totals", 2) is None


AT = datetime(2013, 1, 1, 5, 30, 0, 123456, tzinfo=UTC)
OF_SPARK = {
    "DECIMAL(6,3)": pa.decimal128(6, 3), "TIMESTAMP": pa.timestamp("us", "UTC"), "DOUBLE": pa.float64(),
    "STRING": pa.string(), "INT": pa.int32(), "BIGINT": pa.int64(), "BINARY": pa.binary(),
}  # fmt: skip


@pytest.mark.sampled(12)
@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.MERGE])
@pytest.mark.parametrize(
    ("kind", "spark", "fits", "cut"),
    [
        ("decimal(6,2)", "DECIMAL(6,3)", Decimal("1.550"), Decimal("1.555")),
        ("int", "DECIMAL(6,3)", Decimal("-7.000"), Decimal("-7.001")),
        ("int", "DOUBLE", 7.0, 7.5),
        ("int", "STRING", "7", "7.5"),
        ("int", "STRING", "7", "seven"),
        ("date", "TIMESTAMP", LABEL, AT),
        ("datetime(3)", "TIMESTAMP", AT.replace(microsecond=123000), AT),
        ("timestamp", "TIMESTAMP", AT.replace(microsecond=0), AT),
        ("timestamp", "TIMESTAMP", AT.replace(microsecond=0), AT.replace(year=2150, microsecond=0)),
        ("datetime", "STRING", "2013-01-01 05:00:00", "2013-01-01 05:00:00.5"),
        ("varchar(3)", "STRING", "abc", "abcd"),
        ("varchar(3)", "STRING", "abc", "abc "),
        ("tinyint unsigned", "INT", 255, -1),
        ("enum('a','b')", "STRING", "a", "c"),
        ("double", "DOUBLE", 1.5, float("nan")),
        ("varchar(9) character set latin1", "STRING", "caf\u00e9", "\u0436"),
        ("varchar(9) character set utf8mb3", "STRING", "\u0436", "\U0001f600"),
        ("date", "STRING", "2013-02-28", "0000-00-00"),
        ("json", "STRING", "{}", "{"),
        ("char(3)", "STRING", " a", "a "),
        ("binary(2)", "BINARY", b"ab", b"a"),
        ("year", "INT", 2001, 1),
        ("year", "STRING", "1999", "99"),
        ("enum('a','7')", "STRING", "7", "1"),
        ("enum('a','b')", "INT", None, 1),
        ("set('a','b')", "INT", None, 3),
        ("float", "INT", 2**25, 2**24 + 1),
        ("double", "BIGINT", -(2**62), 2**53 + 1),
    ],
)
def test_a_value_of_which_the_destination_keeps_less_is_refused(
    database: MysqlDatabase, folder: Path, mode: Mode, kind: str, spark: str, fits: object, cut: object
) -> None:
    """The server would round or truncate it, at most with a note."""
    database.run(f"CREATE TABLE totals (id varchar(9), amount {kind} NULL)")

    def brought(claim: int, *values: object) -> Delivery:
        rows = pa.table({"id": [str(at) for at in range(len(values))], "amount": pa.array(values, OF_SPARK[spark])})
        told: dict[str, Any] = {
            "claim": claim,
            "mode": mode,
            "columns": (("id", "STRING"), ("amount", spark)),
            "keys": ("id",) if mode is Mode.MERGE else (),
        }
        return replace(PLAIN, files=sealed(folder, rows), **told)

    deliver(database, brought(1, fits, None))
    before = database.rows()
    assert len(before) == 2
    with pytest.raises(WaterclockError) as refused:
        deliver(database, brought(2, fits, None, cut))
    assert refused.value.code in {"E812", "E813"}
    assert database.rows() == before


def test_a_table_of_an_engine_without_transactions_is_refused(database: MysqlDatabase, folder: Path) -> None:
    for engine in ("MyISAM", "Aria", "MEMORY"):
        database.run(f"CREATE OR REPLACE TABLE totals (id varchar(9), amount int) ENGINE = {engine}")
        with pytest.raises(WaterclockError, match=f"a table of {engine}") as refused:
            deliver(database, delivery(folder, ("a", 1)))
        assert refused.value.code == "E875"
        assert str(refused.value.fix).startswith("ALTER TABLE totals ENGINE = InnoDB")
        assert database.rows() == []


def test_a_foreign_view_is_refused_as_a_destination(database: MysqlDatabase, folder: Path) -> None:
    database.run("CREATE TABLE behind (id varchar(9), amount int) ENGINE = MyISAM")
    database.run("CREATE VIEW totals AS SELECT * FROM behind")
    with pytest.raises(WaterclockError, match="is a view") as refused:
        deliver(database, delivery(folder, ("a", 1)))
    assert refused.value.code == "E875"
    assert database.rows() == []


@pytest.mark.parametrize("there", ["A", "a ", "\u00e1"])
def test_keys_that_the_destination_treats_as_equal_are_refused(
    database: MysqlDatabase, folder: Path, there: str
) -> None:
    database.run("CREATE TABLE totals (id varchar(9) COLLATE utf8mb4_general_ci PRIMARY KEY, amount int)")
    merged = {"mode": Mode.MERGE, "keys": ("id",)}
    deliver(database, delivery(folder, (there, 1), **merged))
    made = delivery(folder, ("a", 2), claim=2, label_text="20130102000000", **merged)
    with pytest.raises(WaterclockError, match="another key as equal") as refused:
        deliver(database, made)
    assert refused.value.code == "E876"
    twice = delivery(folder, ("b", 2), ("B", 3), claim=3, label_text="20130102000000", **merged)
    with pytest.raises(WaterclockError, match="another key as equal"):
        deliver(database, twice)
    assert [(row["id"], row["amount"]) for row in database.rows()] == [(there, 1)]


def test_keys_of_a_table_that_waterclock_created_differ_by_every_character(
    database: MysqlDatabase, folder: Path
) -> None:
    keys = ["a", "A", "a ", "\u00e1", "", " "]
    made = delivery(folder, *((key, 1) for key in keys), mode=Mode.MERGE, keys=("id",))
    deliver(database, made)
    deliver(database, delivery(folder, ("a ", 2), claim=2, label_text="20130102000000", mode=Mode.MERGE, keys=("id",)))
    assert sorted((row["id"], row["amount"]) for row in database.rows()) == sorted(
        (key, 2 if key == "a " else 1) for key in keys
    )


def test_another_index_of_the_destination_decides_nothing(database: MysqlDatabase, folder: Path) -> None:
    """ON DUPLICATE KEY UPDATE would change the row with the same amount."""
    database.run("CREATE TABLE totals (id varchar(9) PRIMARY KEY, amount int UNIQUE)")
    merged = {"mode": Mode.MERGE, "keys": ("id",)}
    deliver(database, delivery(folder, ("a", 1), **merged))
    with pytest.raises(WaterclockError, match="Duplicate entry"):
        deliver(database, delivery(folder, ("b", 1), claim=2, label_text="20130102000000", **merged))
    assert [(row["id"], row["amount"]) for row in database.rows()] == [("a", 1)]


def test_a_table_without_a_row_may_be_left_where_a_delivery_fails(database: MysqlDatabase, folder: Path) -> None:
    broken = replace(delivery(folder), files=(folder / "nowhere.parquet",))
    with pytest.raises(WaterclockError, match="cannot be delivered"):
        deliver(database, broken)
    assert database.rows() == []
    assert deliver(database, delivery(folder, ("a", 1))) is DeliveryOutcome.DELIVERED


@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.MERGE])
def test_all_rows_are_delivered_despite_a_small_max_allowed_packet(
    database: MysqlDatabase, folder: Path, mode: Mode
) -> None:
    """A text with four bytes per character has four times as many bytes as characters."""
    smiles = [f"{at} {chr(0x1F600) * 300}" for at in range(2000)]
    rows = pa.table({"id": [str(at) for at in range(len(smiles))], "amount": smiles})
    columns, keys = (("id", "STRING"), ("amount", "STRING")), ("id",) if mode is Mode.MERGE else ()
    made = replace(PLAIN, columns=columns, mode=mode, keys=keys, files=sealed(folder, rows))
    most = database.run("SELECT @@GLOBAL.max_allowed_packet")[0][0]
    database.run("SET GLOBAL max_allowed_packet = 65536")
    try:
        deliver(database, made)
        assert sorted(row["amount"] for row in database.rows()) == sorted(smiles)
        big = pa.table({"id": ["0"], "amount": ["\U0001f600" * 20_000]})
        with pytest.raises(WaterclockError, match="max_allowed_packet") as refused:
            deliver(database, replace(made, claim=2, label_text="20130102000000", files=sealed(folder, big)))
    finally:
        database.run(f"SET GLOBAL max_allowed_packet = {most}")
    assert refused.value.code == "E812"
    assert not refused.value.transient
    assert len(database.rows()) == 2000


def test_all_rows_are_delivered_despite_select_limit_and_safe_updates(database: MysqlDatabase, folder: Path) -> None:
    """The server can be configured to return a limited number of rows, and to refuse a DELETE without a key."""
    deliver(database, delivery(folder, ("a", 1), ("b", 2), ("c", 3)))
    database.run("SET GLOBAL sql_select_limit = 1, GLOBAL sql_safe_updates = 1")
    try:
        deliverer = CONNECTOR.deliverer(database.setting)
        second = delivery(folder, ("a", 1), ("b", 4), claim=2, label_text="20130102000000")
        [delivered] = deliverer.deliver(database.unit, [second])
        assert (delivered.rows, delivered.deleted) == (2, 3)
        whole = replace(second, claim=3, label_text="20130103000000", mode=Mode.MERGE, keys=("id",), is_whole=True)
        [delivered] = deliverer.deliver(database.unit, [whole])
        assert delivered.rows == 2
    finally:
        database.run("SET GLOBAL sql_select_limit = DEFAULT, GLOBAL sql_safe_updates = 0")
    assert sorted((row["id"], row["amount"]) for row in database.rows()) == [("a", 1), ("b", 4)]


def test_names_that_are_too_long_are_refused(database: MysqlDatabase, folder: Path) -> None:
    long = "\u00e9" * 65
    with pytest.raises(WaterclockError, match="too long") as refused:
        CONNECTOR.deliverer(database.setting).deliver(unit_of("ops", long), [delivery(folder, ("a", 1))])
    assert refused.value.code == "E813"


@pytest.mark.parametrize("is_by_label", [True, False])
def test_any_other_name_is_taken(database: MysqlDatabase, folder: Path, *, is_by_label: bool) -> None:
    """A percent sign is literal, also in a statement with values."""
    at, unit = CONNECTOR.deliverer(database.setting), unit_of("ops", '50% `of` "select";')
    for claim in (1, 2):
        one = delivery(folder, ("a", 1), claim=claim, mode=Mode.APPEND, is_from_partitioned=is_by_label)
        assert at.deliver(unit, [one])[-1].outcome is DeliveryOutcome.DELIVERED
        assert at.find_loss(unit, PLAIN.project, PLAIN.publish, claim) is None


def test_readers_see_the_old_or_the_new_rows_and_never_an_empty_table(database: MysqlDatabase, folder: Path) -> None:
    deliver(database, delivery(folder, ("a", 1)))
    with closing(database.server.connect(database.name)) as early, early.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        seen = []
        for claim in range(2, 5):
            deliver(database, delivery(folder, ("b", claim), claim=claim, label_text=f"2013010{claim}000000"))
            cursor.execute("SELECT count(*), min(id) FROM totals")
            seen.append(cursor.fetchone())
    assert set(seen) == {(1, "a")}


def test_two_that_deliver_one_claim_at_once_deliver_it_once(database: MysqlDatabase, folder: Path) -> None:
    made = delivery(folder, *((str(at), at) for at in range(500)), mode=Mode.APPEND, is_from_partitioned=True)
    patient = replace(database.setting, options={**database.setting.options, "timeout": 120})

    def one(_: int) -> DeliveryOutcome:
        return CONNECTOR.deliverer(patient).deliver(database.unit, [made])[-1].outcome

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(one, range(4))) == {DeliveryOutcome.DELIVERED}
    assert len(database.rows()) == 500


def _sleep_in_the_middle(database: MysqlDatabase, made: Delivery) -> None:
    original = module.AfterDdlDeliverer._deliver_rows

    def bring_and_sleep(*arguments: Any) -> Delivered:
        delivered = original(*arguments)
        os.kill(os.getpid(), signal.SIGSTOP)
        return delivered

    module.AfterDdlDeliverer._deliver_rows = bring_and_sleep  # type: ignore[assignment,method-assign]
    deliver(database, made)


@pytest.fixture(params=[{}, {"behind": "view"}], ids=["table", "view"])
def sleeper(database: MysqlDatabase, folder: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yield a runner that is stopped after it delivered its rows and before it commits."""
    database.unit = unit_of("ops", "totals", **request.param)
    made = delivery(folder, ("late", 1))
    process = get_context("fork").Process(target=_sleep_in_the_middle, args=(database, made))
    process.start()
    wait_until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", seconds=120)
    yield process
    process.kill()
    process.join()


def test_a_sleeping_runner_is_killed_and_delivers_nothing_when_it_wakes(database: MysqlDatabase, sleeper: Any) -> None:
    deliverer = CONNECTOR.deliverer(database.setting)
    assert deliverer.kill(database.unit, "flights", "ops.totals", 1).outcome is DeliveryOutcome.KILLED
    os.kill(sleeper.pid, signal.SIGCONT)
    sleeper.join(60)
    assert sleeper.exitcode == 1
    assert database.rows() == []
    assert database.run("SHOW TABLES LIKE '\\_totals%'") == []
    found = deliverer.find(database.unit, "flights", "ops.totals", 1)
    assert found is not None
    assert found.outcome is DeliveryOutcome.KILLED


def _die_in(database: MysqlDatabase, made: Delivery, step: str) -> None:
    owner = module if step == "update_view" else module.AfterDdlDeliverer
    original = getattr(owner, step)

    def die(*arguments: Any, **named: Any) -> None:
        if step != "update_view":
            original(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, step, die)
    deliver(database, made)


@pytest.mark.parametrize(
    ("step", "options"),
    [
        ("_prepare_delivery", {}),
        ("_deliver_rows", {}),
        ("_prepare_delivery", {"behind": "view"}),
        ("_deliver_rows", {"behind": "view"}),
        ("update_view", {"behind": "view"}),
    ],
)
def test_a_killed_runner_leaves_all_or_nothing(
    database: MysqlDatabase, folder: Path, step: str, options: dict[str, Any]
) -> None:
    database.unit = unit_of("ops", "totals", **options)
    made = delivery(folder, ("a", 1), ("b", 2))
    process = get_context("fork").Process(target=_die_in, args=(database, made, step))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    deliverer = CONNECTOR.deliverer(database.setting)
    stands = deliverer.find(database.unit, "flights", "ops.totals", 1)
    assert (stands is not None) == (step == "update_view")
    assert database.rows() == [], "the runner that takes the claim over shows the stored rows"
    if stands is None:
        assert deliver(database, made) is DeliveryOutcome.DELIVERED
    else:
        assert deliverer.kill(database.unit, "flights", "ops.totals", 1).outcome is DeliveryOutcome.DELIVERED
    assert sorted(row["id"] for row in database.rows()) == ["a", "b"]


def test_environments_on_one_server_do_not_wait_for_each_other(database: MysqlDatabase, folder: Path) -> None:
    """A lock is global to the server, whatever database it is taken in."""
    other = MysqlDatabase(folder)
    other.setting = replace(other.setting, options={**other.setting.options, "timeout": 1})
    found: list[DeliveryOutcome] = []

    def strike(point: str) -> None:
        if point == "deliver.rows" and not found:
            found.append(DeliveryOutcome.KILLED)
            found.append(deliver(other, made))

    made = delivery(folder, ("a", 1))
    with inject_faults(strike):
        assert deliver(database, made) is DeliveryOutcome.DELIVERED
    assert found[1:] == [DeliveryOutcome.DELIVERED]


def test_a_lock_timeout_is_a_transient_error(database: MysqlDatabase, folder: Path) -> None:
    deliver(database, delivery(folder, ("a", 1)))
    hasty = replace(database.setting, options={**database.setting.options, "timeout": 1})
    with closing(database.server.connect(database.name)) as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM totals FOR UPDATE")
        late = delivery(folder, ("b", 2), claim=2, label_text="20130102000000")
        with pytest.raises(WaterclockError) as refused:
            CONNECTOR.deliverer(hasty).deliver(database.unit, [late])
    assert (refused.value.code, refused.value.transient) == ("E811", True)
    assert [row["id"] for row in database.rows()] == ["a"]


def test_a_user_without_permission_is_reported(database: MysqlDatabase, folder: Path) -> None:
    deliver(database, delivery(folder, ("a", 1)))
    database.run("CREATE OR REPLACE USER guest@'%' IDENTIFIED BY 'g'")
    database.run(f"GRANT SELECT ON {database.name}.* TO guest@'%'")
    url = database.server.url(database.name, "guest")
    guest = CONNECTOR.deliverer(replace(database.setting, options={"url": url, "password": "g"}))
    with pytest.raises(WaterclockError, match="denies permission") as refused:
        guest.deliver(database.unit, [delivery(folder, ("b", 2), claim=2, label_text="20130102000000")])
    assert refused.value.code == "E821"
    assert (
        refused.value.fix
        == "check that url names the right database, or grant the permission to its user; then run again"
    )


def test_an_unreachable_server_is_a_transient_error(database: MysqlDatabase, folder: Path) -> None:
    away = CONNECTOR.deliverer(replace(database.setting, options={"url": "mysql://ann:secret@127.0.0.1:1/none"}))
    with pytest.raises(WaterclockError) as refused:
        away.deliver(database.unit, [delivery(folder, ("a", 1))])
    assert (refused.value.code, refused.value.transient) == ("E810", True)
    assert "secret" not in refused.value.render()


@pytest.mark.parametrize(
    ("user", "name", "what"),
    [
        ("nobody:wrong", "mysql", "refuses the login"),
        ("keeper:wrong", "mysql", "refuses the login"),
        ("root", "nowhere", "does not exist"),
    ],
)
def test_a_refused_connection_is_no_outage(
    database: MysqlDatabase, folder: Path, user: str, name: str, what: str
) -> None:
    refusing = replace(database.setting, options={"url": database.server.url(name, user)})
    with pytest.raises(WaterclockError) as written:
        CONNECTOR.deliverer(refusing).deliver(database.unit, [delivery(folder, ("a", 1))])
    with pytest.raises(WaterclockError) as read:
        CONNECTOR.collector(refusing).clock(database.unit)
    for error in (written.value, read.value):
        assert (error.code, error.transient) == ("E810", False)
        assert error.what == f"the database of the connection {refusing.name} {what}"
        assert f"connections.{refusing.name}" in str(error.fix)
        assert "wrong" not in error.render()


@pytest.mark.parametrize("login", ["se/cret", "12?secret", "12#secret", "12/secret", "se?cret=1", "[secret", "sec%zz"])
def test_no_part_of_a_password_in_an_address_is_shown(tmp_path: Path, login: str) -> None:
    setting = setting_of("ops", tmp_path, url=f"mysql://loader:{login}@127.0.0.1:1/shop", timeout=1)
    with pytest.raises(WaterclockError) as refused:
        CONNECTOR.deliverer(setting).last(unit_of("ops", "totals"), "p", "q")
    told = f"{refused.value} {refused.value.to_dict()} {refused.value.__cause__}".replace("{ secret = '...' }", "")
    assert refused.value.code in {"E803", "E810"}
    assert not [part for part in ("cret", "zz", "'se'") if part in told]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://a@h/d", "begins with postgresql"),
        ("mysql://a@h", "names no database"),
        ("mysql://a@h:x/d", "its port or its parameters are malformed"),
        ("mysql://a:hidden1@h/d?sslmode=none", "its parameter sslmode is unknown"),
    ],
)
def test_an_invalid_address_is_refused(tmp_path: Path, url: str, why: str) -> None:
    with pytest.raises(WaterclockError, match=why) as refused:
        CONNECTOR.deliverer(setting_of("ops", tmp_path, url=url))
    assert refused.value.code == "E803"
    assert "hidden1" not in refused.value.render()


@pytest.mark.parametrize(
    ("spark", "made"),
    [
        ("string", "LONGTEXT"), ("VARCHAR(3)", "LONGTEXT"), ("decimal", "DECIMAL(10,0)"),
        ("DECIMAL(38, 18)", "DECIMAL(38,18)"), ("array<array<int>>", "JSON"), ("map<string,int>", "JSON"),
        ("TIMESTAMP", "DATETIME(6)"), ("variant", "JSON"),
    ],
)  # fmt: skip
def test_spark_types_have_their_counterparts(spark: str, made: str) -> None:
    assert DIALECT.sql_type(spark) == made


@pytest.mark.parametrize("rule", ["CASCADE", "SET NULL"])
@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.APPEND])
def test_rows_that_others_refer_to_are_not_deleted_to_be_written_again(
    database: MysqlDatabase, folder: Path, mode: Mode, rule: str
) -> None:
    database.run("CREATE TABLE totals (id varchar(9) PRIMARY KEY, amount int NULL)")
    deliver(database, delivery(folder, ("a", 1), mode=mode))
    database.run(
        f"CREATE TABLE `l%nes` (`o%f` varchar(9) NULL, FOREIGN KEY (`o%f`) REFERENCES totals (id) ON DELETE {rule})"
    )
    database.run("INSERT INTO `l%nes` VALUES ('a')")
    with pytest.raises(WaterclockError, match=f"l%nes refers to ops.totals by ON DELETE {rule}") as refused:
        deliver(database, delivery(folder, ("a", 2), claim=2, mode=mode))
    assert refused.value.code == "E820"
    assert database.run("SELECT `o%f` FROM `l%nes`") == [("a",)]
    assert [row["amount"] for row in database.rows()] == [1]
    merged: dict[str, Any] = {"mode": Mode.MERGE, "keys": ("id",)}
    database.run("DELETE FROM `l%nes`")
    assert deliver(database, delivery(folder, ("a", 2), claim=3, mode=mode)) is DeliveryOutcome.DELIVERED
    if mode is Mode.REPLACE:
        database.run("INSERT INTO `l%nes` VALUES ('a')")
        assert deliver(database, delivery(folder, ("a", 3), claim=4, **merged)) is DeliveryOutcome.DELIVERED
        assert database.run("SELECT `o%f` FROM `l%nes`") == [("a",)]
