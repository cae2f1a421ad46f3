"""A ledger in PostgreSQL: how it is created and found, and how its users handle an outage of the server."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tests.ledgers import Desk, add_fictitious_migration, day, flow, result, table
from tests.postgres import Server, server, wait_until
from waterclock.batches.audit_records import BatchState
from waterclock.engine.ledger_opening import require_ledger_not_lost
from waterclock.engine.maintenance.ledger_rebuild import rebuild_ledger
from waterclock.errors import WaterclockError
from waterclock.ledger.database_errors import LedgerUnreachableError
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store import postgres, schema
from waterclock.ledger.store.database import LedgerDatabase, open_database
from waterclock.ledger.store.locations import place_of
from waterclock.operations.project_opening import open_project

pytestmark = pytest.mark.slow
DECLARED = flow(table("raw.a", partitioned=True), table("raw.b"))


@pytest.fixture
def url() -> str:
    return server().ledger_url()


@pytest.fixture
def desk(url: str) -> Iterator[Desk]:
    with Ledger.open(url) as ledger:
        ledger.declared.apply(DECLARED, who="ann", now=day(0), runner="here")
        yield Desk(ledger, ledger.now, flow=DECLARED)  # type: ignore[arg-type]  # the ledger's own clock


@pytest.fixture
def outage() -> Iterator[Server]:
    """Yield the server, and start it again after the test."""
    at = server()
    yield at
    try:
        at.run("SELECT 1")
    except Exception:  # noqa: BLE001 - the server may still be suspended
        at.start()


def cells(desk: Desk) -> list[BatchState]:
    return desk.ledger.past.grid(["raw.a"])


def test_a_missing_ledger_is_created_only_on_request(url: str) -> None:
    assert Ledger.open(url, create=False) is None
    Ledger.open(url).close()
    found = Ledger.open(url, create=False)
    assert found is not None
    found.close()


def test_an_empty_schema_is_no_ledger_and_one_can_be_created_in_it(url: str) -> None:
    server().run(f'CREATE SCHEMA "{postgres.schema_of(sa.make_url(url))}"')
    assert Ledger.open(url, create=False) is None
    Ledger.open(url).close()


def test_another_applications_schema_is_refused_and_left_alone(url: str) -> None:
    name = postgres.schema_of(sa.make_url(url))
    server().run(f'CREATE SCHEMA "{name}"; CREATE TABLE "{name}".orders (id int)')
    with pytest.raises(WaterclockError, match="is not a ledger") as refused:
        Ledger.open(url)
    assert refused.value.code == "E401"
    asked = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace"
    assert server().run(asked, f'"{name}"') == [("orders",)]


def test_ledgers_of_two_schemas_know_nothing_of_each_other() -> None:
    with Ledger.open(server().ledger_url()) as one, Ledger.open(server().ledger_url()) as other:
        one.past.add_event("seen", who="ann")
        assert (one.sequence(), other.sequence()) == (1, 0)


@pytest.mark.parametrize("name", ["With Blanks", 'q"uote', "select"])
def test_a_schema_may_have_any_name(name: str) -> None:
    url = sa.make_url(server().url).update_query_dict({"schema": name}).render_as_string(hide_password=False)
    try:
        with Ledger.open(url) as ledger:
            ledger.past.add_event("seen", who="ann")
            assert len(list(ledger.past.rows("events"))) == 1
    finally:
        quoted = name.replace('"', '""')
        server().run(f'DROP SCHEMA "{quoted}" CASCADE')


def test_migrations_make_exactly_the_declared_tables(url: str) -> None:
    database = open_database(url, create=True, clock=None)
    assert database is not None
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
        collations = connection.exec_driver_sql(
            "SELECT DISTINCT collation_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND data_type = 'text' AND table_name <> 'alembic_version'"
        ).all()
    database.close()
    assert [tuple(row) for row in collations] == [("C",)]


def test_a_later_migration_upgrades_a_ledger_and_makes_a_new_one(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(url) as ledger:
        ledger.past.begin_run(who="ann", command="run", now=ledger.now())
    add_fictitious_migration(tmp_path / "scripts", monkeypatch)
    with Ledger.open(url) as again:
        assert [run.command for run in again.past.runs()] == ["run"]
    fresh = server().ledger_url()
    Ledger.open(fresh).close()
    for place, notes in ((url, [("none",)]), (fresh, [])):
        name = sa.make_url(place).query["schema"]
        assert server().run(f"SELECT note FROM {name}.runs") == notes
        assert server().run(f"SELECT version_num FROM {name}.alembic_version") == [("9999",)]


def test_a_ledger_of_a_development_version_is_refused(url: str) -> None:
    Ledger.open(url).close()
    server().run(f"UPDATE {sa.make_url(url).query['schema']}.alembic_version SET version_num = '0018'")
    with pytest.raises(WaterclockError, match="was written by a development version") as refused:
        Ledger.open(url)
    assert refused.value.code == "E402"


def _open_once(url: str) -> int:
    with Ledger.open(url) as ledger:
        return ledger.sequence()


def test_processes_that_make_one_ledger_at_once_all_find_it(url: str) -> None:
    with get_context("spawn").Pool(4) as pool:
        assert pool.map(_open_once, [url] * 8) == [0] * 8


def test_the_clock_is_the_servers(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock is an hour off uses the clock of the server for leases, claims and lookups."""
    before = server().run("SELECT clock_timestamp()")[0][0]
    at = desk.ledger.now()
    after = server().run("SELECT clock_timestamp()")[0][0]
    assert before <= at + timedelta(milliseconds=50)
    assert at <= after + timedelta(milliseconds=50)

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return super().now(tz) + timedelta(hours=1)

    monkeypatch.setattr(postgres, "datetime", Wrong)
    url = desk.ledger._database.url.render_as_string(hide_password=False)
    with Ledger.open(url) as other:
        assert abs(other.now() - desk.ledger.now()) < timedelta(seconds=1)
        claim = Desk(other, other.now, flow=DECLARED).claim("raw.a", 0, lease_seconds=60)  # type: ignore[arg-type]
    assert abs(claim.lease_until - desk.ledger.now() - timedelta(seconds=60)) < timedelta(seconds=2)


