from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.ledgers import ZERO, Desk, day, flow, table
from waterclock.batches import former_names
from waterclock.batches.former_names import FormerNames, replace_table_names
from waterclock.batches.records import ClaimRequest, Input
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.enums import Mode
from waterclock.ledger.store import schema
from waterclock.ledger.write.renaming import CODES, NAMES

OLD, NEW = "shop.daily", "sales.daily"
# columns whose texts name no table; add new columns here, or declare them as NAME
NO_NAMES = {
    "access_tokens": {"name", "digest", "user_name", "rights", "created_by", "revoked_by"},
    # a record of an access keeps the table names of its time
    "accesses": {"who", "sign_in", "action", "tables", "query", "address", "agent", "refusal"},
    # a step has the names that the tables had at the erasure
    "erasures": {"subject", "key_name", "who", "why"},
    "erased_persons": {"hash"},
    "erasure_steps": {"step", "result"},
    "ledger": {"project", "flow", "moved_to", "paused_by", "paused_why", "rebuilding"},
    "flows": {"fingerprint", "who", "runner"},
    "tables": {"kind", "type", "mode", "cadence", "zone", "keys", "location", "paused_by", "paused_why"},
    "claims": {"status", "flow", "runner", "who", "run", "error", "pool"},
    "claim_labels": {"prior_status"},
    "batches": {"status", "error", "requested", "digest", "slice_path", "missing"},
    "revisions": {"digest", "slice_path", "measures", "timings", "source"},
    "inputs": {"read", "kind", "location", "content"},
    "items": {"item", "data"},
    "closings": {"reason", "behind", "asked", "who", "why"},
    "schemas": {"side", "columns"},
    "alerts": {"acknowledged_by", "acknowledged_why", "trouble", "told"},
    "messages": {"target", "body", "error"},
    "lineage_sent": {"error", "refusal"},
    "code_lineage": {"lineage"},
    "offline_looks": {"code", "error"},
    "offline_measures": {"code", "found", "states"},
    "offline_spans": {"code", "found"},
    "former_names": {"former", "current"},
    "events": {"kind", "who", "run", "data"},
    "runners": {"runner", "who", "command", "flow"},
    "runs": {"run", "who", "command", "outcome"},
}


def daily(name: str, **more: Any) -> Table:
    return replace(table(name, partitioned=True), fingerprint="code of daily", **more)


def reader(of: str, *, code: str, before: str = "") -> Table:
    return replace(table("marts.reads", partitioned=True, reads=[of]), fingerprint=code, code_before=before)


BEFORE = (daily(OLD), reader(OLD, code="reads shop"))
AFTER = (daily(NEW, was=OLD), reader(NEW, code="reads sales", before="reads shop"))
WITHOUT = (daily(NEW), reader(NEW, code="reads sales"))


def lived(at: Desk) -> None:
    """Record two labels, a reader of both, a failure, a skip, a pause, a request."""
    at.apply(*BEFORE)
    for label in (0, 1):
        at.done(OLD, label, code="code of daily")
        reads: dict[float, list[Input]] = {label: [at.read(OLD, label, label + 1, read=f"PAST({OLD}, '1 DAY')")]}
        at.done("marts.reads", label, reads=reads, code="reads shop")
    at.done(OLD, 2, code="code of daily")
    at.ledger.decisions.request_restate(OLD, [day(2)], verb="recompute", who="ann", why="late")
    at.ledger.decisions.pause_tables([OLD], who="ann", why="wait")


def named(at: Desk) -> Iterator[tuple[str, str, object]]:
    """Yield all stored texts, with their table and column."""
    with at.ledger.declared.database.read() as connection:
        for each in schema.metadata.sorted_tables:
            for column in each.columns:
                if isinstance(column.type, sa.JSON | sa.Text | sa.types.TypeDecorator):
                    for value in connection.execute(sa.select(column)).scalars():
                        yield each.name, column.name, value


def test_every_column_that_names_a_table_is_known_to_be_one() -> None:
    texts: dict[str, set[str]] = {}
    for each in schema.metadata.sorted_tables:
        for column in each.columns:
            is_text = isinstance(column.type, sa.JSON | sa.Text) or isinstance(
                getattr(column.type, "impl", None), sa.Text
            )
            if is_text and column not in {*NAMES, *CODES}:
                texts.setdefault(each.name, set()).add(column.name)
    assert texts == NO_NAMES
    assert {column.name for column in NAMES} == {"table_name", "reader", "name"}


