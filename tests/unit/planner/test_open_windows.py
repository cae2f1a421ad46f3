"""The windows that are open at a boundary, and their inputs there."""

from __future__ import annotations

import pytest

from tests.model.flows import at
from tests.unit.planner.pasts import done, past
from waterclock.batches.ledger_snapshot import Closing, LedgerSnapshot
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.flow.declarations import Flow
from waterclock.planner.open_windows import ClosingTicks, merge_reads, open_windows
from waterclock.planner.plan import OpenWindow
from waterclock.planner.planning import Planner
from waterclock.timelabel.intervals import IntervalSet

FLOW = """
CREATE CONNECTION shop TYPE sqlite OPTIONS (path 'shop.sqlite');
COLLECT web.u PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.u EVERY 6 HOURS BY DATA TIME at START '2020-01-01';
COLLECT web.hours PARTITIONED (id BIGINT, at TIMESTAMP) FROM shop.h EVERY HOUR BY DATA TIME at START '2020-01-01';
TRANSFORM web.names (id BIGINT, name STRING) EVERY DAY AS SELECT id, 'a' AS name FROM HISTORY(web.u);
TRANSFORM web.daily PARTITIONED (id BIGINT) OPTIONS (open_windows 'kept') EVERY DAY CLOSE WHEN max(u.at) >= WINDOW_END()
AS SELECT u.id FROM UNTIL(web.u, '1 day') AS u LEFT JOIN web.names USING (id) LEFT JOIN web.hours USING (id);
"""


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    folder = tmp_path_factory.mktemp("flow")
    (folder / "flows").mkdir()
    (folder / "waterclock.toml").write_text('[project]\nname = "x"\n')
    (folder / "flows" / "all.dpl").write_text(FLOW)
    return load_project(folder, capabilities=capabilities()).flow


def opened(flow: Flow, boundary: str, **closed: str) -> tuple[OpenWindow, ...]:
    closings = {at(f"2020-01-{label[1:]}"): Closing(at(tick)) for label, tick in closed.items()}
    snapshot: LedgerSnapshot = past(**{"web.daily": done(closings=closings)})
    books = Planner(flow).books_of(snapshot, at("2020-01-09"), "web.daily")
    return open_windows(books, at(boundary), {})


def labels(found: tuple[OpenWindow, ...]) -> list[int]:
    return [each.window.start.day for each in found]


def test_a_window_is_open_from_its_first_boundary_to_the_one_that_closes_it(flow: Flow) -> None:
    assert labels(opened(flow, "2020-01-02 00:00")) == [1]
    assert labels(opened(flow, "2020-01-02 06:00")) == [1, 2]
    assert labels(opened(flow, "2020-01-02 06:00", d01="2020-01-02 06:00")) == [1, 2]
    assert labels(opened(flow, "2020-01-02 12:00", d01="2020-01-02 06:00")) == [2]


def test_inputs_of_an_open_window_are_read_up_to_the_boundary_or_the_end_of_the_window(flow: Flow) -> None:
    first, second = (
        {bound.read.table: (f"{bound.low:%d %H}", f"{bound.high:%d %H}") for bound in each.reads}
        for each in opened(flow, "2020-01-02 06:00")
    )
    assert first == {"web.u": ("01 00", "02 06"), "web.names": ("01 00", "02 00"), "web.hours": ("01 00", "02 00")}
    assert second == {"web.u": ("01 00", "02 06"), "web.names": ("01 00", "02 00"), "web.hours": ("02 00", "02 06")}


def test_a_batch_reads_the_slices_of_all_windows_as_one_span_and_all_else_once(flow: Flow) -> None:
    found = [
        (bound.read.table, f"{bound.low:%d %H}", f"{bound.high:%d %H}")
        for bound in merge_reads(opened(flow, "2020-01-02 06:00"))
    ]
    assert found == [
        ("web.u", "01 00", "02 06"),
        ("web.names", "01 00", "02 00"),
        ("web.hours", "01 00", "02 00"),
        ("web.hours", "02 00", "02 06"),
    ]


def test_windows_closed_before_a_window_whose_skip_ended_are_not_open(flow: Flow) -> None:
    daily = done(("2020-01-02", "2020-01-05"), closings={at("2020-01-05"): Closing(looked=at("2020-01-07"))})
    books = Planner(flow).books_of(past(**{"web.daily": daily}), at("2020-01-09"), "web.daily")
    assert labels(open_windows(books, at("2020-01-07"), {})) == [1, 5, 6]


def test_rows_that_open_a_window_again_change_no_state(flow: Flow) -> None:
    snapshot = past(
        **{"web.daily": done(closings={at("2020-01-01"): Closing(at("2020-01-03"), first=at("2020-01-02"))})}
    )
    books = Planner(flow).books_of(snapshot, at("2020-01-09"), "web.daily")
    assert labels(open_windows(books, at("2020-01-02 12:00"), {})) == [2]


def test_a_view_leaves_out_windows_skipped_without_being_closed(flow: Flow) -> None:
    tables = flow.tables
    openings = ClosingTicks(
        tables["web.daily"].cadence,
        tables["web.spd_daily"].cadence,
        at("2020-01-01"),
        {at("2020-01-01"): at("2020-01-03")},
    )
    done_ = IntervalSet.from_intervals([(at("2020-01-01"), at("2020-01-03"))])
    then = openings.find_visible_windows(at("2020-01-03"), done_, as_they_were=True)
    assert [window.start.day for window in then.windows] == [1]
    assert then.ended == {at("2020-01-01")}
    assert openings.find_visible_windows(at("2020-01-03"), done_, as_they_were=False).windows == ()
    assert openings.first_open_window(at("2020-01-03 06:00")) == at("2020-01-02")


def test_a_window_that_was_left_out_and_taken_back_is_shown_though_later_ones_are_closed(flow: Flow) -> None:
    tables = flow.tables
    closed = {at("2020-01-01"): at("2020-01-02"), at("2020-01-03"): at("2020-01-04")}
    openings = ClosingTicks(tables["web.daily"].cadence, tables["web.spd_daily"].cadence, at("2020-01-01"), closed)
    done_ = IntervalSet.from_intervals([(at("2020-01-01"), at("2020-01-02")), (at("2020-01-03"), at("2020-01-04"))])
    now = openings.find_visible_windows(at("2020-01-04 06:00"), done_, as_they_were=False)
    assert [window.start.day for window in now.windows] == [2, 4]
