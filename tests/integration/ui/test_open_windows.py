"""The open windows of tables with CONTINUOUS on the grid, the page of lag and the page of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.slices import rows_of
from tests.ticking import CLICKS, PAGES, Ticking, today, yesterday
from waterclock.batches.ledger_snapshot import BatchStatus, FailedBatch
from waterclock.operations.formatting import number_words
from waterclock.operations.revision_rows import open_window_rows
from waterclock.storage.commit.log_lag import LogLag, PartitionLag, record_log_lag
from waterclock.storage.commit.speed_tables import TableOutage, record_check, record_hidden_labels
from waterclock.timelabel.label import label_of
from waterclock.ui.live_project import LiveProject


@pytest.fixture
def ticking(tmp_path: Path) -> Ticking:
    return Ticking(tmp_path / "clicks", start=yesterday())


@pytest.fixture
def page(ticking: Ticking, served: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Return the pages of the project at the current time, without a cache of ticks."""
    seconds = iter(range(1_000_000))
    monkeypatch.setattr("waterclock.ui.page_cache.time.monotonic", lambda: next(seconds))
    return served(ticking.folder, now=None)


def open_of(page: TestClient, table: str = CLICKS, path: str = "/grid.json") -> dict[str, Any]:
    found: dict[str, Any] = page.get(path).json()["ticks"][table]
    return found


def test_the_grid_shows_rows_and_age_of_open_windows(ticking: Ticking, page: TestClient) -> None:
    found = open_of(page)
    assert (found["state"], found["short"], found["rows"], found["windows"]) == ("late", "no tick yet", 0, 1)
    ticking.tick([1, 2, 3])
    found = open_of(page)
    assert (found["state"], found["rows"], found["tick"], found["hidden"]) == ("open", 3, 1, 0)
    assert found["short"].startswith("3 rows · ")
    [label] = found["labels"]
    assert (label["label"], label["rows"], label["state"]) == (label_of(today()), 3, "open")
    assert label["waits"].startswith("ends at ")
    html = page.get("/").text
    assert '<span class="open-windows">open windows</span>' in html
    assert f'aria-label="{CLICKS}, open windows: 1 window open from {label_of(today())} on; the oldest ends at' in html
    assert f'href="/tables/{CLICKS}/live"' in html
    assert '<th scope="col">Why open</th>' in page.get("/lag").text  # "ends at ...", "waits for its batch"
    assert set(page.get("/grid.json").json()["ticks"]) == {CLICKS, PAGES}  # web.other has no open windows
    assert set(page.get(f"/grid.json?t={PAGES}").json()["ticks"]) == {PAGES}


def test_the_lag_of_a_topic_is_shown_by_partition(ticking: Ticking, page: TestClient) -> None:
    ticking.tick([1])
    assert open_of(page)["log"] is None
    worst = tuple(PartitionLag(str(part), 0, 2000 - part, today()) for part in range(20))
    record_log_lag(ticking.spd_folder(), LogLag(123_456, 1000, 700, worst))
    found = open_of(page)["log"]
    assert (found["offsets"], found["partitions"], found["behind"], len(found["worst"])) == (123_456, 1000, 700, 20)
    assert (found["worst"][1]["partition"], found["worst"][1]["end"]) == ("1", 1999)
    html = page.get("/lag").text
    assert f'aria-label="Partitions of {CLICKS}"' in html
    assert "980 partitions with a smaller lag are not shown" in html
    assert f'<td class="r">{number_words(1999)}</td>' in html
    assert f'aria-label="Partitions of {CLICKS}"' in page.get(f"/tables/{CLICKS}/live").text


def test_windows_that_a_rule_hides_have_another_shape_and_a_reason(ticking: Ticking, page: TestClient) -> None:
    ticking.tick({yesterday(): rows_of(1)})
    reason = "id IS NOT NULL: <b>2 rows</b>"
    record_hidden_labels(ticking.spd_folder(), {today(): reason})
    found = open_of(page)
    assert (found["state"], found["short"], found["hidden"], found["rows"]) == ("blocked", "1 of 2 hidden", 1, 1)
    assert [each["hidden"] for each in found["labels"]] == ["", reason]
    html = page.get("/").text
    assert "gl gl-blocked" in html
    assert "&lt;b&gt;2 rows&lt;/b&gt;" in html
    assert "<b>2 rows</b>" not in html
    record_hidden_labels(ticking.spd_folder(), {})
    assert open_of(page)["state"] == "open"