def test_a_renamed_table_and_its_readers_keep_their_history(at_desk: Desk) -> None:
    lived(at_desk)
    before = at_desk.ledger.reads.snapshot(flow(*BEFORE))
    told: list[str] = []
    at_desk.ledger.report_to(told.append)
    at_desk.apply(*AFTER, fingerprint="flow 2")
    assert told == [f"{OLD} is renamed to {NEW}, with its history"]
    after = at_desk.ledger.reads.snapshot(at_desk.flow)
    assert after.of(NEW) == before.of(OLD)
    assert after.of("marts.reads").codes == {"reads sales": 2}
    assert replace(after.of("marts.reads"), codes={}, suspects={}) == replace(
        before.of("marts.reads"), codes={}, suspects={}
    )
    [read] = at_desk.ledger.reads.inputs("marts.reads", day(1))
    assert (read.table, read.read, read.location) == (NEW, f"PAST({NEW}, '1 DAY')", "tables/shop/daily")
    assert at_desk.ledger.reads.table(NEW).location == "tables/shop/daily"
    assert at_desk.ledger.reads.find_table(OLD) is None
    kinds = [each.kind for each in at_desk.ledger.past.audit(NEW, day(2)).events]
    assert {"claimed", "done", "recompute requested"} <= set(kinds)


def test_only_former_names_and_past_events_contain_the_old_name_after_a_rename(at_desk: Desk) -> None:
    lived(at_desk)
    at_desk.apply(*AFTER, fingerprint="flow 2")
    left = {(of, column) for of, column, value in named(at_desk) if OLD in str(value)}
    assert left == {("former_names", "former"), ("events", "data")}


def test_the_was_clause_may_stay_or_be_removed_after_the_rename(at_desk: Desk) -> None:
    lived(at_desk)
    for number, tables in enumerate([AFTER, AFTER, WITHOUT, AFTER], start=2):
        at_desk.apply(*tables, fingerprint=f"flow {number}")
        assert at_desk.ledger.reads.snapshot(at_desk.flow).of(NEW).covered
        assert at_desk.ledger.declared.former().folders == {NEW: "tables/shop/daily"}
        assert at_desk.ledger.reads.snapshot(at_desk.flow).of("marts.reads").codes == {"reads sales": 2}


def test_a_chain_of_names_keeps_the_first_folder(at_desk: Desk) -> None:
    lived(at_desk)
    at_desk.apply(*AFTER, fingerprint="flow 2")
    at_desk.apply(daily("c.third", was=NEW), fingerprint="flow 3")
    assert at_desk.ledger.declared.former().folders == {"c.third": "tables/shop/daily"}
    assert at_desk.ledger.declared.former().tables == {OLD: "c.third", NEW: "c.third"}
    at_desk.apply(daily("d.fourth", was=OLD), fingerprint="flow 4")  # by a much older name
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("d.fourth").covered
    at_desk.apply(daily(OLD, was="d.fourth"), fingerprint="flow 5")  # and back
    assert at_desk.ledger.reads.table(OLD).location == "tables/shop/daily"
    assert OLD not in at_desk.ledger.declared.former().tables


def test_a_second_rename_finds_the_code_of_readers_while_the_first_was_clause_remains(at_desk: Desk) -> None:
    two = replace(table("marts.two", partitioned=True, reads=["a.x", "a.y"]), fingerprint="x y")
    at_desk.apply(table("a.x"), table("a.y"), two)
    at_desk.done("a.x", 0)
    at_desk.done("a.y", 0)
    at_desk.done("marts.two", 0, code="x y")
    first = replace(table("b.x"), was="a.x")
    at_desk.apply(first, table("a.y"), replace(two, fingerprint="bx y", code_before="x y"), fingerprint="2")
    at_desk.apply(
        first,
        replace(table("b.y"), was="a.y"),
        replace(two, fingerprint="bx by", code_before="x y"),
        fingerprint="3",
    )
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("marts.two").codes == {"bx by": 1}


def test_a_new_ledger_has_nothing_to_rename(at_desk: Desk) -> None:
    at_desk.apply(*AFTER)
    assert at_desk.ledger.reads.table(NEW).location == "tables/sales/daily"


