from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tests.ledgers import add_fictitious_migration, desk, result, table
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.read.status import STATUS_TABLES
from waterclock.ledger.store import schema
from waterclock.ledger.store.database import NEWEST_SCHEMA, open_database
from waterclock.ledger.store.read_only import OlderSchema


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def test_a_missing_ledger_is_created_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "ledger.db"
    assert Ledger.open(url_of(path), create=False) is None
    assert not path.parent.exists()


def test_a_new_ledger_makes_its_folder_and_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "ledger.db"
    with Ledger.open(url_of(path)) as ledger:
        ledger.past.begin_run(who="ann", command="run", now=ledger.now())
    again = Ledger.open(url_of(path), create=False)
    assert again is not None
    with again:
        assert [run.command for run in again.past.runs()] == ["run"]


def test_migrations_make_exactly_the_declared_tables(tmp_path: Path) -> None:
    Ledger.open(url_of(tmp_path / "ledger.db")).close()
    engine = sa.create_engine(url_of(tmp_path / "ledger.db"))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
        made = {index["name"] for name in schema.metadata.tables for index in sa.inspect(connection).get_indexes(name)}
    engine.dispose()
    assert made == {index.name for table in schema.metadata.tables.values() for index in table.indexes}


def test_a_ledger_of_these_tests_has_the_tables_that_the_migrations_make(tmp_path: Path) -> None:
    """`tests.made_once` repeats the result of the first migration in a test run."""
    for name in ("first.db", "repeated.db"):
        Ledger.open(url_of(tmp_path / name)).close()
    migrate = "import sys; from waterclock.ledger.ledger import Ledger; Ledger.open(sys.argv[1]).close()"
    subprocess.run([sys.executable, "-c", migrate, url_of(tmp_path / "migrated.db")], check=True)

    def tables(name: str) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(tmp_path / name)) as database:
            told = database.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
            return told + database.execute("SELECT * FROM alembic_version").fetchall()

    assert tables("repeated.db") == tables("migrated.db")


def test_the_newest_migration_is_the_schema_version_that_opening_expects() -> None:
    from waterclock.ledger.store import migrations

    versions = Path(str(migrations.__file__)).parent / "versions"
    assert max(path.name for path in versions.glob("[0-9]*.py")).startswith(NEWEST_SCHEMA)


def test_a_later_migration_upgrades_a_ledger_and_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(tmp_path / "ledger.db")
    with Ledger.open(url) as ledger:
        ledger.past.begin_run(who="ann", command="run", now=ledger.now())
    add_fictitious_migration(tmp_path / "scripts", monkeypatch)
    with Ledger.open(url) as again:
        assert [run.command for run in again.past.runs()] == ["run"]
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database:
        assert database.execute("SELECT run IS NOT NULL, note FROM runs").fetchall() == [(1, "none")]
        assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


def test_only_a_project_itself_upgrades_its_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = url_of(tmp_path / "ledger.db")
    Ledger.open(url).close()
    add_fictitious_migration(tmp_path / "scripts", monkeypatch)
    with pytest.raises(OlderSchema) as older:
        Ledger.query(url, Ledger.sequence)
    assert older.value.found == NEWEST_SCHEMA


@pytest.mark.parametrize("version", ["0001", "0018"])
def test_a_ledger_of_a_development_version_is_refused_and_left_alone(tmp_path: Path, version: str) -> None:
    path = tmp_path / "ledger.db"
    Ledger.open(url_of(path)).close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = ?", [version])
    before = dump(path)
    with pytest.raises(WaterclockError, match="was written by a development version") as refused:
        Ledger.open(url_of(path))
    assert refused.value.code == "E402"
    assert f"its schema is {version}, and upgrades begin at 0019" in str(refused.value.why)
    assert "`waterclock ledger rebuild --force`" in str(refused.value.fix)
    assert dump(path) == before


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def test_views_for_outside_readers_have_the_public_columns(tmp_path: Path) -> None:
    Ledger.open(url_of(tmp_path / "ledger.db")).close()
    connection = sqlite3.connect(tmp_path / "ledger.db")
    for name, columns in STATUS_TABLES.items():
        found = connection.execute(f"SELECT * FROM waterclock_{name}").description
        assert [column[0] for column in found] == list(columns)
    connection.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, more than a hundred bytes of them, so that a header could stand here " * 3)
    before = path.read_bytes()
    with pytest.raises(WaterclockError, match="is damaged") as refused:
        Ledger.open(url_of(path))
    assert refused.value.code == "E422"
    assert "`waterclock ledger rebuild --force`" in str(refused.value.fix)
    assert path.read_bytes() == before


def test_another_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.close()
    with pytest.raises(WaterclockError, match="is not a ledger") as refused:
        Ledger.open(url_of(path))
    assert refused.value.code == "E401"
    assert "orders" in str(refused.value.why)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("orders",)]
    connection.close()


def test_a_ledger_of_newer_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger.open(url_of(path)).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9000'")
    connection.commit()
    connection.close()
    with pytest.raises(WaterclockError, match="newer version") as refused:
        Ledger.open(url_of(path))
    assert refused.value.code == "E402"


