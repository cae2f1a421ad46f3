"""What happens beside the log, between two batches, is told or is in the log after all; no Spark.

Each case was made by hand at a real server. The rows that a batch would hand to Spark are put in place key by key: what
they come to is what the table holds, or the batch is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.postgres import drop_all_slots, needs_wal2json, server
from waterclock.connectors.change_collector import ChangeRequest
from waterclock.connectors.postgres.database import Database
from waterclock.connectors.postgres.following import Following, confirm
from waterclock.connectors.postgres.slots import Slot, begun
from waterclock.connectors.postgres.table_facts import facts_of
from waterclock.errors import WaterclockError
from waterclock.flow.changes import MISSING, OP
from waterclock.flow.declarations import Column, Columns, Place, Unit

HERE = Place("a.dpl", 1, 1)
EVER = datetime(2100, 1, 1, tzinfo=UTC)
COLUMNS = "id int PRIMARY KEY, code int NOT NULL UNIQUE, a text, b text"
ROWS = "INSERT INTO t SELECT n, n + 10, 'a', repeat('b', 2100) FROM generate_series(1, 3) AS n"


class Rows:
    """Stands in for Spark: what it is handed is what it holds."""

    def createDataFrame(self, rows: Any, schema: Any = None) -> list[dict[str, Any]]:  # noqa: N802 - Spark's own name
        del schema
        return rows.to_pylist() if rows else []


class Follower:
    """A table with a slot, and what a replica of it holds."""

    def __init__(self, plugin: str, columns: str = COLUMNS, rows: str = ROWS, list_of: Columns | None = None) -> None:
        self.at, self.plugin = server(), plugin
        self.schema = self.at.fresh_schema()
        self.at.run(f"CREATE SCHEMA {self.schema}")
        self.database = Database(self.at.url, "here", self.schema)
        self.sql(f"CREATE TABLE t ({columns}); ALTER TABLE t ALTER b SET STORAGE EXTERNAL")
        self.sql(rows)
        self.unit = Unit("ops", "t", None, {}, HERE)
        self.held: dict[Any, dict[str, Any]] = {}
        self.declare(list_of or Columns((Column("id", HERE, is_key=True),)))
        self.begin()

    def declare(self, columns: Columns) -> None:
        """Take these columns from now on."""
        self.following = Following(self.database, self.unit, columns, "UTC")

    def sql(self, *texts: str) -> None:
        """Carry out texts, each in a session of its own."""
        for text in texts:
            with closing(self.at.connect()) as connection:
                connection.execute(f"SET search_path = {self.schema}")
                connection.execute(text)

    def begin(self) -> None:
        """Take the table whole, as the first batch does."""
        slot = Slot(f"waterclock_{self.schema}", self.plugin)
        with begun(self.database, "t", slot, f'"{self.schema}".t') as start, ExitStack() as held:
            connection = held.enter_context(self.database.reading("t", snapshot=start.snapshot))
            there, matched = self.following._columns(connection)
            del there
            self.noted = self.following._noted(connection, slot, facts_of(connection, self.unit), matched, None)
            place = self.following._place()
            self.noted |= self.following._reached(start.position, start.at, place)
            self.held = self.rows(connection)

    def rows(self, connection: Any) -> dict[Any, dict[str, Any]]:
        """Return what the table holds."""
        cursor = connection.execute(f"SELECT * FROM {self.schema}.t")
        names = [each.name for each in cursor.description]
        return {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}

    def source(self) -> dict[Any, dict[str, Any]]:
        """Return what the table holds now."""
        with closing(self.at.connect()) as connection:
            return self.rows(connection)

    def read(self, until: datetime = EVER, *, is_confirmed: bool = True) -> list[Mapping[str, Any]]:
        """Collect what came since, and put it in place."""
        spark: Any = Rows()
        read = self.following.read(spark, ChangeRequest(("id",), self.noted, until, lambda: "none"))
        rows: Any = read.collected.frame
        gone: dict[str, Any] = {}
        for row in rows:
            if row[OP] == "truncate":
                self.held.clear()
            elif row[OP] == "delete":
                gone = self.held.pop(row["id"], {})
            else:
                before = self.held.get(row["id"], {}) if row[OP] == "update" else gone
                told = {name: value for name, value in row.items() if not name.startswith("_waterclock")}
                self.held[row["id"]] = {
                    name: before.get(name) if name in row[MISSING] else value for name, value in told.items()
                }
        self.noted = dict(read.noted)
        if is_confirmed:
            confirm(self.database, self.unit, self.noted)
        return list(rows)


@pytest.fixture(autouse=True)
def _no_slots_are_left() -> Iterator[None]:
    needs_wal2json()
    yield
    drop_all_slots()


IN_THE_LOG = {
    "a savepoint rolled back": (
        (
            "BEGIN; INSERT INTO t VALUES (5, 5); SAVEPOINT s; DELETE FROM t WHERE id = 5; INSERT INTO t VALUES (5, 6);"
            "ROLLBACK TO s; SAVEPOINT r; UPDATE t SET a = 'z' WHERE id = 5; RELEASE r; DELETE FROM t WHERE id = 1;"
            " INSERT INTO t VALUES (1, 1); DELETE FROM t WHERE id = 1; COMMIT"
        ),
    ),
    "the key comes, goes and comes again": (
        (
            "BEGIN; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 1, 'x'); UPDATE t SET id = 9 WHERE id = 1;"
            " UPDATE t SET id = 1 WHERE id = 9; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 2, 'y'); COMMIT"
        ),
    ),
    "keys are swapped": ("BEGIN; UPDATE t SET id = -id WHERE id < 3; UPDATE t SET id = 3 + id WHERE id < 0; COMMIT",),
    "several tables are emptied": ("CREATE TABLE u (x int); TRUNCATE u, t; INSERT INTO t VALUES (7, 7, 'new')",),
    "large values are left alone": ("UPDATE t SET a = 'x'; UPDATE t SET id = id + 50 WHERE id = 2",),
    "the table is written anew": ("VACUUM FULL t", "UPDATE t SET a = 'after'"),
    "all columns tell a row": (
        "ALTER TABLE t REPLICA IDENTITY FULL; DELETE FROM t WHERE id = 1; UPDATE t SET a = 'f'",
    ),
    "a column that is NULL everywhere comes": ("ALTER TABLE t ADD more int", "UPDATE t SET more = 5 WHERE id = 1"),
    "another owner": ("ALTER TABLE t OWNER TO other; UPDATE t SET a = 'owned'",),
}


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_what_the_log_tells_comes_to_the_table(plugin: str) -> None:
    if not server().run("SELECT 1 FROM pg_roles WHERE rolname = 'other'"):
        server().run("CREATE ROLE other")
    it = Follower(plugin)
    for case, texts in IN_THE_LOG.items():
        it.sql(*texts)
        it.read()
        assert {key: {"more": None, **row} for key, row in it.held.items()} == {
            key: {"more": None, **row} for key, row in it.source().items()
        }, case
        it.sql("DELETE FROM t")
        it.sql(ROWS)
        it.read()
    it.sql("ALTER TABLE t RENAME TO other", "UPDATE other SET a = 'q'", "ALTER TABLE other RENAME TO t")
    if plugin == "pgoutput":
        it.read()
        assert {row["a"] for row in it.held.values()} == {"q"}
    else:
        with pytest.raises(WaterclockError, match="was called otherwise for a while"):
            it.read()


TOLD = {
    "rewritten": ("E863", "was written anew with another a", "ALTER TABLE t ALTER a TYPE text USING a || 'x'"),
    "column made anew": ("E863", "has another column a", "ALTER TABLE t DROP a; ALTER TABLE t ADD a text"),
    "identity by another key": (
        "E863",
        "that its log does not tell",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key",
        "UPDATE t SET id = 20 WHERE id = 2",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT",
    ),
    "deleted by another key": (
        "E863",
        "that its log does not tell",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key",
        "DELETE FROM t WHERE id = 2",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT",
    ),
    "heirs": ("E862", "has tables that inherit from it", "CREATE TABLE c () INHERITS (t); INSERT INTO c VALUES (9, 9)"),
}
OF_WAL2JSON = {
    "no identity": (
        "E863",
        "that its log does not tell",
        "ALTER TABLE t REPLICA IDENTITY NOTHING",
        "DELETE FROM t WHERE id = 1",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT; UPDATE t SET a = 'x' WHERE id = 2",
    ),
    "primary key dropped": (
        "E863",
        "that its log does not tell",
        "ALTER TABLE t DROP CONSTRAINT t_pkey",
        "UPDATE t SET id = 7 WHERE id = 1",
        "ALTER TABLE t ADD PRIMARY KEY (id)",
    ),
}
OF_PGOUTPUT = {
    "publication dropped": ("E860", "is gone", "DROP PUBLICATION waterclock_{schema}; UPDATE t SET a = 'x'"),
    "publication narrowed": (
        "E860",
        "was altered",
        "ALTER PUBLICATION waterclock_{schema} SET (publish = 'insert')",
        "UPDATE t SET a = 'x'",
        "ALTER PUBLICATION waterclock_{schema} SET (publish = 'insert, update, delete, truncate')",
    ),
}
CASES = [
    *((plugin, name) for plugin in ("wal2json", "pgoutput") for name in TOLD),
    *(("wal2json", name) for name in OF_WAL2JSON),
    *(("pgoutput", name) for name in OF_PGOUTPUT),
]


@pytest.mark.parametrize(("plugin", "case"), CASES)
def test_what_the_log_lacks_is_told(plugin: str, case: str) -> None:
    code, said, *texts = {**TOLD, **OF_WAL2JSON, **OF_PGOUTPUT}[case]
    it = Follower(plugin)
    it.read()
    it.sql(*(text.format(schema=it.schema) for text in texts))
    for _ in range(2):  # and so at each try
        with pytest.raises(WaterclockError, match=said) as refused:
            it.read()
        assert refused.value.code == code
        assert refused.value.fix


def test_a_column_that_was_gone_for_a_batch_is_another_one_when_it_comes_back() -> None:
    it = Follower("pgoutput")
    it.sql("ALTER TABLE t DROP a")
    it.read()
    it.sql("ALTER TABLE t ADD a text")
    with pytest.raises(WaterclockError, match="has another column a than before"):
        it.read()


def test_a_column_that_was_left_out_before_is_told() -> None:
    some = Columns((Column("id", HERE, is_key=True), Column("a", HERE)), is_open=False)
    it = Follower("pgoutput", list_of=some)
    it.sql("UPDATE t SET a = 'x'")
    it.read()
    it.declare(Columns((Column("id", HERE, is_key=True),)))
    with pytest.raises(WaterclockError, match="is asked for code, which was left out before"):
        it.read()


def test_rows_that_are_hidden_from_the_user_are_told() -> None:
    it = Follower("pgoutput")
    role = f"r_{it.schema}"
    it.sql(f"CREATE ROLE {role} LOGIN REPLICATION; GRANT USAGE ON SCHEMA {it.schema} TO {role}")
    it.sql(f"GRANT SELECT ON t TO {role}; ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    poor = Database(it.at.url.replace("postgres@", f"{role}@"), "here", it.schema)
    with poor.opened("t") as connection, pytest.raises(WaterclockError, match="shows this user some of its rows"):
        facts_of(connection, it.unit)
    it.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")