def test_an_unreachable_server_is_reported_at_once() -> None:
    begun = time.monotonic()
    with pytest.raises(WaterclockError, match="does not answer") as refused:
        Ledger.open("postgresql://ann:secret@127.0.0.1:1/none")
    assert refused.value.code == "E423"
    assert refused.value.transient
    assert time.monotonic() - begun < 5
    assert "secret" not in refused.value.render()


@pytest.mark.parametrize(
    ("path", "what", "why"),
    [
        ("nobody@127.0.0.1:{port}/postgres", "refuses the login", "nobody"),
        ("keeper:wrong@127.0.0.1:{port}/postgres", "refuses the login", "password"),
        ("keeper@127.0.0.1:{port}/postgres", "refuses the login", "password"),
        ("postgres@127.0.0.1:{port}/nowhere", "does not exist", "nowhere"),
    ],
)
def test_a_login_or_database_that_is_refused_is_no_outage(path: str, what: str, why: str) -> None:
    with pytest.raises(WaterclockError) as refused:
        Ledger.open(f"postgresql://{path.format(port=server().port)}")
    assert (refused.value.code, refused.value.transient) == ("E416", False)
    assert what in refused.value.what
    assert why in str(refused.value.why)
    assert "`ledger` of the environment" in str(refused.value.fix)


