from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.ledgers import Desk, day, desk, result, table
from waterclock.batches.ledger_snapshot import BEGINNING
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Mode
from waterclock.ledger.read.status import STATUS_TABLES


@pytest.fixture(autouse=True)
def _tables(at_desk: Desk) -> None:
    at_desk.apply(table("raw.a", partitioned=True), table("core.b", partitioned=True, reads=["raw.a"]))


def test_the_visible_batches_and_rows_of_a_table_are_counted(at_desk: Desk) -> None:
    assert at_desk.ledger.past.amount("raw.a") == (0, 0)
    at_desk.done("raw.a", 0, 1)
    at_desk.ledger.claims.record_failed(at_desk.claim("raw.a", 2), error="no", is_transient=False)
    seen = [cell for cell in at_desk.ledger.past.grid(["raw.a"]) if cell.current_claim is not None]
    assert at_desk.ledger.past.amount("raw.a") == (2, sum(cell.rows or 0 for cell in seen))


def test_the_grid_shows_the_status_of_each_batch(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, digest="5:1:1")
    at_desk.ledger.claims.record_failed(at_desk.claim("raw.a", 1), error="E705 boom", is_transient=False)
    running = at_desk.claim("raw.a", 2)
    cells = at_desk.ledger.past.grid(["raw.a", "core.b"])
    assert [(cell.table, cell.label, cell.status, cell.rows, cell.error) for cell in cells] == [
        ("raw.a", day(0), "done", 5, None),
        ("raw.a", day(1), "failed", None, "E705 boom"),
        ("raw.a", day(2), "running", None, None),
    ]
    assert cells[2].claim == running.number
    assert [cell.label for cell in at_desk.ledger.past.grid(["raw.a"], day(1), day(2))] == [day(1)]
    assert at_desk.ledger.past.grid([]) == []


def test_the_settled_labels_of_all_tables_are_read_by_two_statements(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0, 1)
    at_desk.claim("core.b", 1)
    asked: list[str] = []
    sa.event.listen(at_desk.ledger._database._engine, "before_cursor_execute", lambda *told: asked.append(told[2]))
    found = at_desk.ledger.past.settled_labels(["raw.a", "core.b"])
    assert found.done == {"raw.a": (day(0), day(1)), "core.b": ()}
    assert [(cell.table, cell.status) for cell in found.others] == [("core.b", "running")]
    assert sum(text.startswith("SELECT") for text in asked) == 2


def test_the_newest_batches_are_given_oldest_first_and_the_oldest_label_of_all(at_desk: Desk) -> None:
    assert at_desk.ledger.past.newest("raw.a", 3) == []
    assert at_desk.ledger.past.oldest_label("raw.a") is None
    at_desk.done("raw.a", 1, 2, 3)
    assert [cell.label for cell in at_desk.ledger.past.newest("raw.a", 2)] == [day(2), day(3)]
    assert [cell.label for cell in at_desk.ledger.past.newest("raw.a", 2, day(0), day(3))] == [day(1), day(2)]
    assert at_desk.ledger.past.oldest_label("raw.a") == day(1)


