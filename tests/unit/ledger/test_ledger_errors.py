from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.ledgers import day
from waterclock.batches.ledger_snapshot import OpenClaim, Pause
from waterclock.error_codes.catalog import LEDGER
from waterclock.errors import WaterclockError
from waterclock.ledger import database_errors, ledger_errors, rebuild_errors

URL = sa.make_url("postgresql://ann:s3cret@db/ledger")
HOLDER = OpenClaim(7, (day(0), day(1)), "host-1", datetime(2026, 1, 1, 12, 30, tzinfo=UTC))
ALL = [
    ledger_errors.no_ledger(URL, "its tables are orders"),
    ledger_errors.lost_ledger_error("sqlite:///ledger.db", ["a.x"]),
    ledger_errors.damaged_ledger_error(URL, ValueError("file is not a database")),
    ledger_errors.build_newer_schema_error(URL, "0009", "0001"),
    ledger_errors.unknown_url("mysql://x"),
    ledger_errors.other_project("a", "b"),
    ledger_errors.changed_declaration_error("a.x", [("cadence", "DAY", "HOUR")], "flow.dpl:1:1"),
    ledger_errors.unapplied_flow_error("new", "old"),
    ledger_errors.already_claimed_error("a.x", day(1), HOLDER),
    ledger_errors.batch_done_error("a.x", day(0), 7),
    ledger_errors.build_skipped_error("a.x", day(0)),
    ledger_errors.reopened_window_error("a.x", day(0)),
    ledger_errors.inputs_changed("a.x", day(0), "PAST(a.y, '7 days')"),
    ledger_errors.closed_claim_error(7, "lost"),
    ledger_errors.unknown_table("a.x", ["a.y"]),
    ledger_errors.unknown_batch("a.x", day(0)),
    ledger_errors.build_impossible_error("a.x", day(0), "cannot be skipped", why="it is done"),
    ledger_errors.item_conflict_error("a.x", day(0), "f.csv", day(1)),
    database_errors.build_busy_error(URL, ValueError("locked")),
    database_errors.refused_operation_error(URL, ValueError("disk full")),
    database_errors.login_error(URL, ValueError("password authentication failed")),
    database_errors.no_database(URL, ValueError("database does not exist")),
    database_errors.build_unreachable_error(URL, ValueError("connection refused"), may_repeat=False),
    ledger_errors.no_driver(URL, ImportError("no module named psycopg")),
    ledger_errors.moved_ledger_error(URL, "postgresql://db/other"),
    ledger_errors.ledger_in_use_error(URL, [HOLDER]),
    ledger_errors.concurrent_move_error(URL),
    ledger_errors.unknown_option(URL, "shema", ["schema"]),
    ledger_errors.pool_full("a.x", day(0), "heavy", 2),
    ledger_errors.build_paused_error("a.x", day(0), Pause(day(0), "ann", "the source lies")),
    ledger_errors.no_pause("a.x is not paused", why="its batches may be claimed"),
    ledger_errors.existing_ledger_error("ledger.db"),
    ledger_errors.nothing_to_withdraw("a.x", why="nobody asked", fix=None),
    ledger_errors.unusable_export("it was cut off", "it holds 3 rows"),
    ledger_errors.nothing_to_export("sqlite:///ledger.db"),
    rebuild_errors.changed_windows_error("a.x", [("cadence", "DAY", "HOUR")], "flow.dpl:1:1"),
    rebuild_errors.uncuttable_rows_error(
        "a.x", [("cadence", "DAY", "HOUR")], "flow.dpl:1:1", why="taken by its arrival"
    ),
    rebuild_errors.unsupported_change_error(
        "a.x", [("kind", "collect", "transform")], "flow.dpl:1:1", why="it stays as it is"
    ),
    rebuild_errors.incomplete_tables_error("a.x@20130102000000", "failed: E700"),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.code)
def test_every_error_has_a_reason_or_a_fix_and_starts_in_lower_case(error: WaterclockError) -> None:
    assert error.code in LEDGER
    assert error.why or error.fix
    for part in (error.what, error.why, error.fix):
        assert part is None or not re.match(r"[A-Z][a-z]", part)
        assert part is None or not re.search(r"(?i)please|sorry|invalid", part)


def test_every_error_code_is_raised_in_the_source_and_listed_in_this_test() -> None:
    assert {error.code for error in ALL} == set(LEDGER)
    source = "".join(
        Path(str(of.__file__)).read_text(encoding="utf-8") for of in (ledger_errors, database_errors, rebuild_errors)
    )
    assert set(re.findall(r'"(E4[0-9]{2})"', source)) == set(LEDGER)


def test_only_errors_that_may_disappear_by_themselves_are_transient() -> None:
    assert {error.code for error in ALL if error.transient} == {"E407", "E410", "E415", "E423", "E427", "E429", "E456"}


def test_passwords_of_a_url_are_never_in_an_error() -> None:
    assert not any("s3cret" in str(error) for error in ALL)


def test_an_existing_claim_is_reported_with_its_labels_and_lease() -> None:
    assert str(ledger_errors.already_claimed_error("a.x", day(1), HOLDER)) == (
        "E407 a.x@20130102000000 is claimed by host-1\n"
        "  a.x@20130102000000\n"
        "why  claim 7 of 20130101000000, 20130102000000 is open, its lease runs until 2026-01-01 12:30:00 UTC\n"
        "fix  wait for it to end; the next run takes over a claim whose lease has expired"
    )