def test_a_ledger_whose_password_changes_in_a_run_is_waited_for(url: str) -> None:
    server().run("DROP ROLE IF EXISTS moving; CREATE ROLE moving LOGIN SUPERUSER")
    said: list[str] = []
    with Ledger.open(url.replace("postgres@", "moving@")) as ledger:
        ledger.report_to(said.append)
        first = ledger.sequence()
        server().run("ALTER ROLE moving NOLOGIN")
        server().run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'moving'")
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ledger.sequence)
            time.sleep(0.5)
            assert not asked.done()
            server().run("ALTER ROLE moving LOGIN")
            assert asked.result(timeout=30) == first
        assert any(line.startswith("the ledger refuses the login; waiting for it") for line in said)
        assert said[-1] == "the ledger answers again"
        ledger._database.patience = 0.3
        server().run("ALTER ROLE moving NOLOGIN")
        server().run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'moving'")
        with pytest.raises(WaterclockError, match="refuses the login") as refused:
            ledger.sequence()
        assert refused.value.code == "E416"


def test_a_user_without_privileges_is_reported(url: str) -> None:
    server().run("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN")
    with pytest.raises(WaterclockError, match="cannot be used") as refused:
        Ledger.open(url.replace("postgres@", "reader@"))
    assert refused.value.code == "E416"
    assert "permission denied" in str(refused.value.why)


def test_an_unknown_option_is_reported_with_the_nearest_known_one(url: str) -> None:
    with pytest.raises(WaterclockError, match="no option shema") as refused:
        Ledger.open(url.replace("schema=", "shema="))
    assert (refused.value.code, "schema" in str(refused.value.fix)) == ("E403", True)


def test_an_error_text_with_invalid_characters_is_stored_escaped(desk: Desk) -> None:
    claim = desk.claim("raw.a", 0)
    desk.ledger.claims.record_failed(claim, error="it holds a\x00 and \ud800", is_transient=False)
    [cell] = cells(desk)
    assert (cell.status, cell.error) == ("failed", r"it holds a\x00 and \ud800")


def test_a_move_continues_only_while_the_ledger_is_closed_for_it(desk: Desk) -> None:
    desk.ledger.maintenance.close_for("postgresql://db/other", who="ann")
    desk.ledger.maintenance.require_closed_for("postgresql://db/other")
    desk.ledger.maintenance.unlock_ledger()
    with pytest.raises(WaterclockError, match="in use") as refused:
        desk.ledger.maintenance.require_closed_for("postgresql://db/other")
    assert refused.value.code == "E426"


@pytest.mark.parametrize("replaces", [False, True])
def test_a_ledger_created_in_the_meantime_is_replaced_only_on_request(url: str, *, replaces: bool) -> None:
    place = place_of(url)
    Ledger.open(place.empty_draft()).close()
    with Ledger.open(url) as other:
        other.past.add_event("seen", who="ann")
    if not replaces:
        with pytest.raises(WaterclockError) as refused:
            place.install_draft(day(0), replaces=False)
        assert refused.value.code == "E417"
    else:
        assert place.install_draft(day(0), replaces=True) is not None
    with Ledger.open(url) as found:
        assert len(list(found.past.rows("events"))) == (0 if replaces else 1)


def test_a_ledger_in_another_schema_is_named_before_a_second_is_made(tmp_path: Path, desk: Desk, url: str) -> None:
    """A misspelt schema looks like a lost ledger."""
    (tmp_path / "flows").mkdir()
    toml = '[project]\nname = "demo"\n\n[env.dev]\nstorage = ".waterclock"\nledger = "{}"\n'
    (tmp_path / "waterclock.toml").write_text(toml.format(url + "x"))
    (tmp_path / "flows" / "a.dpl").write_text("TRANSFORM a.b EVERY DAY START '2013-01-01' AS SELECT 1 AS x;")
    project = open_project(tmp_path, "dev")
    with Ledger.open(server().ledger_url()) as of_another:
        of_another.declared.apply(flow(project="another"), who="ann", now=day(0), runner="here")
    with pytest.raises(WaterclockError) as refused:
        rebuild_ledger(project)
    schema = url.rpartition("=")[2]
    assert (refused.value.code, schema in str(refused.value.fix)) == ("E417", True)
    assert Ledger.open(url + "x", create=False) is None
    (tmp_path / ".waterclock" / "tables" / "a" / "b" / "_delta_log").mkdir(parents=True)
    with pytest.raises(WaterclockError) as refused:
        require_ledger_not_lost(project)
    assert (refused.value.code, f"?schema={schema}" in str(refused.value.fix)) == ("E421", True)
    shutil.rmtree(tmp_path / ".waterclock")
    rebuild_ledger(project, force=True)
    assert desk.ledger.reads.find_table("raw.a")
    assert place_of(url + "x").others("demo")[0] == schema  # the nearest name is first; schemas of other tests follow