def test_an_audit_contains_the_user_inputs_and_code_of_each_attempt(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    pinned = at_desk.read("raw.a", 0, 1)
    at_desk.ledger.claims.record_failed(
        at_desk.claim("core.b", 0, reads={0: [pinned]}, who="bob"), error="E1", is_transient=True
    )
    at_desk.clock.pass_by(minutes=1)
    held = at_desk.claim("core.b", 0, reads={0: [pinned]}, run="r7", code="new code")
    at_desk.clock.pass_by(seconds=5)
    at_desk.ledger.claims.record_done(held, [result(0, digest="3:1:1", version=9)])
    audit = at_desk.ledger.past.audit("core.b", day(0))
    first, second = audit.attempts
    assert (first.status, first.who, first.error, first.revision) == ("failed", "bob", "E1", None)
    assert (second.status, second.who, second.run, second.code, second.flow) == (
        "done",
        "ann",
        "r7",
        "new code",
        "flow 1",
    )
    assert (second.closed_at - second.claimed_at).total_seconds() == 5  # type: ignore[operator]
    assert [(read.table, read.version, read.content) for read in second.inputs] == [
        ("raw.a", pinned.version, pinned.content)
    ]
    assert second.revision is not None
    assert (second.revision.rows, second.revision.version, second.revision.digest) == (3, 9, "3:1:1")
    assert audit.current == second
    assert (audit.cell.status, audit.cell.attempts) == ("done", 2)


def test_an_audit_of_a_batch_that_never_was_is_refused(at_desk: Desk) -> None:
    for name, told in (("raw.a", "no rows of raw.a@20130101000000"), ("raw.z", "no table raw.z")):
        with pytest.raises(WaterclockError, match=told) as refused:
            at_desk.ledger.past.audit(name, day(0))
        assert refused.value.code == "E412"


def test_the_status_tables_have_typed_rows(at_desk: Desk) -> None:
    at_desk.done("raw.a", 0)
    at_desk.done("core.b", 0, reads={0: [at_desk.read("raw.a", 0, 1)]})
    at_desk.ledger.claims.record_failed(at_desk.claim("core.b", 1), error="no", is_transient=True, due_again=day(1.5))
    kinds = {"STRING": str, "BIGINT": int, "BOOLEAN": bool, "TIMESTAMP": datetime}
    rows = {
        "batches": list(at_desk.ledger.past.rows("batches")),
        "inputs": list(at_desk.ledger.past.rows("inputs")),
        "events": list(at_desk.ledger.past.rows("events")),
    }
    assert {name: len(found) for name, found in rows.items()} == {"batches": 3, "inputs": 1, "events": 7}
    for name, found in rows.items():
        for row in found:
            assert list(row) == list(STATUS_TABLES[name])
            for column, value in row.items():
                assert value is None or type(value) is kinds[STATUS_TABLES[name][column]], (name, column)
    done, failed = rows["batches"][0], rows["batches"][1]
    assert (done["table"], done["timelabel"], done["window_end"], done["status"]) == (
        "core.b",
        "20130101000000",
        day(1),
        "done",
    )
    assert (done["who"], done["runner"], done["is_suspect"]) == ("ann", "here", False)
    assert (failed["status"], failed["due_again"]) == ("failed", datetime(2013, 1, 2, 12, tzinfo=UTC))
    [read] = rows["inputs"]
    assert (read["table"], read["input"], read["low"], read["high"], read["is_current"]) == (
        "core.b",
        "raw.a",
        day(0),
        day(1),
        True,
    )


def test_a_snapshot_that_covers_the_time_before_all_labels_can_be_listed(at_desk: Desk) -> None:
    at_desk.apply(table("dim.x", mode=Mode.REPLACE), fingerprint="flow 2")
    at_desk.ledger.claims.record_done(at_desk.claim("dim.x", 0), [result(0, stands_from=BEGINNING)])
    assert [row["stands_from"] for row in at_desk.ledger.past.rows("batches")] == [BEGINNING]


def test_outside_readers_see_labels_and_times_as_text(tmp_path: Path) -> None:
    opened = desk(tmp_path)
    opened.apply(table("raw.a", partitioned=True))
    with opened.ledger:
        opened.clock.pass_by(milliseconds=1234)
        opened.done("raw.a", 0)
    connection = sqlite3.connect(tmp_path / "ledger.db")
    found = connection.execute('SELECT "table", timelabel, window_end, recorded_at FROM waterclock_batches').fetchall()
    connection.close()
    assert found == [("raw.a", "20130101000000", "2013-01-02 00:00:00", "2026-01-01 00:00:01.234")]


def test_the_real_clock_is_kept_to_the_millisecond(at_desk: Desk) -> None:
    at_desk.clock.at = datetime(2026, 3, 4, 5, 6, 7, 891_000, tzinfo=UTC)
    at_desk.done("raw.a", 0)
    [row] = at_desk.ledger.past.rows("batches")
    assert row["claimed_at"] == row["recorded_at"] == at_desk.clock.at


def test_events_added_by_other_components_are_kept_in_order(at_desk: Desk) -> None:
    at_desk.ledger.past.add_event("foreign commit", who="runner", table="raw.a", label=day(0), data={"version": 3})
    at_desk.ledger.past.add_event("file set aside", who="runner", data={"name": "x.csv"})
    rows = list(at_desk.ledger.past.rows("events"))[-2:]
    assert [(row["kind"], row["timelabel"], row["data"]) for row in rows] == [
        ("foreign commit", "20130101000000", '{"version": 3}'),
        ("file set aside", None, '{"name": "x.csv"}'),
    ]
    assert rows[0]["id"] < rows[1]["id"]


def test_runs_are_returned_newest_first(at_desk: Desk) -> None:
    first = at_desk.ledger.past.begin_run(who="ann", command="run", now=day(3))
    at_desk.clock.pass_by(seconds=5)
    second = at_desk.ledger.past.begin_run(who="bob", command="backfill", now=day(4))
    at_desk.ledger.past.end_run(first, "done", who="ann")
    newest, oldest = at_desk.ledger.past.runs()
    assert (newest.run, newest.command, newest.ended_at, newest.outcome) == (second, "backfill", None, None)
    assert (oldest.run, oldest.who, oldest.now, oldest.outcome) == (first, "ann", day(3), "done")
    assert oldest.ended_at == at_desk.clock.at
    assert [run.run for run in at_desk.ledger.past.runs(most=1)] == [second]


def test_columns_of_the_rows_that_meet_all_conditions(at_desk: Desk) -> None:
    for number in range(3):
        at_desk.done("raw.a", number, digest=f"{number + 5}:1:1")
    at_desk.done("core.b", 1, digest="9:1:1")
    asked = at_desk.ledger.past.columns
    every = list(at_desk.ledger.past.rows("batches"))
    assert asked("batches", list(STATUS_TABLES["batches"])) == {
        column: [row[column] for row in every] for column in STATUS_TABLES["batches"]
    }
    assert asked("batches", ["rows"], [("table", "=", ("raw.a", "x.y")), ("rows", ">", (5,))]) == {"rows": [6, 7]}
    found = asked("batches", ["table", "window_end"], [("timelabel", "<=", ("20130101000000",))])
    assert found == {"table": ["raw.a"], "window_end": [day(1)]}
    assert asked("batches", [], [("table", "=", ("core.b",))]) == {"": [1]}
    assert asked("events", ["id", "kind"], [("kind", "=", ("no such",))]) == {"id": [], "kind": []}
