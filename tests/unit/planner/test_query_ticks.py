from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from tests.model.flows import at, collect, days, flow, merge_transform, replace_transform, snapshot, transform
from tests.unit.planner.pasts import covered, done, past, read_then
from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Mode
from waterclock.flow.merge_settings import Temporal
from waterclock.planner.as_of_errors import unmade_windows_error
from waterclock.planner.planning import Planner
from waterclock.planner.query_ticks import Ticks, read_tick

NOW = at("2013-01-05 03:00")
A = collect("a")
HOURLY = collect("h", "HOUR", start=at("2013-01-01"))
ALL = ("2013-01-01", "2013-01-05")


def ticks(tables: Flow, ledger: LedgerSnapshot, now: datetime = NOW) -> Ticks:
    return Planner(tables).ticks(ledger, now)


class TestReading:
    FLOW = flow(A, HOURLY)

    @pytest.mark.parametrize(
        ("text", "tick"),
        [
            ("20130103000000", "2013-01-03"),
            ("2013-01-03", "2013-01-03"),
            ("2013-01-03T06:00Z", "2013-01-03 06:00"),
            ("2013-01-03T06:00:59.5Z", "2013-01-03 06:00"),
            ("a@20130103000000", "2013-01-04"),
            ("a@2013-01-03", "2013-01-04"),
            ("h@2013-01-03T06:00", "2013-01-03 07:00"),
        ],
    )
    def test_a_tick_is_an_instant_or_the_end_of_a_tables_window(self, text: str, tick: str) -> None:
        assert read_tick(text, self.FLOW, "UTC") == at(tick)

    def test_latest_is_to_be_found(self) -> None:
        assert read_tick("latest", self.FLOW, "UTC") is None

    @pytest.mark.parametrize(
        ("text", "code"), [("b@2013-01-03", "E511"), ("h@2013-01-03", "E512"), ("a@", "E512"), ("noon", "E106")]
    )
    def test_other_forms_are_refused(self, text: str, code: str) -> None:
        with pytest.raises(WaterclockError) as refused:
            read_tick(text, self.FLOW, "UTC")
        assert refused.value.code == code


class TestLatest:
    def test_it_is_the_newest_tick_that_all_tables_have_reached(self) -> None:
        ledger = past(a=done(("2013-01-01", "2013-01-04")), h=done(("2013-01-01", "2013-01-05 02:00")))
        known = ticks(flow(A, HOURLY), ledger)
        assert known.latest(["a"]) == at("2013-01-04")
        assert known.latest(["h"]) == at("2013-01-05 02:00")
        assert known.latest(["a", "h"]) == at("2013-01-04 23:00"), "the day after is not complete in a"

    def test_it_is_found_however_long_ago_it_was(self) -> None:
        ledger = past(h=done(("2013-01-01", "2013-01-02")))
        assert ticks(flow(HOURLY), ledger, at("2026-01-01")).latest(["h"]) == at("2013-01-02")

    def test_a_state_rests_on_all_windows_from_start(self) -> None:
        merged = merge_transform("m", ["a"])
        ledger = past(a=done(ALL), m=done(("2013-01-01", "2013-01-03"), ("2013-01-04", "2013-01-05")))
        assert ticks(flow(A, merged), ledger).latest(["m"]) == at("2013-01-03")

    def test_a_stale_window_and_all_later_ones_are_not_settled(self) -> None:
        stale = {at("2013-01-03"): (read_then("a", "2013-01-03", "2013-01-04", is_changed=True),)}
        ledger = past(a=done(ALL), b=done(ALL, suspects=stale))
        assert ticks(flow(A, transform("b", ["a"])), ledger).latest(["b"]) == at("2013-01-03")

    def test_a_missing_state_that_is_not_needed_is_skipped_over(self) -> None:
        total = replace_transform("t", ["a"])
        ledger = past(a=done(ALL), t=done(("2013-01-02", "2013-01-03")))
        assert ticks(flow(A, total), ledger).latest(["t"]) == at("2013-01-03")

    def test_there_is_no_tick_before_the_first_batch(self) -> None:
        with pytest.raises(WaterclockError) as refused:
            ticks(flow(A), past()).latest(["a"])
        assert refused.value.code == "E523"


class TestMissing:
    @pytest.mark.parametrize("tick", ["2013-01-02", "2013-01-03"])
    @pytest.mark.parametrize("name", ["s", "v"])
    def test_a_snapshot_holds_nothing_before_its_start(self, name: str, tick: str) -> None:
        whole = snapshot("s", start=at("2013-01-03"))
        versions = replace(snapshot("v", start=at("2013-01-03")), mode=Mode.TEMPORAL, fold=Temporal(("k",)))
        stood = done(("2012-01-01", "2013-01-05"))
        known = ticks(flow(whole, versions), past(s=stood, v=stood))
        assert known.find_missing_windows(["s", "v"], at("2013-01-04")) == {}
        with pytest.raises(WaterclockError, match=f"{name} begins after"):
            known.find_missing_windows([name], at(tick))

    @pytest.mark.parametrize(
        ("tick", "code"), [("2013-01-01", "E521"), ("2013-01-01 12:00", "E521"), ("2014-01-01", "E521")]
    )
    def test_a_tick_before_start_or_to_come_has_no_content(self, tick: str, code: str) -> None:
        with pytest.raises(WaterclockError) as refused:
            ticks(flow(A), past(a=done(ALL))).find_missing_windows(["a"], at(tick))
        assert refused.value.code == code

    def test_a_state_that_was_not_made_is_refused_with_the_command_that_makes_it(self) -> None:
        ledger = past(a=done(ALL), t=done(("2013-01-02", "2013-01-03")))
        known = ticks(flow(A, replace_transform("t", ["a"])), ledger)
        assert known.find_missing_windows(["t"], at("2013-01-03")) == {}
        missing = known.find_missing_windows(["a", "t"], at("2013-01-04"))
        assert missing == {"t": covered(("2013-01-03", "2013-01-04"))}
        error = unmade_windows_error(known, missing, at("2013-01-04"), is_partial=False)
        assert error.code == "E522"
        assert "backfill t 20130103000000" in str(error.fix)

    def test_a_partitioned_table_misses_every_window_from_start_on(self) -> None:
        ledger = past(a=done(("2013-01-02", "2013-01-03"), ("2013-01-04", "2013-01-05")))
        missing = ticks(flow(A), ledger).find_missing_windows(["a"], at("2013-01-05"))
        assert missing == {"a": covered(("2013-01-01", "2013-01-02"), ("2013-01-03", "2013-01-04"))}

    def test_a_snapshot_covers_the_days_between(self) -> None:
        ledger = past(s=done(("2012-12-01", "2013-01-04")))
        assert ticks(flow(snapshot("s")), ledger).find_missing_windows(["s"], at("2013-01-03")) == {}

    def test_windows_outside_retain_are_not_missing_but_dropped_windows_within_it_are(self) -> None:
        kept = collect("k", retain=days(2))
        ledger = past(k=done(("2013-01-02", "2013-01-05"), dropped_before=at("2013-01-02")))
        known = ticks(flow(kept), ledger)
        assert known.find_missing_windows(["k"], at("2013-01-05")) == {}
        assert known.find_missing_windows(["k"], at("2013-01-03")) == {"k": covered(("2013-01-01", "2013-01-02"))}
        error = unmade_windows_error(
            known, known.find_missing_windows(["k"], at("2013-01-03")), at("2013-01-03"), is_partial=False
        )
        assert error.code == "E518"
