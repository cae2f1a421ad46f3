"""The tick and the time of knowledge of a query, for a ledger of a few batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.ledgers import DAY, Desk, day, desk, result, table
from waterclock.batches.ledger_snapshot import BatchStatus, History, Missing
from waterclock.engine.query.ticks import MissingLabels, MomentFinder, RequestedTick, ResolvedTick
from waterclock.engine.reads.as_of import commit_records
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Mode, OnRestate
from waterclock.planner.planning import Planner
from waterclock.storage.log.content_as_of import NO_VERSION, resolve
from waterclock.timelabel.duration import Duration
from waterclock.timelabel.label import label_of

ORDERS = table("orders", partitioned=True, start=day(0))
REVENUE = table("revenue", partitioned=True, reads=["orders"])
TOTAL = table("total", mode=Mode.REPLACE, reads=["orders"])
GRAND = table("grand", mode=Mode.REPLACE, reads=["total"])
ALL = ("orders", "revenue", "total", "grand")


@pytest.fixture
def shop() -> Iterator[Desk]:
    """Yield three days of all four tables, an hour between one label and the next."""
    opened = desk()
    with opened.ledger:
        opened.apply(ORDERS, REVENUE, TOTAL, GRAND)
        for label in range(3):
            opened.clock.pass_by(hours=1)
            make(opened, label)
        opened.clock.pass_by(hours=1)
        yield opened


def make(at: Desk, label: float, *names: str, digest: str = "1:0:0") -> None:
    """Make a label of tables, upstream first, a second each."""
    for name in names or ALL:
        at.clock.pass_by(seconds=1)
        reads = [at.read(read.table, label, label + 1) for read in at.flow.tables[name].reads]
        held = at.claim(name, label, reads={label: reads}, restates="a test")
        at.done(name, label, digest=digest, claim=held)


def ask(
    at: Desk, *tables: str, tick: float | str, known_at: datetime | None = None, partial: bool = False
) -> ResolvedTick:
    text = tick if isinstance(tick, str) else label_of(day(tick))
    questions = MomentFinder(Planner(at.flow), at.ledger, at.clock.at)
    return questions.moment(tables, RequestedTick(text, known_at, is_partial=partial))


def refused(at: Desk, *tables: str, tick: float | str, **more: object) -> WaterclockError:
    with pytest.raises(WaterclockError) as error:
        ask(at, *tables, tick=tick, **more)  # type: ignore[arg-type]  # the keywords of ask
    return error.value


def just_before(instant: datetime) -> datetime:
    return instant - timedelta(microseconds=1)


class TestOneInstantForAll:
    def test_all_is_as_known_now_where_all_agrees(self, shop: Desk) -> None:
        assert ask(shop, *ALL, tick=2) == ResolvedTick(day(2))

    def test_known_at_precedes_every_restatement_that_some_tables_have_not_followed(self, shop: Desk) -> None:
        make(shop, 0, "orders", digest="1:1:1")
        first = shop.clock.at
        shop.clock.pass_by(minutes=31)
        make(shop, 0, "total", digest="1:1:1")
        second = shop.clock.at
        three = ask(shop, "orders", "total", "grand", tick=1)
        assert three.known_at == just_before(first), "before the second, total was older than orders"
        assert three.has_pending_restatements
        assert three.behind == {"grand": (day(0),)}
        two = ask(shop, "total", "grand", tick=1)
        assert two.known_at == just_before(first), "total itself reads orders, whether it is queried or not"
        assert ask(shop, "orders", "total", tick=1) == ResolvedTick(day(1)), "they agree now"
        known = ask(shop, "orders", "total", "grand", tick=1, known_at=second)
        assert known.known_at == just_before(first)

    def test_a_restatement_that_was_taken_back_is_no_step(self, shop: Desk) -> None:
        make(shop, 0, "orders", digest="1:1:1")
        make(shop, 0, "orders")
        assert ask(shop, *ALL, tick=1) == ResolvedTick(day(1))

    def test_it_is_the_newest_instant_at_which_all_agreed_not_the_oldest(self, shop: Desk) -> None:
        make(shop, 0, "orders", digest="1:1:1")
        make(shop, 0, "orders")
        make(shop, 0, "orders", digest="1:2:2")
        assert ask(shop, *ALL, tick=1).known_at == just_before(shop.clock.at)

    def test_a_consistent_instant_is_found_however_old_it_is(self, shop: Desk) -> None:
        make(shop, 0, "orders", digest="1:1:1")
        first = shop.clock.at
        for _ in range(4):
            shop.clock.pass_by(days=100)
            make(shop, 2)
        assert ask(shop, *ALL, tick=1).known_at == just_before(first)

    def test_a_table_that_only_reports_restatements_is_consistent_as_it_is(self, shop: Desk) -> None:
        shop.apply(ORDERS, REVENUE, replace(TOTAL, on_restate=OnRestate.REPORT), GRAND)
        make(shop, 0, "orders", digest="1:1:1")
        assert ask(shop, "orders", "total", "grand", tick=1) == ResolvedTick(day(1))


class TestAStuckRipple:
    def test_a_later_tick_that_does_not_rest_on_it_is_answered_as_known_now(self, shop: Desk) -> None:
        make(shop, 0, "orders", digest="1:1:1")
        make(shop, 3)
        assert ask(shop, "total", "grand", tick=4) == ResolvedTick(day(4))

    def test_latest_falls_back_to_an_earlier_tick_and_reports_the_awaited_labels(self, shop: Desk) -> None:
        make(shop, 1, "orders", digest="1:1:1")
        found = ask(shop, "orders", "revenue", tick="latest")
        assert found == ResolvedTick(day(1), awaited=(MissingLabels("revenue", day(1), day(1), 1),))

    def test_a_later_tick_based_on_a_pending_restatement_is_refused_naming_the_stuck_batch(self, shop: Desk) -> None:
        make(shop, 0, "orders", digest="1:1:1")
        make(shop, 3)
        error = refused(shop, "revenue", tick=4)
        assert (error.code, error.where) == ("E523", "revenue@20130101000000")
        assert "before that, revenue@20130104000000 was not made" in str(error.why)
        assert ask(shop, "revenue", tick=3).has_pending_restatements, "the tick before existed when all tables agreed"


class TestMissing:
    def test_a_partitioned_table_is_refused_like_any_other(self, shop: Desk) -> None:
        make(shop, 4, "orders", "revenue")
        error = refused(shop, "revenue", tick=5)
        assert (error.code, error.where) == ("E522", "revenue@20130104000000")
        assert "backfill revenue 20130104000000" in str(error.fix)
        assert "--partial" in str(error.fix)

    def test_partial_answers_and_names_the_missing_labels(self, shop: Desk) -> None:
        make(shop, 5, "orders", "revenue")
        found = ask(shop, "revenue", tick=6, partial=True)
        assert found.missing == (MissingLabels("revenue", day(3), day(4), 2),)
        assert refused(shop, "total", tick=6, partial=True).code == "E522", "a state is made or it is not"
        older = ask(shop, "orders", tick="latest")
        assert (older.tick, older.awaited) == (day(3), (MissingLabels("orders", day(3), day(4), 2),))
        assert ask(shop, "orders", tick="latest", partial=True).tick == day(6)

    def test_partial_does_not_return_to_an_instant_before_a_label_was_made(self, shop: Desk) -> None:
        make(shop, 0, "orders", digest="1:1:1")
        make(shop, 4, "orders", "revenue")
        assert refused(shop, "revenue", tick=5, partial=True).code == "E523"

    def test_a_skipped_label_is_empty_and_not_missing(self, shop: Desk) -> None:
        window = ORDERS.cadence.window_of(day(3))
        shop.ledger.decisions.skip("orders", [window], who="ann", why="closed")
        make(shop, 4, "orders")
        assert ask(shop, "orders", tick=5) == ResolvedTick(day(5))

    @pytest.mark.parametrize(
        ("table", "fate", "why"),
        [
            ("orders", "failed", "failed: boom"),
            ("orders", "held", "that batch was held by a rule: boom"),
            ("orders", "open", "being made"),
        ],
    )
    def test_the_reason_for_a_missing_label_is_reported(self, shop: Desk, table: str, fate: str, why: str) -> None:
        held = shop.claim(table, 3)
        if fate != "open":
            status = BatchStatus.HELD if fate == "held" else BatchStatus.FAILED
            shop.ledger.claims.record_failed(held, error="boom\nat line 3", is_transient=False, status=status)
        assert why in str(refused(shop, table, tick=4).why)

    def test_a_label_that_is_not_due_is_refused(self) -> None:
        late = replace(ORDERS, cadence=replace(ORDERS.cadence, delay=2 * DAY))
        at = desk()
        with at.ledger:
            at.apply(late)
            at.clock.at = day(2)
            error = refused(at, "orders", tick=1)
        assert (error.code, "not due before" in str(error.why)) == ("E522", True)

    def test_a_dropped_label_is_no_empty_one(self, shop: Desk) -> None:
        shop.ledger.maintenance.drop_windows("orders", day(1), 9, who="ann")
        assert refused(shop, "orders", tick=3).code == "E518"
        found = ask(shop, "orders", tick=3, partial=True)
        assert found.missing == (MissingLabels("orders", day(0), day(0), 1),)
        assert ask(shop, "revenue", tick=3) == ResolvedTick(day(3)), "batches made from it stay"


LATE = table("late", start=day(0))
BOTH = replace(table("both", reads=["orders", "late"]), partial_after=Duration(1, "HOUR"))


@pytest.fixture
def partial() -> Iterator[Desk]:
    """Yield a day of a table that was made without `late`, before a restatement of `orders`."""
    opened = desk()
    with opened.ledger:
        opened.apply(ORDERS, LATE, BOTH)
        make(opened, 0, "orders")
        claim = opened.claim("both", 0, reads={0: [opened.read("orders", 0, 1)]})
        lacks = Missing("late", day(0), day(1)).to_dict()
        opened.ledger.claims.record_done(claim, [result(0, source={"missing": [lacks]})])
        make(opened, 0, "orders", digest="1:9:9")
        yield opened


class TestPartialBatches:
    def test_a_partial_batch_counts_as_consistent_with_the_inputs_it_had(self, partial: Desk) -> None:
        make(partial, 1, "orders", "late", "both")
        assert ask(partial, "both", "orders", tick=2) == ResolvedTick(day(2))

    def test_once_it_can_be_completed_the_answer_is_as_known_before(self, partial: Desk) -> None:
        make(partial, 1, "orders", "late", "both")
        make(partial, 0, "late")
        then = partial.clock.at
        partial.clock.pass_by(hours=1)
        found = ask(partial, "both", tick=2)
        assert (found.known_at, found.behind) == (just_before(then), {"both": (day(0),)})
        assert ask(partial, "both", tick="latest", known_at=just_before(then)).tick == day(2)

    def test_once_it_can_be_completed_later_batches_that_were_not_made_before_are_refused(self, partial: Desk) -> None:
        make(partial, 0, "late")
        make(partial, 1, "orders", "late", "both")
        error = refused(partial, "both", tick=2)
        assert (error.code, error.where) == ("E523", "both@20130101000000")
        assert str(error.fix).startswith("`waterclock recompute both 20130101000000` makes it again; ")

    def test_one_that_was_completed_since_is_known_as_it_was(self, partial: Desk) -> None:
        then = partial.clock.at
        make(partial, 0, "late", "both", digest="1:2:2")
        assert ask(partial, "both", tick=1) == ResolvedTick(day(1))
        assert ask(partial, "both", tick=1, known_at=then) == ResolvedTick(day(1), then)


class TestKnownAt:
    def test_a_tick_that_was_not_made_by_then_is_refused_not_empty(self, shop: Desk) -> None:
        then = shop.clock.at
        shop.clock.pass_by(hours=1)
        make(shop, 3)
        error = refused(shop, "orders", tick=4, known_at=then)
        assert (error.code, error.where) == ("E522", "orders@20130104000000")
        assert "it was made at 2026-01-01" in str(error.why)
        assert ask(shop, "orders", tick=3, known_at=then) == ResolvedTick(day(3), then)

    def test_where_the_newest_tick_of_that_time_was_dropped_no_later_tick_is_proposed(self, shop: Desk) -> None:
        then = shop.clock.at
        shop.clock.pass_by(hours=1)
        make(shop, 3)
        shop.ledger.maintenance.drop_windows("orders", day(3), 9, who="ann")
        newest = refused(shop, "orders", tick="latest", known_at=then)
        assert (newest.code, newest.where) == ("E518", "orders@20130101000000")
        assert str(newest.fix).startswith("query as known at a later time")
        assert str(refused(shop, "orders", tick=3, known_at=then).fix).startswith("query as of a later tick")

    def test_latest_is_the_newest_tick_of_that_time(self, shop: Desk) -> None:
        then = shop.clock.at
        shop.clock.pass_by(hours=1)
        make(shop, 3)
        make(shop, 1, "orders", digest="1:1:1")
        assert ask(shop, *ALL, tick="latest", known_at=then) == ResolvedTick(day(3), then)
        long_ago = then - timedelta(days=9)
        assert refused(shop, *ALL, tick="latest", known_at=long_ago).code == "E523"

    def test_a_label_is_known_since_its_own_record_though_an_older_commit_was_recorded_later(self, shop: Desk) -> None:
        again, new = shop.claim("orders", 0, restates="a test"), shop.claim("orders", 3)
        shop.clock.pass_by(seconds=1)
        shop.ledger.claims.record_done(new, [result(3, version=101)])
        between = shop.clock.at
        shop.clock.pass_by(seconds=9)
        shop.ledger.claims.record_done(again, [result(0, version=100, digest="1:1:1")])
        assert ask(shop, "orders", tick=4, known_at=between) == ResolvedTick(day(4), between)
        shown = resolve(ORDERS, day(4), commit_records(shop.ledger, "orders"), known_at=between)
        assert [step.label for step in shown.steps] == [day(0), day(1), day(2), day(3)]
        assert shown.version == NO_VERSION, "version 101 holds the restated label too"

    def test_a_clock_set_back_does_not_make_an_older_revision_current(self, shop: Desk) -> None:
        make(shop, 0, "orders", digest="1:1:1")
        shop.clock.pass_by(hours=-9)
        make(shop, 0, "orders", "revenue", digest="1:2:2")
        shop.clock.pass_by(hours=12)
        then = shop.clock.at
        make(shop, 0, "orders", "revenue", digest="1:3:3")
        assert ask(shop, "orders", "revenue", tick=1, known_at=then) == ResolvedTick(day(1), then)


def test_a_query_reads_the_ledger_at_most_twice_however_many_batches_are_done(
    shop: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(shop, 0, "orders", digest="1:1:1")
    for label in range(3, 60):
        make(shop, label)
    looks: list[datetime] = []
    history = shop.ledger.reads.history

    def counted(flow: Flow, asked: Mapping[str, datetime], since: datetime) -> History:
        looks.append(since)
        return history(flow, asked, since)

    monkeypatch.setattr(shop.ledger.reads, "history", counted)
    assert ask(shop, *ALL, tick=1).has_pending_restatements
    assert len(looks) <= 2
    looks.clear()
    assert ask(shop, "total", "grand", tick=60) == ResolvedTick(day(60))
    assert not looks, "tables that agree need no earlier state"