def test_before_the_run_all_is_read_and_written_under_the_new_name(at_desk: Desk) -> None:
    lived(at_desk)
    before = at_desk.ledger.reads.snapshot(flow(*BEFORE))
    after = flow(*AFTER, fingerprint="flow 2")
    at_desk.ledger.declared.apply_pending_renames(after)
    at_desk.ledger.declared.require_valid_renames(after)
    assert at_desk.ledger.declared.pending_renames() == {NEW: OLD}
    told = at_desk.ledger.reads.snapshot(after)
    assert told.of(NEW) == before.of(OLD)
    assert told.of("marts.reads").codes == {"reads sales": 2}
    assert at_desk.ledger.declared.former().folders == {NEW: "tables/shop/daily"}
    at_desk.ledger.decisions.resume_tables([NEW], who="ann")
    at_desk.flow = after
    at_desk.apply(*AFTER, fingerprint="flow 2")
    assert at_desk.ledger.declared.pending_renames() == {}
    assert at_desk.ledger.reads.snapshot(after).of(NEW).paused is None


def test_one_that_was_declared_and_has_nothing_gives_way(at_desk: Desk) -> None:
    lived(at_desk)
    at_desk.apply(daily(NEW), fingerprint="flow 2")
    at_desk.ledger.declared.apply_pending_renames(flow(*AFTER, fingerprint="flow 3"))
    assert at_desk.ledger.reads.snapshot(flow(*AFTER, fingerprint="flow 3")).of(NEW).covered
    at_desk.apply(*AFTER, fingerprint="flow 3")
    assert at_desk.ledger.reads.table(NEW).location == "tables/shop/daily"


def refused(at: Desk, of: Flow) -> WaterclockError:
    applied = at.ledger.declared.applied_flow()
    with pytest.raises(WaterclockError) as error:
        at.ledger.declared.apply(of, who="ann", now=ZERO, runner="here")
    assert at.ledger.declared.applied_flow() == applied
    if error.value.code == "E318":
        with pytest.raises(WaterclockError) as foreseen:
            at.ledger.declared.require_valid_renames(of)
        assert str(foreseen.value) == str(error.value)
    return error.value


def test_two_histories_are_not_put_together(at_desk: Desk) -> None:
    lived(at_desk)
    at_desk.apply(daily(NEW), fingerprint="flow 2")
    at_desk.done(NEW, 0, code="code of daily")
    error = refused(at_desk, flow(*AFTER, fingerprint="flow 3"))
    assert (error.code, error.what) == ("E318", f"{OLD} cannot become {NEW}: both have data")
    assert error.where == "flow.dpl:1:1"


def test_an_unknown_former_name_is_reported_with_the_nearest_known_name(at_desk: Desk) -> None:
    lived(at_desk)
    error = refused(at_desk, flow(daily(NEW, was="shop.dayly"), fingerprint="flow 2"))
    assert (error.code, error.fix) == ("E318", f"did you mean {OLD}?")
    at_desk.apply(*BEFORE, daily("c.new", was="c.never"), fingerprint="flow 3")  # everything is unchanged


def test_an_older_flow_with_the_former_name_is_refused(at_desk: Desk) -> None:
    lived(at_desk)
    at_desk.apply(*AFTER, fingerprint="flow 2")
    error = refused(at_desk, flow(*BEFORE, fingerprint="flow 1"))
    assert (error.code, error.fix) == (
        "E318",
        f"use the flow that declares {NEW}; to rename it back, declare {OLD} WAS {NEW}",
    )


def test_another_table_may_reuse_the_former_name_and_gets_another_folder(at_desk: Desk) -> None:
    lived(at_desk)
    at_desk.apply(*AFTER, fingerprint="flow 2")
    at_desk.apply(*WITHOUT, daily(OLD), fingerprint="flow 3")
    assert at_desk.ledger.reads.table(OLD).location == "tables/shop/daily.2"
    assert at_desk.ledger.declared.former().folders == {NEW: "tables/shop/daily", OLD: "tables/shop/daily.2"}


@pytest.mark.parametrize("name", [OLD, "marts.reads"])
def test_nothing_is_renamed_in_the_middle_of_a_batch(at_desk: Desk, name: str) -> None:
    lived(at_desk)
    at_desk.ledger.decisions.resume_tables([OLD], who="ann")
    held = at_desk.claim(name, 3, code="code of daily" if name == OLD else "reads shop")
    error = refused(at_desk, flow(*AFTER, fingerprint="flow 2"))
    assert (error.code, error.transient) == ("E407", True)
    at_desk.clock.pass_by(seconds=61)  # its runner was killed
    at_desk.apply(*AFTER, fingerprint="flow 2")
    [left] = at_desk.ledger.claims.open()
    assert (left.number, left.request.table) == (held.number, NEW if name == OLD else name)
    at_desk.done(left.request.table, 3, claim=left)
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of(NEW).codes == {"code of daily": 3 + (name == OLD)}
    assert at_desk.ledger.reads.snapshot(at_desk.flow).of("marts.reads").codes == {"reads sales": 2 + (name != OLD)}


