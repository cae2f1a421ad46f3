"""The state of another project as a link shows it: its progress and its errors, without Spark."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.ledgers import flow, table
from tests.other_project import NAME, OtherProject
from tests.systems import setting_of, unit_of
from waterclock.batches.linked_projects import LinkFacts
from waterclock.connectors.waterclock.connector import WaterclockCollector
from waterclock.connectors.waterclock.linked_declarations import LinkedTables
from waterclock.flow.declarations import Value
from waterclock.flow.enums import Kind
from waterclock.ledger.read.linked_projects import Declarations, LinkedDeclaration
from waterclock.ledger.store import read_only

DAY = datetime(2013, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"


@pytest.fixture
def other(tmp_path: Path) -> OtherProject:
    return OtherProject(tmp_path)


def facts(folder: Path, table: str = NAME, **options: Value) -> LinkFacts:
    return WaterclockCollector(setting_of("upstream", folder, **options)).facts(unit_of("upstream", table))


def problem(folder: Path, /, table: str = NAME, **options: Value) -> str:
    found = facts(folder, table, **options).problem
    assert found is not None
    assert found.fix
    return f"{found.code} {found.what}: {found.why}"


def test_a_project_that_never_ran_is_waited_for(tmp_path: Path, other: OtherProject) -> None:
    found = facts(tmp_path, path="other")
    assert (found.problem, found.cadence) == (None, None)
    assert not other.files().keys() - {str(other.root / "waterclock.toml")}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": "nowhere"}, "E833 the other project cannot be found: {0}/nowhere: there is no such folder"),
        ({"path": "."}, "E833 the other project cannot be found: {0}: there is no waterclock.toml"),
        (
            {"path": "other", "env": "prod"},
            "E833 the other project cannot be found: {0}/other/waterclock.toml: unknown",
        ),
        (
            {"storage": "lake"},
            "E833 the other project cannot be found: there is no ledger at sqlite:///{0}/lake/ledger.db",
        ),
        ({"env": "dev"}, "E833 the other project cannot be found: connection upstream has neither path nor storage"),
    ],
)
@pytest.mark.usefixtures("other")
def test_a_linked_project_that_cannot_be_found_is_reported(
    tmp_path: Path, options: dict[str, Value], told: str
) -> None:
    assert problem(tmp_path, NAME, **options).startswith(told.format(tmp_path))


def test_it_is_found_by_its_storage_and_its_ledger(tmp_path: Path, other: OtherProject) -> None:
    other.land(DAY, [{"id": "a", "note": "n"}])
    by_folder = facts(tmp_path, path="other")
    assert list(by_folder.settled) == [(DAY, DAY + HOUR)]
    assert facts(tmp_path, storage="other/.waterclock") == by_folder
    assert facts(tmp_path, storage="elsewhere", ledger="sqlite:///other/.waterclock/ledger.db") == by_folder


def test_a_linked_label_with_an_open_claim_is_not_settled(tmp_path: Path, other: OtherProject) -> None:
    other.land(DAY, [{"id": "a", "note": "n"}])
    with other.open() as ledger:
        other.claim(ledger, other.slices, DAY)
        assert not facts(tmp_path, path="other").settled
    assert not facts(tmp_path, path="other").settled


def test_a_runner_at_work_there_is_no_hindrance_and_nothing_is_left_beside_its_ledger(
    tmp_path: Path, other: OtherProject
) -> None:
    other.land(DAY, [{"id": "a", "note": "n"}])
    collector = WaterclockCollector(setting_of("upstream", tmp_path, path="other"))
    with other.open() as ledger:
        for hour in range(1, 4):
            with ledger.past.database.read():  # in the middle of a transaction
                other.land(DAY + hour * HOUR, [{"id": "b", "note": "n"}])
                assert list(collector.facts(other.unit).settled) == [(DAY, DAY + (hour + 1) * HOUR)]
    before = other.files()
    assert list(collector.facts(other.unit).settled) == [(DAY, DAY + 4 * HOUR)]
    assert other.files() == before


def test_an_unknown_table_is_reported_with_the_nearest_name(tmp_path: Path, other: OtherProject) -> None:
    other.land(DAY, [{"id": "a", "note": "n"}])
    told = problem(tmp_path, "shop.order", path="other")
    assert told.startswith("E834 the other project has no table shop.order: its ledger knows shop.newest, shop.orders")


@pytest.mark.parametrize(
    ("schema", "told"),
    [("0001", "its schema is 0001, this version reads "), ("9999", "its schema is 9999, this version knows ")],
)
def test_a_linked_ledger_of_another_version_is_reported_and_left_unchanged(
    tmp_path: Path, other: OtherProject, schema: str, told: str
) -> None:
    other.land(DAY, [{"id": "a", "note": "n"}])
    with closing(sqlite3.connect(other.storage / "ledger.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = ?", [schema])
    before = other.files()
    found = problem(tmp_path, path="other")
    assert found.startswith(f"E837 the other project's ledger has another version: {told}")
    assert other.files() == before


def test_a_corrupt_linked_ledger_is_reported(tmp_path: Path, other: OtherProject) -> None:
    (other.storage / "ledger.db").write_text("no ledger, but as long as a page of one\n" * 999)
    assert problem(tmp_path, path="other").startswith("E838 the other project cannot be read")


def test_a_linked_ledger_without_read_permission_is_reported(
    tmp_path: Path, other: OtherProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.land(DAY, [{"id": "a", "note": "n"}])
    real = Path.stat

    def denied(path: Path, *rest: object, **more: object) -> object:
        if path.name == "ledger.db":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "stat", denied)
    assert "PermissionError" in problem(tmp_path, path="other")


def test_a_linked_ledger_that_was_moved_is_reported(tmp_path: Path, other: OtherProject) -> None:
    other.land(DAY, [{"id": "a", "note": "n"}])
    with closing(sqlite3.connect(other.storage / "ledger.db")) as database, database:
        database.execute("UPDATE ledger SET moved_to = 'postgresql://server/lake'")
    found = problem(tmp_path, path="other")
    assert found.startswith("E833 the other project cannot be found: ")
    assert "moved" in found


def test_a_table_that_only_reports_restatements_is_settled_all_the_same() -> None:
    def on_restate(statement: str) -> str:
        said = LinkedDeclaration("a.b", "transform", "regular", "append", "DAY", "UTC", True, statement)
        return LinkedTables(Declarations("other", {"a.b": said})).table("a.b", "here").on_restate

    assert on_restate("TRANSFORM a.b ON RESTATE REPORT AS SELECT 1") == "report"
    assert on_restate('wc.transform("a.b", on_restate="report", as_="SELECT 1")') == "report"
    assert on_restate("TRANSFORM a.b AS SELECT 1") == "recompute"


def test_a_table_that_waits_for_ours_in_turn_is_found_by_statements() -> None:
    def said(name: str, statement: str) -> LinkedDeclaration:
        return LinkedDeclaration(name, "transform", "regular", "append", "DAY", "UTC", True, statement)

    upstream = LinkedTables(
        Declarations(
            "other",
            {
                "x.raw": said("x.raw", "COLLECT x.raw FROM ours.here.out BY DATA TIME timelabel"),
                "x.mid": said("x.mid", "TRANSFORM x.mid AS SELECT * FROM x.raw"),
                "x.end": said("x.end", "TRANSFORM x.end AS SELECT * FROM x.mid JOIN y.x.raws"),
                "x.other": said("x.other", "TRANSFORM x.other AS SELECT * FROM x.raws"),
            },
        )
    )
    assert upstream.find_collected_tables(["ours"]) == {"x.raw": "here.out"}
    assert upstream.find_upstream_tables("x.end") == {"x.mid", "x.raw"}
    assert upstream.find_upstream_tables("x.other") == set()


def test_a_chain_of_many_tables_there_is_followed_in_linear_time() -> None:
    """Regression: each pair of tables cost the compilation of a pattern: 700 tables took five seconds."""
    names = [f"x.t{number}" for number in range(3000)]
    tables = {
        name: LinkedDeclaration(name, "transform", "regular", "append", "DAY", "UTC", True, f"SELECT * FROM {before}")
        for name, before in zip(names[1:], names, strict=False)
    }
    begun = time.process_time()
    assert LinkedTables(Declarations("other", tables)).find_upstream_tables(names[-1]) == set(names[1:-1])
    assert time.process_time() - begun < 2


def test_a_table_that_was_renamed_there_is_followed_by_the_name_it_had(tmp_path: Path, other: OtherProject) -> None:
    collector, unit = WaterclockCollector(setting_of("upstream", tmp_path, path="other")), unit_of("upstream", NAME)
    other.land(DAY, [{"id": "1", "note": "first"}])
    before, columns = collector.facts(unit), collector.schema(unit)
    content = collector.contents(unit, [(DAY, DAY + HOUR)])
    other.flow = flow(replace(table("sales.orders", partitioned=True, every="HOUR", kind=Kind.COLLECT), was=NAME))
    other.flow = replace(other.flow, fingerprint="flow 2")
    other.open().close()
    now = WaterclockCollector(setting_of("upstream", tmp_path, path="other"))
    found = now.facts(unit)
    assert found.problem is None
    assert (found.upstream, found.past.covered) == (before.upstream, before.past.covered)
    assert now.schema(unit) == columns == {"id": "STRING", "note": "STRING"}
    assert now.contents(unit, [(DAY, DAY + HOUR)]) == content
    [pin] = now.pins(unit, [(DAY, DAY + HOUR)])
    assert (pin.table, pin.location) == (f"upstream.{NAME}", "tables/shop/orders")
    assert now.schema(unit_of("upstream", "sales.orders")) == columns


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")
def test_another_user_does_not_choose_the_server_that_gets_our_passwords(tmp_path: Path, other: OtherProject) -> None:
    file = other.root / "waterclock.toml"
    url = "postgresql://waterclock@db.internal/x?hostaddr=127.0.0.1&port=1&require_auth=password"
    file.write_text(f'{file.read_text()}ledger = "{url}"\n')
    os.chown(file, 65534, 65534)
    told = problem(tmp_path, path="other")
    assert told.startswith(f"E833 the other project cannot be found: {file} names a ledger at a server")
    assert "does not answer" in problem(tmp_path, path="other", ledger="postgresql://u@127.0.0.1:1/x")
    os.chown(file, 0, 0)
    assert "does not answer" in problem(tmp_path, path="other"), "our own file is followed"


def test_a_pipe_in_place_of_the_file_is_not_waited_for(tmp_path: Path, other: OtherProject) -> None:
    file = other.root / "waterclock.toml"
    file.unlink()
    os.mkfifo(file)
    assert "is not a file" in problem(tmp_path, path="other")


@pytest.mark.parametrize(
    "hostile",
    [
        f"CREATE VIEW alembic_version AS {ENDLESS}",
        f"CREATE VIEW tables AS {ENDLESS}",
        "CREATE TRIGGER t AFTER INSERT ON tables BEGIN SELECT 1; END",
    ],
)
def test_a_ledger_with_code_of_its_own_is_refused(tmp_path: Path, other: OtherProject, hostile: str) -> None:
    other.land(DAY, [{"id": "a", "note": "n"}])
    with closing(sqlite3.connect(other.storage / "ledger.db")) as ledger, ledger:
        if "VIEW" in hostile:
            ledger.execute("PRAGMA foreign_keys = OFF")
            ledger.execute(f"DROP TABLE {hostile.split()[2]}")
        ledger.execute(hostile)
    assert "is not part of a ledger" in problem(tmp_path, path="other")


def test_a_query_of_a_ledger_has_an_end(tmp_path: Path, other: OtherProject, monkeypatch: pytest.MonkeyPatch) -> None:
    other.land(DAY, [{"id": "a", "note": "n"}])
    monkeypatch.setattr(read_only, "_MOST_SECONDS", 0.2)
    monkeypatch.setattr(read_only, "_STEPS", 100)
    monkeypatch.setattr(read_only, "require_no_code", lambda _: time.sleep(0.3))
    assert "interrupted" in problem(tmp_path, path="other")


@pytest.mark.parametrize(
    "change",
    [
        "tables SET mode = 'evil'", "tables SET kind = '[1]'", "tables SET start = 'evil'",
        "tables SET start = 9223372036854775807", "batches SET missing = 'evil'", "batches SET missing = '[1]'",
    ],
)  # fmt: skip
def test_odd_values_in_a_ledger_are_an_error_of_the_link(tmp_path: Path, other: OtherProject, change: str) -> None:
    """Regression: they ended each command of the project that reads it."""
    other.land(DAY, [{"id": "a", "note": "n"}])
    with closing(sqlite3.connect(other.storage / "ledger.db")) as ledger, ledger:
        ledger.execute("PRAGMA ignore_check_constraints = ON")
        ledger.execute(f"UPDATE {change}")
    assert problem(tmp_path, path="other").startswith(
        "E838 the other project cannot be read: its ledger has a value that cannot be read ("
    )
