"""Changes between two batches that bypass the log are reported, or are in the log after all. No Spark.

Each case was first produced by hand on a real server. The rows that a batch would pass to Spark are applied key by key:
the result is the content of the table, or the batch is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.followers import HERE, ROWS, Follower
from tests.postgres import drop_all_slots, needs_wal2json, server
from waterclock.connectors.postgres import change_collection, slot_reading
from waterclock.connectors.postgres.database import PostgresDatabase
from waterclock.connectors.postgres.slot_reading import FollowedTable
from waterclock.connectors.postgres.table_facts import facts_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Column, Columns


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
    "a column is renamed while no row is changed": (
        "UPDATE t SET a = 'before'",
        "ALTER TABLE t RENAME a TO c",
        "ALTER TABLE t RENAME c TO a",
        "UPDATE t SET a = 'after' WHERE id = 1",
    ),
    "harmless": (
        "UPDATE t SET a = 'before'",
        "ALTER TABLE t ALTER a SET DEFAULT 'x'; GRANT SELECT (a) ON t TO PUBLIC; COMMENT ON COLUMN t.a IS 'said'",
        "CREATE INDEX ON t (a); ALTER TABLE t ALTER a SET STATISTICS 50; ANALYZE t",
        "VACUUM FREEZE t",
        "VACUUM FREEZE pg_attribute",
        "VACUUM FULL pg_attribute",
        "UPDATE t SET a = 'after' WHERE id = 1",
    ),
    "a column comes and goes": (
        "ALTER TABLE t ADD x int",
        "UPDATE t SET x = 1",
        "ALTER TABLE t DROP x",
        "DELETE FROM t",
    ),
    "all columns tell a row": (
        "ALTER TABLE t REPLICA IDENTITY FULL; DELETE FROM t WHERE id = 1; UPDATE t SET a = 'f'",
    ),
    "a column that is NULL everywhere comes": ("ALTER TABLE t ADD more int", "UPDATE t SET more = 5 WHERE id = 1"),
    "another owner": ("ALTER TABLE t OWNER TO other; UPDATE t SET a = 'owned'",),
}


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_changes_recorded_in_the_log_are_applied_to_the_table(plugin: str) -> None:
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
        with pytest.raises(WaterclockError, match="had another name for a while"):
            it.read()


TOLD = {
    "a column renamed for a while": (
        "E863",
        "were renamed and renamed back while changes were logged",
        "ALTER TABLE t RENAME a TO c",
        "INSERT INTO t VALUES (9, 9, 'under c'); UPDATE t SET c = 'under c' WHERE id = 1",
        "ALTER TABLE t RENAME c TO a",
    ),
    "columns swapped for a while": (
        "E863",
        "were renamed and renamed back while changes were logged",
        "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b",
        "UPDATE t SET a = 'under a' WHERE id = 1",
        "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b",
    ),
    "a new column under its first name": (
        "E863",
        "were renamed and renamed back while changes were logged",
        "ALTER TABLE t ADD first text",
        "UPDATE t SET first = 'x'",
        "ALTER TABLE t RENAME first TO more",
    ),
    "rewritten": ("E863", "was rewritten with a changed a", "ALTER TABLE t ALTER a TYPE text USING a || 'x'"),
    "column made anew": ("E863", "has a different column a", "ALTER TABLE t DROP a; ALTER TABLE t ADD a text"),
    "identity by another key": (
        "E863",
        "that its log does not fully describe",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key",
        "UPDATE t SET id = 20 WHERE id = 2",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT",
    ),
    "deleted by another key": (
        "E863",
        "that its log does not fully describe",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key",
        "DELETE FROM t WHERE id = 2",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT",
    ),
    "heirs": ("E862", "has tables that inherit from it", "CREATE TABLE c () INHERITS (t); INSERT INTO c VALUES (9, 9)"),
}
OF_WAL2JSON = {
    "unlogged for a while": (
        "E863",
        "may have been UNLOGGED for a while",
        "ALTER TABLE t SET UNLOGGED",
        "UPDATE t SET a = 'not in the log'",
        "ALTER TABLE t SET LOGGED",
    ),
    "no identity": (
        "E863",
        "that its log does not fully describe",
        "ALTER TABLE t REPLICA IDENTITY NOTHING",
        "DELETE FROM t WHERE id = 1",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT; UPDATE t SET a = 'x' WHERE id = 2",
    ),
    "primary key dropped": (
        "E863",
        "that its log does not fully describe",
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
def test_changes_missing_from_the_log_are_reported(plugin: str, case: str) -> None:
    code, said, *texts = {**TOLD, **OF_WAL2JSON, **OF_PGOUTPUT}[case]
    it = Follower(plugin)
    it.read()
    it.sql(*(text.format(schema=it.schema) for text in texts))
    for _ in range(2):  # at each attempt
        with pytest.raises(WaterclockError, match=said) as refused:
            it.read()
        assert refused.value.code == code
        assert refused.value.fix


RENAMED_BACK = {
    "a change under another name": (
        "a change of gone.t in the log",
        "ALTER SCHEMA {schema} RENAME TO gone",
        "UPDATE gone.t SET a = 'under another name'",
        "ALTER SCHEMA gone RENAME TO {schema}",
    ),
    "a change of another table under its name": (
        "there is other.t in a schema altered since",
        "CREATE SCHEMA other; CREATE TABLE other.t (LIKE {schema}.t INCLUDING ALL)",
        "ALTER SCHEMA {schema} RENAME TO gone; ALTER SCHEMA other RENAME TO {schema}",
        "INSERT INTO {schema}.t VALUES (9, 9, 'of another table')",
        "ALTER SCHEMA {schema} RENAME TO other; ALTER SCHEMA gone RENAME TO {schema}",
    ),
}


@pytest.mark.parametrize("case", RENAMED_BACK)
@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_a_schema_is_renamed_and_renamed_back(plugin: str, case: str) -> None:
    why, *texts = RENAMED_BACK[case]
    it = Follower(plugin)
    try:
        for text in ["UPDATE {schema}.t SET a = 'before'", *texts, "UPDATE {schema}.t SET b = 'after' WHERE id = 1"]:
            it.at.run(text.format(schema=it.schema))
        if plugin == "pgoutput":
            it.read()
            assert it.held == it.source()
            return
        for _ in range(2):
            with pytest.raises(WaterclockError, match="may have had another name for a while") as refused:
                it.read()
            assert refused.value.code == "E863"
            assert why in str(refused.value.why)
            assert "decoder 'pgoutput'" in str(refused.value.fix)
    finally:
        it.at.run("DROP SCHEMA IF EXISTS other CASCADE")


def test_a_renamed_schema_is_noticed_by_a_later_batch_where_one_ends_before_it() -> None:
    it = Follower("wal2json")
    it.sql("UPDATE t SET a = 'first'")
    end = it.at.run("SELECT clock_timestamp()")[0][0]
    it.sql("UPDATE t SET a = 'second'")
    for text in RENAMED_BACK["a change under another name"][1:]:
        it.at.run(text.format(schema=it.schema))
    it.read(end)
    assert {row["a"] for row in it.held.values()} == {"first"}
    with pytest.raises(WaterclockError, match="may have had another name for a while"):
        it.read()


def test_a_grant_on_a_schema_stops_nothing_where_no_other_table_has_the_name() -> None:
    it = Follower("wal2json")
    it.sql(f"GRANT USAGE ON SCHEMA {it.schema} TO PUBLIC", "UPDATE t SET a = 'x'", "CREATE TEMP TABLE t (x int)")
    it.sql("UPDATE t SET a = 'y' WHERE id = 1")
    it.read()
    assert it.held == it.source()


def test_a_grant_on_a_schema_stops_nothing_where_the_schema_of_the_other_table_was_not_altered() -> None:
    it, other = Follower("wal2json"), Follower("wal2json")
    it.read()
    it.sql(f"GRANT USAGE ON SCHEMA {it.schema} TO PUBLIC", "UPDATE t SET a = 'x'")
    other.sql("UPDATE t SET a = 'of another'")
    it.sql("UPDATE t SET a = 'y' WHERE id = 1")
    it.read()
    assert it.held == it.source()


def test_a_column_dropped_and_added_again_counts_as_a_different_column() -> None:
    it = Follower("pgoutput")
    it.sql("ALTER TABLE t DROP a")
    it.read()
    it.sql("ALTER TABLE t ADD a text")
    with pytest.raises(WaterclockError, match="has a different column a than before"):
        it.read()


def test_collecting_a_formerly_excluded_column_is_reported() -> None:
    some = Columns((Column("id", HERE, is_key=True), Column("a", HERE)), is_open=False)
    it = Follower("pgoutput", list_of=some)
    it.sql("UPDATE t SET a = 'x'")
    it.read()
    it.declare(Columns((Column("id", HERE, is_key=True),)))
    with pytest.raises(WaterclockError, match="is now collected with code, which was left out before"):
        it.read()


def test_row_level_security_that_hides_rows_from_the_user_is_reported() -> None:
    it = Follower("pgoutput")
    role = f"r_{it.schema}"
    it.sql(f"CREATE ROLE {role} LOGIN REPLICATION; GRANT USAGE ON SCHEMA {it.schema} TO {role}")
    it.sql(f"GRANT SELECT ON t TO {role}; ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    poor = PostgresDatabase(it.at.url.replace("postgres@", f"{role}@"), "here", "here", it.schema)
    with (
        poor.open_connection("t") as connection,
        pytest.raises(WaterclockError, match="shows this user only some of its rows"),
    ):
        facts_of(connection, it.unit)
    it.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_of_many_missed_windows_each_decodes_the_log_up_to_about_its_own_end(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Follower("pgoutput")
    it.read()
    begin, ends = int(it.noted["to"]), []
    for number in range(10):
        it.sql(f"UPDATE t SET a = '{number}', b = repeat('b', 200000 + {number})")
        it.sql(
            "CREATE TABLE IF NOT EXISTS busy (x text)",
            "INSERT INTO busy SELECT repeat('x', 900) FROM generate_series(1, 900)",
        )
        ends.append(it.at.run("SELECT clock_timestamp()")[0][0])
    decoded: list[int] = []

    def spied(connection: Any, followed: FollowedTable, high: int) -> Any:
        decoded.append(high - int(it.noted["to"]))
        return slot_reading.events_of(connection, followed, high)

    monkeypatch.setattr(change_collection, "events_of", spied)
    monkeypatch.setattr(slot_reading, "_SHORTEST_READ", 1 << 16)
    for number, end in enumerate(ends):
        assert {row["a"] for row in it.read(end)} == {str(number)}
    assert it.held == it.source()
    size = int(it.noted["to"]) - begin
    assert sum(decoded) < 3 * size, "reading to the log's end each time would be at least five times as much"


def test_other_tables_without_an_identity_are_no_concern_of_ours() -> None:
    it = Follower("wal2json")
    it.sql("CREATE TABLE bare (x int)", "INSERT INTO bare VALUES (1)", "UPDATE bare SET x = 2", "DELETE FROM bare")
    it.sql(f"CREATE SCHEMA {it.schema}_b; CREATE TABLE {it.schema}_b.t (x int); INSERT INTO {it.schema}_b.t VALUES (1)")
    it.sql(f"UPDATE {it.schema}_b.t SET x = 2", "UPDATE t SET a = 'k' WHERE id = 1")
    it.read()
    assert it.held == it.source()
