"""Storage, ledger, work folders and caches are closed to other users, whatever the umask, until a group is let in."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.security.strangers import ANN, MALLORY, TEAM, as_user, meeting_place, needs_root
from tests.unit.cli.conftest import TODAY
from waterclock.cli.actions.init import start_project
from waterclock.cli.views import crash
from waterclock.cli.views.crash import report_defect
from waterclock.connectors.rest import rate_limit
from waterclock.engine.run_opening import open_workplace
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import make_delivery_folder, make_folder
from waterclock.flow.openlineage import LineageSink
from waterclock.openlineage.sinks import deliver
from waterclock.operations.project_opening import open_project


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = os.umask(0o000)
    with meeting_place() as folder:
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        try:
            yield folder
        finally:
            os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_storage_ledger_and_work_folder_are_closed_even_with_an_open_umask(place: Path) -> None:
    os.umask(0o022)
    start_project(place / "shop", TODAY)
    os.umask(0o000)
    with open_workplace(open_project(place / "shop", None)) as work:
        storage = Path(work.project.storage)
        assert mode(storage) == 0o700
        ledger = storage / "ledger.db"
        assert mode(ledger) == 0o600
        assert {mode(each) & 0o077 for each in storage.glob("ledger.db-*")} <= {0}
    make_folder(storage / "tables/sales/orders")
    assert mode(storage / "tables") == 0o700


@needs_root
def test_another_user_reads_nothing_of_a_storage(place: Path) -> None:
    make_folder(place / "lake/tables")
    (place / "lake/tables/rows.parquet").write_text("secret")
    assert as_user(MALLORY, lambda: os.access(place / "lake", os.R_OK | os.X_OK)) is False
    assert as_user(MALLORY, lambda: os.access(place / "lake/tables/rows.parquet", os.R_OK)) is False


def test_an_existing_folder_keeps_its_rights(place: Path) -> None:
    (place / "lake").mkdir(mode=0o755)
    make_folder(place / "lake")
    assert mode(place / "lake") == 0o755
    make_folder(place / "lake/tables")
    assert mode(place / "lake/tables") == 0o700


def test_delivered_files_have_the_rights_of_the_umask(place: Path) -> None:
    os.umask(0o022)
    make_delivery_folder(place / "reports/2024")
    assert mode(place / "reports/2024") == 0o755


@needs_root
@pytest.mark.parametrize(("rights", "can_write"), [(0o2770, True), (0o2750, False)])
def test_a_folder_with_the_setgid_bit_is_shared_with_its_group(place: Path, rights: int, can_write: bool) -> None:
    lake = place / "lake"
    lake.mkdir()
    os.chown(lake, ANN, TEAM)
    lake.chmod(rights)

    def fill() -> None:
        from waterclock.ledger.store.sqlite import create_empty

        make_folder(lake / "tables/sales")
        create_empty(None, _url(lake / "ledger.db"))  # type: ignore[arg-type]
        with closing(sqlite3.connect(lake / "ledger.db")) as database:
            database.execute("CREATE TABLE t (a)")

    as_user(ANN, fill, groups=(TEAM,))
    inner = lake / "tables/sales"
    assert mode(inner) == rights
    assert mode(lake / "ledger.db") == (0o660 if can_write else 0o640)
    wanted = os.R_OK | (os.W_OK if can_write else 0)
    assert as_user(MALLORY, lambda: os.access(inner, wanted | os.X_OK), groups=(TEAM,)) is True
    assert as_user(MALLORY, lambda: os.access(lake / "ledger.db", os.W_OK), groups=(TEAM,)) is can_write
    assert as_user(MALLORY, lambda: os.access(inner, os.R_OK)) is False


def _url(path: Path) -> object:
    import sqlalchemy as sa

    return sa.make_url(f"sqlite:///{path}")


RATE = (1, 1.0)


def test_rates_are_kept_in_the_user_s_cache(place: Path) -> None:
    kept = rate_limit.rate_limiter_of("https://api.example", "key", RATE)
    assert isinstance(kept, rate_limit.SharedRateLimiter)
    kept.reserve()
    assert kept.file.parent == place / "cache/waterclock/rates"
    assert mode(kept.file.parent) == 0o700


@pytest.mark.parametrize("trap", ["a link", "a folder of another user"])
def test_rates_are_kept_nowhere_that_another_user_prepared(
    place: Path, trap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trap != "a link" and os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    (place / "blocked").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "blocked"))  # simulates a home that cannot be written
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    (place / "victim").mkdir(mode=0o700)
    prepared = place / f"waterclock-rates-{os.geteuid()}"
    if trap == "a link":
        prepared.symlink_to(place / "victim")
    else:
        prepared.mkdir(mode=0o700)
        os.chown(prepared, MALLORY, MALLORY)
    with pytest.raises(WaterclockError) as raised:
        rate_limit.rate_limiter_of("https://api.example", "key", RATE)
    assert raised.value.code == "E931"
    assert list((place / "victim").iterdir()) == []
    assert list(prepared.iterdir()) == []


def test_the_report_of_a_defect_is_private_and_follows_no_link(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.chdir(place)
    monkeypatch.setattr(crash, "command_project_folder", lambda: place)  # an earlier test may have recorded its project
    report_defect(RuntimeError("broken"))
    (report,) = place.glob("**/defect-*.txt")
    assert mode(report) == 0o600


def test_the_file_of_lineage_events_is_closed_to_other_users(place: Path) -> None:
    """It contains queries, user names and the text of errors."""
    secrets: Any = None  # a file needs none
    for _ in range(2):
        deliver(LineageSink(file="out/lineage.jsonl"), place, secrets, {"eventType": "START"})
    assert (mode(place / "out"), mode(place / "out" / "lineage.jsonl")) == (0o700, 0o600)
    assert (place / "out" / "lineage.jsonl").read_text() == '{"eventType":"START"}\n' * 2
