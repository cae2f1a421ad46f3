"""Tables that can be followed, the servers that support it, and changes of tables meanwhile. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.postgres import server
from waterclock.connectors.postgres.database import PostgresDatabase
from waterclock.connectors.postgres.slots import Slot, create_slot
from waterclock.connectors.postgres.table_facts import (
    PostgresTableFacts,
    UnfitDecoder,
    facts_of,
    require_followable,
    require_same,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Place, Unit


class Here:
    """A schema of its own in the database."""

    def __init__(self) -> None:
        self.schema = server().fresh_schema()
        server().run(f"CREATE SCHEMA {self.schema}")
        self.database = PostgresDatabase(server().url, "here", "here", self.schema)

    def sql(self, text: str) -> None:
        with closing(server().connect()) as connection:
            connection.execute(f"SET search_path = {self.schema}; {text}")

    def facts(self, table: str = "t") -> PostgresTableFacts:
        with self.database.open_connection("t") as connection:
            return facts_of(connection, unit(table))

    def refused(self, table: str) -> str:
        with pytest.raises(WaterclockError) as refused:
            self.facts(table)
        assert refused.value.code == "E862"
        return refused.value.what


def unit(table: str = "t") -> Unit:
    return Unit("ops", table, None, {}, Place("a.dpl", 1, 1))


@pytest.fixture
def here() -> Iterator[Here]:
    made = Here()
    yield made
    server().run(f"DROP SCHEMA {made.schema} CASCADE")


def test_views_and_tables_without_a_usable_log_are_refused(here: Here) -> None:
    here.sql("CREATE TABLE t (id int PRIMARY KEY); CREATE VIEW v AS SELECT * FROM t; CREATE TABLE bare (id int)")
    here.sql(
        "CREATE UNLOGGED TABLE u (id int PRIMARY KEY); CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)"
    )
    assert here.refused("v") == "v is a view"
    assert here.refused("u") == "u is not logged"
    assert here.refused("p") == "p is a partitioned table"
    assert here.refused("bare") == "bare has no primary key or replica identity"
    here.sql("ALTER TABLE bare REPLICA IDENTITY FULL")
    assert here.facts("bare").is_whole
    with pytest.raises(WaterclockError, match="no table"):
        here.facts("nowhere")


def test_the_declared_key_must_be_in_the_replica_identity(here: Here) -> None:
    here.sql(
        "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL UNIQUE, twice int GENERATED ALWAYS AS (id * 2) STORED)"
    )
    facts = here.facts()
    require_followable(facts, unit(), ["id"], ["id", "code"], "pgoutput")
    require_followable(facts, unit(), ["id"], ["id", "twice"], "wal2json")
    for keys, taken in ((["code"], ["code"]), (["id"], ["id", "twice"])):
        with pytest.raises(WaterclockError) as refused:
            require_followable(facts, unit(), keys, taken, "pgoutput")
        assert refused.value.code == "E862"
    here.sql("ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key")
    require_followable(here.facts(), unit(), ["code"], ["code"], "pgoutput")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("ALTER TABLE t ADD extra int", None),
        ("ALTER TABLE t DROP b", None),
        ("ALTER TABLE t ALTER v TYPE text", None),
        ("ALTER TABLE t ALTER a TYPE varchar(90) USING left(a, 1)", "was rewritten with a changed a{behind}"),
        ("ALTER TABLE t ADD extra int DEFAULT 5", "has a new column extra with values"),
        ("ALTER TABLE t ADD extra serial", "has a new column extra with values"),
        ("ALTER TABLE t RENAME a TO c", "has renamed its column a to c"),
        ("ALTER TABLE t ALTER b TYPE bigint USING b * 2", "has b as int8, formerly int4"),
        ("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, a text, b int)", "is not the same table as before"),
    ],
)
def test_table_alterations_not_in_the_log_are_reported(here: Here, change: str, what: str | None) -> None:
    here.sql("CREATE TABLE t (id int PRIMARY KEY, a text, b int, v varchar(5))")
    before = here.facts().to_record()
    here.sql(change)
    facts = here.facts()
    taken = [column.name for column in facts.columns]
    if what is None:
        require_same(facts, before, unit(), taken, "wal2json")
        return
    with pytest.raises(WaterclockError) as refused:
        require_same(facts, before, unit(), taken, "wal2json")
    # newer servers also mark the columns after an altered one
    said = {f"t {what.format(behind=behind)}" for behind in ("", " or b or v")}
    assert refused.value.code == "E863"
    assert refused.value.what in said
    assert "snapshot" in str(refused.value.fix)


def test_a_refused_slot_creation_is_reported_with_its_reason(here: Here) -> None:
    here.sql("CREATE TABLE t (id int PRIMARY KEY)")
    at, role = server(), f"r_{here.schema}"
    table = f'"{here.schema}".t'
    with pytest.raises(UnfitDecoder), create_slot(here.database, "t", Slot("waterclock_none", "no_such_plugin"), table):
        pass
    at.run(f"CREATE ROLE {role} LOGIN")
    try:
        poor = PostgresDatabase(at.url.replace("postgres@", f"{role}@"), "here", "here", here.schema)
        for plugin in ("wal2json", "pgoutput"):
            with (
                pytest.raises(WaterclockError) as refused,
                create_slot(poor, "t", Slot("waterclock_none", plugin), table),
            ):
                pass
            assert refused.value.code == "E861"
            assert refused.value.fix
    finally:
        at.run(f"DROP ROLE {role}")
    slots: list[Any] = at.run("SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'waterclock_none'")
    publications = at.run("SELECT pubname FROM pg_publication WHERE pubname = 'waterclock_none'")
    assert (slots, publications) == ([], [])