def test_the_table_name_in_stored_json_is_replaced_by_the_new_one(at_desk: Desk) -> None:
    lived(at_desk)
    missing = [{"table": OLD, "low": day(0).isoformat(), "high": day(1).isoformat()}]
    with at_desk.ledger.declared.database.write() as write:
        lacks = sa.update(schema.revisions).where(schema.revisions.c.table_name == "marts.reads")
        write.execute(lacks.values(source={"missing": missing, "items": [{"name": OLD}]}))
    at_desk.apply(*AFTER, fingerprint="flow 2")
    with at_desk.ledger.declared.database.read() as connection:
        rows = connection.execute(
            sa.select(schema.revisions.c.source).where(schema.revisions.c.table_name == "marts.reads")
        ).scalars()
        for source in rows:
            assert source == {"missing": [{**missing[0], "table": NEW}], "items": [{"name": OLD}]}


def test_a_changed_declaration_is_refused_under_the_new_name(at_desk: Desk) -> None:
    lived(at_desk)
    regular = replace(table(NEW, mode=Mode.REPLACE), was=OLD)
    at_desk.apply(regular, fingerprint="flow 2")
    assert at_desk.ledger.reads.table(NEW).location == "tables/shop/daily"
    assert list(at_desk.ledger.declared.refused_tables(at_desk.flow)) == [NEW]


def test_records_of_claims_are_read_in_the_names_of_now() -> None:
    names = FormerNames({OLD: NEW}, {"was": "is"}, {NEW: "tables/shop/daily"})
    read = Input(OLD, f"PAST({OLD}, '1 DAY')", "slices", day(0), day(1), "tables/shop/daily", 1, "x")
    other = replace(read, table=f"{OLD}_late", location="tables/shop/daily_late")
    request = ClaimRequest("a.x", (day(0),), "was", "f", "r", "w", ZERO, 1, -1, {day(0): (read, other)})
    found = names.request(request, "a.x")
    assert found.code == "is"
    assert found.inputs[day(0)] == (replace(read, table=NEW, read=f"PAST({NEW}, '1 DAY')"), other)


def test_a_name_within_another_stays() -> None:
    assert replace_table_names(f"{OLD} x.{OLD} {OLD}_late ({OLD})", {OLD: NEW}) == f"{NEW} x.{OLD} {OLD}_late ({NEW})"


def test_two_tables_may_change_places_in_a_text() -> None:
    assert (
        replace_table_names("a.b JOIN c.d ON a.b.x = c.d.x", {"a.b": "c.d", "c.d": "a.b"})
        == "c.d JOIN a.b ON c.d.x = a.b.x"
    )


def test_each_text_is_scanned_once_however_many_names_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[str] = []
    whole = former_names._NAMED_WHOLE

    class Counting:
        def sub(self, said: Callable[[re.Match[str]], str], text: str) -> str:
            passes.append(text)
            return whole.sub(said, text)

    monkeypatch.setattr(former_names, "_NAMED_WHOLE", Counting())
    names = {f"web.t{number}": f"www.t{number}" for number in range(1000)}
    assert replace_table_names("web.t999, web.t1000", names) == "www.t999, web.t1000"
    assert len(passes) == 1


def test_a_rebuild_that_was_killed_is_finished_by_the_current_name(at_desk: Desk) -> None:
    at_desk.apply(*BEFORE)
    claim, _ = at_desk.ledger.maintenance.begin_rebuild(OLD, who="ann")
    at_desk.apply(*AFTER, fingerprint="flow 2")
    paused = at_desk.ledger.reads.snapshot(at_desk.flow).pause_of(NEW)
    assert paused is not None
    assert paused.why == f"being rebuilt (claim {claim}): `waterclock rebuild {NEW}` finishes it"
    # the process may only be paused
    with pytest.raises(WaterclockError) as refused:
        at_desk.ledger.maintenance.redeclare(daily(OLD), version=1, claim=claim, who="ann")
    assert refused.value.code == "E412"
    again, before = at_desk.ledger.maintenance.begin_rebuild(NEW, who="ann")
    assert before == claim
    at_desk.ledger.maintenance.redeclare(daily(NEW), version=1, claim=again, who="ann")
    assert at_desk.ledger.reads.snapshot(at_desk.flow).pause_of(NEW) is None