def test_a_missing_driver_is_reported_with_the_package_to_install() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from waterclock.ledger.ledger import Ledger\n"
        "from waterclock.errors import WaterclockError\n"
        "try: Ledger.open('postgresql://localhost/x')\n"
        "except WaterclockError as error: print(error.code, error.fix)"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.startswith("E424 ")
    assert "psycopg[binary]" in ran.stdout


def test_a_server_that_is_away_for_a_while_is_waited_for(desk: Desk, outage: Server) -> None:
    said: list[str] = []
    desk.ledger.report_to(said.append)
    desk.done("raw.a", 0)
    outage.stop("immediate")
    with ThreadPoolExecutor(3) as pool:
        asked = pool.submit(cells, desk)
        later = [pool.submit(desk.done, "raw.a", label) for label in (1, 2)]
        time.sleep(0.5)
        assert not asked.done()
        assert not any(future.done() for future in later)
        outage.start()
        assert len(asked.result(timeout=30)) >= 1
        for future in later:
            future.result(timeout=30)
    assert [cell.status for cell in cells(desk)] == ["done"] * 3
    assert said[0].startswith("the ledger does not answer; waiting for it")
    assert "the ledger answers again" in said


def test_a_server_that_stays_unreachable_is_reported_when_the_patience_is_over(desk: Desk, outage: Server) -> None:
    desk.ledger._database.patience = 0.5
    outage.stop("immediate")
    with pytest.raises(LedgerUnreachableError):
        cells(desk)