def test_ticks_that_no_run_makes_any_more_are_late(ticking: Ticking, page: TestClient) -> None:
    long_ago = datetime.now(UTC) - timedelta(minutes=5)
    ticking.tick([1], at=long_ago)
    assert open_of(page)["state"] == "open"  # the tick itself is new
    record_check(ticking.spd_folder(), datetime.now(UTC) + timedelta(seconds=1))
    assert open_of(page)["age"] == 0


def test_a_source_that_cannot_be_read_is_shown_with_its_begin_and_reason(ticking: Ticking, page: TestClient) -> None:
    ticking.tick([1, 2])
    outage = TableOutage(CLICKS, datetime.now(UTC) - timedelta(minutes=4), "no <b>answer</b>")
    record_check(ticking.spd_folder(), datetime.now(UTC) - timedelta(minutes=5), [outage])
    found = open_of(page)
    assert (found["state"], found["short"]) == ("late", "no new rows for 5 min")
    assert found["age"] > 299  # although the tick itself is new
    assert [(each["table"], each["why"]) for each in found["outages"]] == [(CLICKS, "no <b>answer</b>")]
    html = page.get("/lag").text
    assert f"{CLICKS} has no new rows since " in html
    assert "no &lt;b&gt;answer" in html
    record_check(ticking.spd_folder(), None, [outage])
    assert open_of(page)["short"] == "no new rows"
    record_check(ticking.spd_folder(), datetime.now(UTC))
    assert (open_of(page)["state"], open_of(page)["outages"]) == ("open", [])


def test_the_page_of_lag_shows_each_open_window_and_what_it_waits_for(ticking: Ticking, page: TestClient) -> None:
    ticking.tick({yesterday(): rows_of(1, 2), today(): rows_of(3)})
    found = open_of(page, path="/lag.json")
    assert [(each["rows"], each["waits"].split(" at ")[0]) for each in found["labels"]] == [
        (2, "waits for its batch"),
        (1, "ends"),
    ]
    html = page.get("/lag").text
    assert html.count('<h2 class="h3">Open windows</h2>') == 1
    assert "waits for its batch" in html


def test_the_page_that_follows_a_table_shows_the_rows_of_the_newest_tick(ticking: Ticking, page: TestClient) -> None:
    ticking.tick({yesterday(): rows_of(1), today(): rows_of(7, 8)})
    found = page.get(f"/tables/{CLICKS}/live.json").json()
    assert found["tab"] == "live"
    assert found["seconds"] == 1
    assert found["opened"]["label"] == label_of(today())
    assert [[cell["text"] for cell in row["cells"]] for row in found["opened"]["shown"]] == [["7", "n7"], ["8", "n8"]]
    html = page.get(f"/tables/{CLICKS}/live").text
    assert f'data-events="/events/{CLICKS}"' in html
    assert "n8" in html
    ticking.tick({today(): []})
    assert page.get(f"/tables/{CLICKS}/live.json").json()["opened"] is None


@pytest.mark.parametrize("held", [CLICKS, PAGES])
def test_rows_that_are_made_from_held_rows_are_not_shown_before_a_tick_withdraws_them(
    ticking: Ticking, held: str
) -> None:
    ticking.tick({yesterday(): rows_of(1), today(): rows_of(7)})
    live = LiveProject(ticking.folder)
    at = live.load()
    live.close()
    shown = open_window_rows(at, at.flow.tables[PAGES])
    assert shown is not None
    assert shown[0] == today()
    trouble = FailedBatch(BatchStatus.HELD, claim=1, attempts=1, error="", is_transient=False)
    facts = {held: replace(at.snapshot.of(held), troubles={today(): trouble})}
    at = replace(at, snapshot=replace(at.snapshot, tables={**at.snapshot.tables, **facts}))
    shown = open_window_rows(at, at.flow.tables[PAGES])
    assert shown is not None
    assert shown[0] == yesterday()


def test_a_table_without_continuous_is_not_followed(page: TestClient) -> None:
    answer = page.get("/tables/web.other/live.json")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["code"] == "E910"
    assert "live" not in [each["name"] for each in page.get("/tables/web.other.json").json().get("tabs", [])]


def test_before_the_first_run_the_pages_show_that_there_is_no_tick(
    tmp_path: Path, served: Callable[..., TestClient]
) -> None:
    ticking = Ticking(tmp_path / "clicks", is_applied=False)
    page = served(ticking.folder, now=None)
    assert open_of(page)["short"] == "no tick yet"
    assert page.get("/lag").status_code == page.get(f"/tables/{CLICKS}/live").status_code == 200
    assert not (ticking.folder / ".waterclock").exists()  # nothing is written