@pytest.mark.parametrize("url", ["mysql://x/y", "mysql://ann:secret@x/y", "postgresql+asyncpg://x/y", "ledger.db", ""])
def test_other_kinds_of_ledgers_are_refused(url: str) -> None:
    with pytest.raises(WaterclockError) as refused:
        Ledger.open(url)
    assert refused.value.code == "E403"
    assert "sqlite:///" in str(refused.value.fix)
    assert "secret" not in refused.value.render()


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WaterclockError) as refused:
        Ledger.open(url_of(tmp_path / "file" / "ledger.db"))
    assert refused.value.code == "E416"


def test_opening_an_existing_ledger_imports_no_migrations(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ledger.db")
    Ledger.open(url).close()
    code = (
        "import sys; from waterclock.ledger.ledger import Ledger\n"
        f"Ledger.open({url!r}).close()\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in {'alembic', 'mako', 'pyspark'}))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


def test_facts_and_records_import_no_database() -> None:
    code = (
        "import sys, waterclock.batches.ledger_snapshot, waterclock.batches.records, waterclock.batches.audit_records\n"
        "print('sqlalchemy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "False"


def _open_once(url: str) -> int:
    with Ledger.open(url) as ledger:
        return ledger.sequence()


@pytest.mark.slow
def test_processes_that_make_one_ledger_at_once_all_find_it(tmp_path: Path) -> None:
    url = url_of(tmp_path / "ledger.db")
    with get_context("spawn").Pool(4) as pool:
        assert pool.map(_open_once, [url] * 8) == [0] * 8


def test_who_opens_a_ledger_that_another_is_just_making_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE alembic_version (version_num TEXT)")
    ends = threading.Timer(0.3, other.execute, ("ROLLBACK",))
    ends.start()
    with Ledger.open(url_of(path)) as ledger:
        assert ledger.sequence() == 0
    ends.join()
    other.close()


def test_a_lock_that_is_not_given_up_is_a_transient_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.ledger.store.sqlite._BUSY_MILLISECONDS", 50)
    path = tmp_path / "ledger.db"
    with Ledger.open(url_of(path)) as ledger:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(WaterclockError) as refused:
            ledger.past.begin_run(who="ann", command="run", now=ledger.now())
        other.execute("ROLLBACK")
        other.close()
        assert refused.value.code == "E415"
        assert refused.value.transient
        ledger.past.begin_run(who="ann", command="run", now=ledger.now())
        assert len(ledger.past.runs()) == 1


def test_a_ledger_that_was_cut_off_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(url_of(path)) as ledger:
        ledger.past.add_event("seen", who="ann")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(WaterclockError) as refused:
        Ledger.open(url_of(path)).reads.tables()
    assert refused.value.code == "E422"


def test_a_statement_that_the_database_refuses_is_reported(tmp_path: Path) -> None:
    database = open_database(url_of(tmp_path / "ledger.db"), create=True, clock=None)
    assert database is not None
    with pytest.raises(WaterclockError) as refused, database.read() as connection:
        connection.execute(sa.text("SELECT nowhere()"))
    database.close()
    assert refused.value.code == "E416"
    assert "nowhere" in str(refused.value.why)


def test_every_write_raises_the_sequence_and_a_failed_one_does_not(tmp_path: Path) -> None:
    with Ledger.open(url_of(tmp_path / "ledger.db")) as ledger:
        before = ledger.sequence()
        ledger.past.add_event("seen", who="ann")
        assert ledger.sequence() == before + 1
        with pytest.raises(WaterclockError):
            ledger.declared.set_starts({"no.such": ledger.now()}, who="ann")
        assert ledger.sequence() == before + 1


def test_a_full_disk_loses_nothing_and_the_same_succeeds_later(tmp_path: Path) -> None:
    opened = desk(tmp_path)
    opened.apply(table("raw.a", partitioned=True))
    with opened.ledger:
        held = opened.claim("raw.a", 0)
        big = result(0, source={"log": "x" * 200_000})
        with opened.ledger._database.read() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(WaterclockError, match="cannot be used") as refused:
            opened.ledger.claims.record_done(held, [big])
        assert (refused.value.code, refused.value.why) == ("E416", "database or disk is full")
        assert opened.ledger.past.grid(["raw.a"])[0].status == "running"
        with opened.ledger._database.read() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        opened.ledger.claims.record_done(held, [big])
        assert opened.ledger.past.grid(["raw.a"])[0].status == "done"


def _die_while_recording(url: str) -> None:
    with Ledger.open(url) as ledger, ledger._database.write() as write:
        write.execute(sa.delete(schema.batches))
        os._exit(9)


def test_a_killed_writer_leaves_nothing_half_written(tmp_path: Path) -> None:
    opened = desk(tmp_path)
    opened.apply(table("raw.a", partitioned=True))
    with opened.ledger:
        opened.done("raw.a", 0)
        before = opened.ledger.sequence()
        killed = get_context("spawn").Process(target=_die_while_recording, args=(url_of(tmp_path / "ledger.db"),))
        killed.start()
        killed.join()
        assert killed.exitcode == 9
        assert opened.ledger.sequence() == before
        assert [cell.status for cell in opened.ledger.past.grid(["raw.a"])] == ["done"]
        opened.done("raw.a", 1)


@pytest.mark.parametrize("name", ["what? & why", "100%41 = a#b", 'it\'s; "mine" [x]'])
def test_a_ledger_is_created_at_its_path_even_with_special_characters(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "ledger.db"
    Ledger.open(url_of(path)).close()
    assert path.is_file()
    assert [each.name for each in tmp_path.iterdir()] == [name]