def test_a_transaction_whose_connection_breaks_is_repeated_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken transaction wrote nothing, so it is repeated as a whole, once."""
    desk.done("raw.a", 0)
    held = desk.claim("raw.a", 1)
    broken: list[int] = []
    begin = LedgerDatabase._begin

    def breaks_after(self: LedgerDatabase, *, writes: bool, **first: Any) -> Any:
        begun = begin(self, writes=writes, **first)
        if writes and not broken:
            broken.append(_end_connections())
        return begun

    monkeypatch.setattr(LedgerDatabase, "_begin", breaks_after)
    desk.ledger.claims.record_done(held, [result(1)])
    assert [cell.status for cell in cells(desk)] == ["done", "done"]
    assert len([row for row in desk.ledger.past.rows("events") if row["kind"] == "done"]) == 2


def test_a_batch_needs_few_messages_to_the_server(desk: Desk, tmp_path: Path) -> None:
    """Each message is a delay for this runner and for all that wait for their turn."""
    sources = [table(f"raw.{name}", partitioned=True) for name in "abc"]
    desk.apply(*sources, table("x.y", reads=[each.name for each in sources]), fingerprint="flow 2")
    for each in sources:
        desk.done(each.name, *range(10))
    for at in range(7):  # the driver prepares repeated statements
        desk.done("x.y", at, reads={at: [desk.read(each.name, at, at + 1) for each in sources]})
    with _traced(desk, tmp_path / "pins") as asked:
        pins = desk.ledger.reads.pins([(each.name, day(7), day(8)) for each in sources])
    with _traced(desk, tmp_path / "claim") as claimed:
        held = desk.claim("x.y", 7, reads={7: [pin.input(pin.table, "slices") for pin in pins]})
    with _traced(desk, tmp_path / "record") as recorded:
        desk.done("x.y", 7, claim=held)
    assert [asked(), claimed(), recorded()] == [4, 3, 5]


@contextmanager
def _traced(desk: Desk, path: Path) -> Iterator[Callable[[], int]]:
    """Return a function that counts messages which wait for an answer, on the one open connection."""
    with path.open("wb") as file:
        with closing(desk.ledger._database._engine.raw_connection()) as pooled:
            driver: Any = pooled.driver_connection
        driver.pgconn.trace(file.fileno())
        yield lambda: len(re.findall(r"\tF\t\d+\t(?:Query|Sync)\b", path.read_text()))
        driver.pgconn.untrace()


@pytest.mark.parametrize(
    "text", ["it's", 'a "name"', "100%", "%s and %(at)s", "back\\slash", "; DROP TABLE batches; --", ""]
)
def test_texts_are_stored_unchanged(desk: Desk, text: str) -> None:
    """Statements that are sent without waiting are written as text, including their values."""
    desk.ledger.past.add_event("seen", who=text, data={text: text})
    [event] = [row for row in desk.ledger.past.rows("events") if row["kind"] == "seen"]
    assert (event["who"], json.loads(event["data"])) == (text, {text: text})


def _end_connections() -> int:
    asked = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'waterclock'"
    return len(server().run(asked))


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_commit_whose_response_is_lost_is_looked_up_and_written_exactly_once(
    desk: Desk, is_committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed writes are not repeated, uncommitted ones are."""
    execute_all = postgres.execute_all
    lost: list[bool] = []

    def loses_the_answer(connection: sa.Connection, said: Sequence[Any], *, commits: bool = False) -> None:
        if lost or not (commits and said):
            execute_all(connection, said, commits=commits)
            return
        lost.append(True)
        execute_all(connection, said, commits=is_committed)
        _end_connections()
        connection.exec_driver_sql("SELECT 1")

    before = desk.ledger.sequence()
    monkeypatch.setattr(postgres, "execute_all", loses_the_answer)
    desk.ledger.past.add_event("seen", who="ann")
    assert lost
    assert desk.ledger.sequence() == before + 1
    assert len([row for row in desk.ledger.past.rows("events") if row["kind"] == "seen"]) == 1


def _stop_while_writing(url: str) -> None:
    with Ledger.open(url) as ledger, ledger._database.write():
        os.kill(os.getpid(), signal.SIGSTOP)


def test_a_runner_suspended_in_a_write_does_not_block_other_runners_forever(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_WRITE", postgres._WRITE.replace("'60s'", "'300ms'"))
    url = desk.ledger._database.url.render_as_string(hide_password=False)
    stopped = get_context("fork").Process(target=_stop_while_writing, args=(url,))
    stopped.start()
    try:
        wait_until(lambda: _is_stopped(stopped.pid or 0))
        wait_until(lambda: _can_write(desk), seconds=10)
    finally:
        stopped.kill()
        stopped.join()


def _can_write(desk: Desk) -> bool:
    try:
        desk.ledger.past.add_event("seen", who="ann")
    except WaterclockError as busy:
        if busy.code != "E415":
            raise
        return False
    return True


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"


def test_threads_write_side_by_side(desk: Desk) -> None:
    barrier = threading.Barrier(6)

    def make(label: int) -> int:
        barrier.wait()
        return desk.claim("raw.a", label).number

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(make, range(6)))) == 6


def test_a_long_read_sees_one_consistent_state(desk: Desk) -> None:
    desk.done("raw.a", *range(3))
    database: LedgerDatabase = desk.ledger._database
    with database.read() as connection:
        count = sa.select(sa.func.count()).select_from(schema.batches)
        before = connection.execute(count).scalar()
        desk.done("raw.a", 3)
        assert connection.execute(count).scalar() == before == 3
