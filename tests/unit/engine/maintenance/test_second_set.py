"""`rebuild --all`: labels that it makes again, and those that stay. No Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.tiny import day
from tests.unit.engine.maintenance.test_reset import CLICKS, DAILY, NOW, declare, make
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.maintenance import second_set
from waterclock.engine.maintenance.rebuild_all import forecast_rebuild
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.planner.plan import Status
from waterclock.timelabel.window import Window

BEST = "web.best"
COLLECT = """
COLLECT web.clicks PARTITIONED (id BIGINT, name STRING) FROM land.acme.clicks EVERY DAY START '2020-01-01'
  BY ARRIVAL TIME;
"""
READERS = """
TRANSFORM web.daily PARTITIONED EVERY DAY AS SELECT count(*) AS n FROM web.clicks;
TRANSFORM web.best (name STRING KEY, n BIGINT) EVERY DAY MERGE AS
  SELECT name, count(*) AS n FROM web.clicks GROUP BY name;
"""


def weekly(retained: str) -> str:
    return (
        (COLLECT + READERS)
        .replace("DAY START '2020-01-01'", f"WEEK {retained} START '2019-12-30'")
        .replace("EVERY DAY", "EVERY WEEK")
    )


@contextmanager
def opened(root: Path) -> Iterator[RunContext]:
    with open_workplace(load_project(root, capabilities=capabilities())) as work:
        yield work


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with three done days."""
    declare(tmp_path, COLLECT + READERS)
    with opened(tmp_path) as work:
        apply_flow(work, NOW)
        for number in (1, 2, 3):
            make(work, CLICKS, number, (2 * number, 2 * number + 1))
            make(work, DAILY, number)
            make(work, BEST, number)
    return tmp_path


def kept(work: RunContext, monkeypatch: pytest.MonkeyPatch, now: datetime = NOW) -> Mapping[str, Sequence[datetime]]:
    """Return the unchanged labels by table."""
    brought: dict[str, list[datetime]] = {}

    def bring(_: object, __: object, table: Any, pieces: Any) -> None:
        brought[table.name] = [each.result.label for each in pieces]

    monkeypatch.setattr(second_set, "seed_from_live_slices", bring)
    cut = second_set.cut_of(work, now)
    with Ledger.open("sqlite://") as ledger:
        second_set.link_unmakeable_labels(work, cut, second_set.second_set_context(work, cut, ledger))
    assert {name: sorted(labels) for name, labels in cut.kept.items()} == brought
    return brought


def cost(work: RunContext, now: datetime = NOW) -> Mapping[str, int]:
    return {name: cost.batches for name, cost in forecast_rebuild(work, now).cost.tables.items()}


def test_labels_before_a_later_start_stay(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: no run makes them again, so the new set would lack them and be refused forever."""
    declare(root, COLLECT.replace("2020-01-01", "2020-01-03") + READERS)
    with opened(root) as work:
        assert kept(work, monkeypatch) == {DAILY: [day(1), day(2)], BEST: [day(1), day(2)]}
        assert cost(work) == {DAILY: 1, BEST: 1}


def test_labels_with_dropped_inputs_stay_also_where_each_waits_for_the_one_before(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(root) as work:
        work.ledger.maintenance.drop_windows(CLICKS, day(3), 3, who="ann")
        assert kept(work, monkeypatch) == {DAILY: [day(1), day(2)], BEST: [day(1), day(2)]}
        assert cost(work) == {DAILY: 1, BEST: 1}


@pytest.mark.parametrize("declared", ["PARTITIONED EVERY WEEK", "EVERY DAY APPEND"])
def test_new_windows_of_rows_whose_inputs_are_dropped_are_refused(root: Path, declared: str) -> None:
    """No rows of a table are kept when its windows change, so labels that cannot be made again would be missing."""
    with opened(root) as work:
        work.ledger.maintenance.drop_windows(CLICKS, day(3), 3, who="ann")
    changed = READERS.replace("web.daily PARTITIONED EVERY DAY", f"web.daily {declared}")
    declare(root, COLLECT + changed)
    with opened(root) as work, pytest.raises(WaterclockError, match="the new tables are incomplete") as refused:
        forecast_rebuild(work, NOW)
    assert refused.value.code == "E433"
    assert "has dropped its inputs" in str(refused.value.why)
    assert "`waterclock reset web.daily`" in str(refused.value.fix)


def test_skipped_batches_stay_skipped_also_in_another_mode(root: Path) -> None:
    """Their windows stay the same; with other windows, the new ones have other rows."""
    with opened(root) as work:
        work.ledger.decisions.skip(DAILY, [Window(day(4), day(5))], who="ann", why="broken")
    for declared, skipped in (("EVERY DAY APPEND", [(day(4), day(5))]), ("PARTITIONED EVERY WEEK", [])):
        declare(root, COLLECT + READERS.replace("web.daily PARTITIONED EVERY DAY", f"web.daily {declared}"))
        with opened(root) as work, Ledger.open("sqlite://") as ledger:
            other = second_set.second_set_context(work, second_set.cut_of(work, NOW), ledger)
            assert other.ledger.maintenance.skipped_windows(DAILY) == skipped


def test_batches_made_before_the_clock_was_set_back_are_rebuilt(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(root) as work:
        assert second_set.cut_of(work, day(2)).now == day(4)
        assert kept(work, monkeypatch, day(2)) == {}
        assert cost(work, day(2)) == {DAILY: 3, BEST: 3}


def test_a_rebuild_forecast_counts_only_batches_up_to_the_last_collected_label(root: Path) -> None:
    with opened(root) as work:
        found = forecast_rebuild(work, day(30))
        assert {name: of.batches for name, of in found.cost.tables.items()} == {DAILY: 3, BEST: 3}
        assert {batch.status for batch in found.plan.batches} <= {Status.READY, Status.WAITING}


@pytest.mark.parametrize(("retained", "is_gone"), [("", False), ("RETAIN 7 DAYS KEEP VERSIONS 7 DAYS", True)])
def test_collected_windows_that_were_dropped_do_not_come_back_in_other_windows(
    root: Path, monkeypatch: pytest.MonkeyPatch, retained: str, *, is_gone: bool
) -> None:
    """A user dropped them, or their slices do not exist any more."""
    declare(root, weekly(retained))
    with opened(root) as work:
        work.ledger.maintenance.drop_windows(CLICKS, day(2), 3, who="ann")
        if is_gone:
            monkeypatch.setattr(second_set, "is_sealed", lambda _, path: "d=01" not in path)
        cut = second_set.cut_of(work, NOW)
        assert [each.result.label for each in cut.collected[CLICKS]] == [day(2), day(3)]
        assert cut.dropped == {CLICKS: work.flow.tables[CLICKS].cadence.floor(day(2))}
        assert cut.find_kept_items_end(CLICKS) == day(2), "no batch collects the files of dropped windows again"
        with Ledger.open("sqlite://") as ledger:
            other = second_set.second_set_context(work, cut, ledger)
            facts = other.ledger.reads.snapshot(cut.flow).of(CLICKS)
        assert facts.dropped_before == cut.dropped[CLICKS]


def test_collected_windows_that_retain_dropped_are_cut_again_with_the_others(root: Path) -> None:
    declare(root, weekly("RETAIN 7 DAYS"))
    with opened(root) as work:
        work.ledger.maintenance.drop_windows(CLICKS, day(2), 3, who="ann")
        cut = second_set.cut_of(work, NOW)
        assert [each.result.label for each in cut.collected[CLICKS]] == [day(1), day(2), day(3)]
        assert cut.dropped == {}
        assert cut.find_kept_items_end(CLICKS) is None
