"""Renames that conflict: swapped names, two tables that claim one history, and a transaction that fails late."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.ledgers import ZERO, Desk, day, desk, flow, table
from tests.unit.ledger.read.test_states import statements_of
from tests.unit.ledger.write.test_renaming import AFTER, BEFORE, NEW, OLD, daily, lived, reader, refused
from waterclock.batches.former_names import FormerNames
from waterclock.batches.records import ClaimRequest, Input
from waterclock.flow.declarations import Read
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store import schema


def test_a_pending_rename_remains_pending_if_the_transaction_fails_at_its_end(at_desk: Desk) -> None:
    lived(at_desk)
    after = flow(*AFTER, fingerprint="flow 2")
    declared = at_desk.ledger.declared
    declared.apply_pending_renames(after)

    class Torn(dict[str, str]):
        def items(self) -> Any:
            yield from super().items()
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        declared.apply(after, who="ann", now=ZERO, runner="here", statements=lambda: Torn({NEW: "TRANSFORM"}))
    assert declared.pending_renames() == {NEW: OLD}
    assert at_desk.ledger.reads.snapshot(after).of(NEW).covered


def test_the_code_of_who_reads_a_new_table_of_the_old_name_is_its_own(at_desk: Desk) -> None:
    lived(at_desk)
    at_desk.apply(*AFTER, fingerprint="flow 2")
    # another table has the old name, and a reader has the code that the first reader had before
    own = replace(table("marts.own", partitioned=True, reads=[OLD]), fingerprint="reads shop")
    rest = (daily(NEW), reader(NEW, code="reads sales"))
    at_desk.apply(*rest, daily(OLD), own, fingerprint="flow 3")
    at_desk.done(OLD, 0, code="code of daily")
    at_desk.done("marts.own", 0, code="reads shop")
    moved = (
        daily("c.daily", was=OLD),
        replace(own, reads=(Read("c.daily"),), fingerprint="reads c", code_before="reads shop"),
    )
    at_desk.ledger.declared.apply_pending_renames(flow(*rest, *moved, fingerprint="flow 4"))
    assert at_desk.ledger.reads.snapshot(flow(*rest, *moved, fingerprint="flow 4")).of("marts.own").codes == {
        "reads c": 1
    }
    at_desk.apply(*rest, *moved, fingerprint="flow 4")
    snapshot = at_desk.ledger.reads.snapshot(at_desk.flow)
    assert snapshot.of("marts.own").codes == {"reads c": 1}
    assert snapshot.of("marts.reads").codes == {"reads sales": 2}


def test_a_killed_first_batch_is_completed_with_the_new_code_after_a_rename(at_desk: Desk) -> None:
    at_desk.apply(*BEFORE)
    at_desk.done(OLD, 0, code="code of daily")
    at_desk.claim("marts.reads", 0, code="reads shop")
    at_desk.clock.pass_by(seconds=61)
    at_desk.apply(*AFTER, fingerprint="flow 2")
    [left] = at_desk.ledger.claims.open()
    at_desk.done("marts.reads", 0, claim=left)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("marts.reads").codes == {"reads sales": 1}


def test_the_measures_of_an_input_are_keyed_by_its_new_name(at_desk: Desk) -> None:
    lived(at_desk)
    counts = {"in": 3, "broken": {"rule": 1}}
    with at_desk.ledger.declared.database.write() as write:
        of = sa.update(schema.revisions).where(schema.revisions.c.table_name == "marts.reads")
        write.execute(of.values(measures={"input_rules": {OLD: counts, "a.x": counts}, "in": 2}))
    at_desk.apply(*AFTER, fingerprint="flow 2")
    with at_desk.ledger.declared.database.read() as connection:
        told = sa.select(schema.revisions.c.measures).where(schema.revisions.c.table_name == "marts.reads")
        for measures in connection.execute(told).scalars():
            assert measures == {"input_rules": {NEW: counts, "a.x": counts}, "in": 2}


def test_two_names_of_one_table_are_not_taken_over_by_two(at_desk: Desk) -> None:
    lived(at_desk)
    at_desk.apply(*AFTER, fingerprint="flow 2")
    error = refused(at_desk, flow(daily("c.one", was=OLD), daily("c.two", was=NEW), fingerprint="flow 3"))
    assert error.code == "E318"
    assert at_desk.ledger.reads.table(NEW).location == "tables/shop/daily"


def test_names_change_places_over_a_third(at_desk: Desk) -> None:
    at_desk.apply(daily("a.x"), daily("b.x"))
    at_desk.done("a.x", 0, code="code of daily")
    at_desk.done("b.x", 0, 1, code="code of daily")
    at_desk.apply(daily("c.x", was="a.x"), daily("b.x"), fingerprint="flow 2")
    at_desk.apply(daily("c.x"), daily("a.x", was="b.x"), fingerprint="flow 3")
    at_desk.apply(daily("b.x", was="c.x"), daily("a.x"), fingerprint="flow 4")
    declared = at_desk.ledger.declared
    assert declared.former().folders == {"b.x": "tables/a/x", "a.x": "tables/b/x"}
    snapshot = at_desk.ledger.reads.snapshot(at_desk.flow)
    assert (snapshot.of("b.x").codes, snapshot.of("a.x").codes) == ({"code of daily": 1}, {"code of daily": 2})
    for number in (5, 6):  # the next flows change nothing more
        at_desk.apply(daily("b.x", was="c.x"), daily("a.x"), fingerprint=f"flow {number}")
        assert declared.former().folders == {"b.x": "tables/a/x", "a.x": "tables/b/x"}


def test_records_of_between_are_read_where_a_table_has_its_first_name_back() -> None:
    names = FormerNames({NEW: OLD}, {"is": "was"}, {})  # `OLD` again, in the folder of its name
    read = Input(NEW, f"PAST({NEW}, '1 DAY')", "slices", day(0), day(1), "tables/shop/daily", 1, "x")
    request = ClaimRequest("c.x", (day(0),), "is", "f", "r", "w", ZERO, 1, -1, {day(0): (read,)})
    found = names.request(request, "a.x")
    assert (found.table, found.code) == ("a.x", "was")
    assert found.inputs[day(0)] == (replace(read, table=OLD, read=f"PAST({OLD}, '1 DAY')"),)


def test_a_record_of_a_new_table_under_an_old_name_keeps_its_code() -> None:
    names = FormerNames({}, {"reads shop": "reads sales"}, {NEW: "tables/shop/daily", OLD: "tables/shop/daily.2"})
    read = Input(OLD, OLD, "slices", day(0), day(1), "tables/shop/daily.2", 1, "x")
    request = ClaimRequest("marts.own", (day(0),), "reads shop", "f", "r", "w", ZERO, 1, -1, {day(0): (read,)})
    found = names.request(request, "marts.own", "reads shop")
    assert (found.inputs[day(0)], found.code) == ((read,), "reads shop")
    assert names.request(request, "marts.own", "reads more").code == "reads sales"


def test_checking_a_completed_rename_does_not_read_the_batches(at_desk: Desk) -> None:
    lived(at_desk)
    after, declared = flow(*AFTER, fingerprint="flow 2"), at_desk.ledger.declared
    for is_done, most in ((False, 5), (True, 3)):
        for ask in (declared.apply_pending_renames, declared.require_valid_renames):
            asked = statements_of(at_desk, partial(ask, after))
            said = [text for text in asked if text.startswith("SELECT")]
            assert len(said) <= most, said
            assert not [text for text in said if "FROM batches" in text and "EXISTS" not in text]
            assert is_done <= (not [text for text in said if "batches" in text])
        if not is_done:
            declared.apply_pending_renames(flow(*BEFORE))
            at_desk.apply(*AFTER, fingerprint="flow 2")


@pytest.mark.parametrize("labels", [2, 40])
def test_stored_json_is_renamed_with_a_constant_number_of_statements(at_desk: Desk, labels: int) -> None:
    at_desk.apply(*BEFORE)
    for label in range(labels):
        at_desk.done("marts.reads", label, code="reads shop")
    at_desk.done(OLD, 0, code="code of daily")
    kept = {"in": 3, "quarantined": 0, "dropped": 0, "broken": {}, "first": {}}
    with at_desk.ledger.declared.database.write() as write:
        of_reader = schema.revisions.c.table_name == "marts.reads"
        lacks = {"missing": [{"table": OLD, "low": "a", "high": "b"}]}
        told = {"source": lacks, "measures": {"input_rules": {OLD: kept}}}
        write.execute(sa.update(schema.revisions).where(of_reader).values(told))
        missing = sa.update(schema.batches).where(schema.batches.c.table_name == "marts.reads")
        write.execute(missing.values(missing=f"{OLD}@1"))
    asked = statements_of(at_desk, lambda: at_desk.apply(*AFTER, fingerprint="flow 2"))
    for column in ("measures", "source"):
        assert len([text for text in asked if text.startswith(f"UPDATE revisions SET {column}=")]) == 1
    assert len([text for text in asked if text.startswith("UPDATE batches SET missing=")]) == 1
    with at_desk.ledger.declared.database.read() as connection:
        rows = connection.execute(sa.select(schema.revisions.c.source, schema.revisions.c.measures).where(of_reader))
        lacked = {"missing": [{**lacks["missing"][0], "table": NEW}]}
        assert rows.all() == [(lacked, {"input_rules": {NEW: kept}})] * labels
        of_missing = sa.select(schema.batches.c.missing).where(schema.batches.c.table_name == "marts.reads")
        assert {*connection.execute(of_missing).scalars()} == {f"{NEW}@1"}


@pytest.mark.parametrize("does", ["read", "apply", "pause"])
def test_a_pending_rename_ends_once_another_runner_applies_it(tmp_path: Path, does: str) -> None:
    at_desk = desk(tmp_path)
    lived(at_desk)
    before = at_desk.ledger.reads.snapshot(flow(*BEFORE))
    after = flow(*AFTER, fingerprint="flow 2")
    with at_desk.ledger, Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}", clock=at_desk.clock) as other:
        other.declared.apply_pending_renames(after)
        assert other.reads.snapshot(after).of(NEW) == before.of(OLD)
        at_desk.apply(*AFTER, fingerprint="flow 2")
        if does == "apply":
            other.declared.apply(after, who="ann", now=ZERO, runner="there")
        elif does == "pause":
            other.decisions.resume_tables([NEW], who="ann")
            other.decisions.pause_tables([NEW], who="ann", why="again")
        assert other.reads.snapshot(after).of(NEW).covered == before.of(OLD).covered
        assert other.declared.pending_renames() == {}
        assert at_desk.ledger.reads.table(NEW).location == "tables/shop/daily"


def test_status_tables_show_the_new_name_of_a_pending_rename(at_desk: Desk) -> None:
    lived(at_desk)
    at_desk.ledger.declared.apply_pending_renames(flow(*AFTER, fingerprint="flow 2"))
    past = at_desk.ledger.past
    for name, column in (("batches", "table"), ("events", "table"), ("inputs", "input")):
        assert OLD not in past.columns(name, [column])[column], name
        asked = past.columns(name, [column], [(column, "=", [NEW])])[column]
        assert asked, name
        assert set(asked) == {NEW}, name
        assert NEW in {row[column] for row in past.rows(name)}, name
    codes = past.columns("batches", ["code"], [("table", "=", ["marts.reads"])])["code"]
    assert codes == ["reads sales", "reads sales"]
