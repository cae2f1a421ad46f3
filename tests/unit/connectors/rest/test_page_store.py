"""Pages are requested, stored and continued: each paging style and size, with every fault, against the records."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apis import Space, in_pages
from tests.systems import setting_of, unit_of
from waterclock.connectors.interface import WindowRequest
from waterclock.connectors.rest import collection
from waterclock.connectors.rest.collection import RestSource, time_text
from waterclock.connectors.rest.option_definitions import Paging, WindowParams, resource_of
from waterclock.connectors.rest.page_store import Series, lines_of
from waterclock.connectors.rest.paging import next_position
from waterclock.connectors.rest.records import Body
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STYLES = ("page", "offset", "cursor", "link", "links")
DAY = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.fixture
def space() -> Space:
    return Space()


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": str(at), "deep": {"n": at}} for at in range(count)]


def test_tables_of_other_rows_of_one_path_do_not_share_columns(tmp_path: Path) -> None:
    setting = setting_of("api", tmp_path, url="https://api.example")

    def known(columns: list[str], **options: str) -> list[str]:
        resource = resource_of(setting.options, "export", options)
        reading = RestSource(cast("Any", None), setting, unit_of("api", "export", **options), resource)
        return [each.name for each in collection._known_columns(reading, columns, 1)]

    assert known(["id", "name"], rows="users") == ["id", "name"]
    assert known(["no"], rows="orders") == ["no"]
    assert known(["id", "age"], rows="users") == ["id", "age", "name"]


def collect(reading: RestSource, window: Window | None = None, *, close: bool = True) -> list[str]:
    """Collect once, and return the ids of the stored records, in order."""
    series = collection._series_of(reading, window)
    pages = list(collection._read_series(reading, series, window))
    found = [json.loads(line)["id"] for page in pages for line in lines_of(Path(series.path_of(page)))]
    assert len(found) == sum(page.rows for page in pages)
    if close:
        series.close()
    return found


class Stopped(Exception):
    """Raised to stop a collect at a chosen point."""


def after(count: int, wanted: str) -> Any:
    left = [count]

    def strike(point: str) -> None:
        if point == wanted:
            left[0] -= 1
            if left[0] == 0:
                raise Stopped

    return strike


FAULTS = st.lists(st.sampled_from([None, None, 429, 500, 503, "cut", "half"]), max_size=12)


@settings(max_examples=settings().max_examples * 5 // 8)
@given(st.sampled_from(STYLES), st.integers(0, 23), st.integers(1, 9), st.integers(1, 9), FAULTS, st.booleans())
def test_all_records_come_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    style: str,
    count: int,
    size: int,
    most: int,
    faults: list[object],
    in_body: bool,
) -> None:
    space = Space()
    space.set(rows=rows(count), faults=faults, most=most)
    options = in_pages(style, size)
    if in_body and style in {"page", "offset", "cursor"}:
        options |= {"method": "POST", "params_in": "body"}
    reading = space.reading(tmp_path_factory.mktemp("api"), style, options, tries=13)
    assert collect(reading) == [str(at) for at in range(count)]


@settings(max_examples=settings().max_examples * 5 // 8)
@given(st.sampled_from(STYLES), st.integers(0, 20), st.integers(1, 6), st.data())
def test_a_stopped_collect_resumes_at_the_page_where_it_stopped(
    tmp_path_factory: pytest.TempPathFactory, style: str, count: int, size: int, data: st.DataObject
) -> None:
    space = Space()
    space.set(rows=rows(count))
    reading = space.reading(tmp_path_factory.mktemp("api"), style, in_pages(style, size))
    stops = data.draw(
        st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["page.kept", "page.written"])), max_size=3)
    )
    redone = 0
    for at, point in stops:
        try:
            with inject_faults(after(at, point)):
                collect(reading, close=False)
        except Stopped:
            redone += point == "page.written"  # that page was not stored yet
    assert collect(reading) == [str(at) for at in range(count)]
    whole = len(space.asked) - redone
    space.set(log=[])
    assert collect(reading) == [str(at) for at in range(count)]
    assert len(space.asked) == whole, "an undisturbed collect requests as many pages as the continued ones together"


@pytest.mark.parametrize("harm", [b"", b"cut", b"other", None])
def test_a_collect_does_not_go_on_from_a_page_that_was_harmed(space: Space, tmp_path: Path, harm: bytes | None) -> None:
    """Spark silently ignores a file that is empty."""
    space.set(rows=rows(7))
    reading = space.reading(tmp_path, "page", in_pages("page", 3))
    with pytest.raises(Stopped), inject_faults(after(2, "page.kept")):
        collect(reading, close=False)
    [first] = tmp_path.rglob("page-000001-*.gz")
    if harm is None:
        first.unlink()
    else:
        told = first.read_bytes()
        first.write_bytes({b"": b"", b"cut": told[:-9], b"other": gzip.compress(b"{}\n")}[harm])
    with pytest.raises(WaterclockError, match="E879") as caught:
        collect(reading)
    assert first.name in str(caught.value.why)
    shutil.rmtree(first.parent)
    assert collect(reading) == [str(at) for at in range(7)]


@pytest.mark.parametrize("stop", ["more", "total", "short"])
def test_the_last_page_is_known_without_an_empty_one(space: Space, tmp_path: Path, stop: str) -> None:
    space.set(rows=rows(7))
    options = in_pages("page", 3, **({"stop": "short"} if stop == "short" else {stop: stop}))
    assert len(collect(space.reading(tmp_path, "page", options))) == 7
    assert len(space.asked) == 3


@pytest.mark.parametrize(
    ("path", "options", "code", "told"),
    [
        ("stuck", in_pages("page", 3), "E843", "returned the same page 3 times"),
        ("loop", in_pages("cursor", 3), "E843", "was read before"),
        ("away", in_pages("link", 2, rows="data", next="links.next"), "E843", "another host"),
        ("page", in_pages("page", 3, rows="items"), "E842", "it has no items; there are data, total, more"),
        ("page", in_pages("page", 3, more="has_more"), "E842", "it has no has_more"),
    ],
)
def test_pages_that_do_not_match_the_paging_options_are_reported(
    space: Space, tmp_path: Path, path: str, options: Any, code: str, told: str
) -> None:
    space.set(rows=rows(7))
    with pytest.raises(WaterclockError) as caught:
        collect(space.reading(tmp_path, path, options))
    assert caught.value.code == code
    assert told in str(caught.value.why)
    assert not caught.value.transient
    assert len(space.asked) <= 4


def test_a_row_inserted_between_page_requests_duplicates_a_record_at_the_boundary(space: Space, tmp_path: Path) -> None:
    space.set(rows=rows(6), faults=[None, "insert"])
    found = collect(space.reading(tmp_path, "page", in_pages("page", 3)))
    assert found == ["0", "1", "2", "2", "3", "4", "5"]


def test_a_completed_series_is_requested_again(space: Space, tmp_path: Path) -> None:
    space.set(rows=rows(3))
    reading = space.reading(tmp_path, "page", in_pages("page", 3))
    assert len(collect(reading)) == 3
    space.set(rows=rows(4))
    assert len(collect(reading)) == 4


def test_pages_older_than_the_resume_time_are_requested_again(space: Space, tmp_path: Path) -> None:
    space.set(rows=rows(3))
    reading = space.reading(tmp_path, "page", in_pages("page", 3, resume=0.05))
    collect(reading, close=False)
    space.set(rows=rows(4))
    time.sleep(0.06)
    assert len(collect(reading)) == 4


def ids_of(reading: RestSource, series: Series) -> list[str]:
    pages = collection._read_series(reading, series, None)
    return [json.loads(line)["id"] for page in pages for line in lines_of(Path(series.path_of(page)))]


def test_pages_that_serve_all_windows_serve_none_that_was_not_over_then(space: Space, tmp_path: Path) -> None:
    first, second = (Window(DAY + timedelta(hours=at), DAY + timedelta(hours=at + 1)) for at in (0, 1))
    reading = space.reading(tmp_path, "page", in_pages("page", 2))
    space.set(rows=rows(3))
    assert len(ids_of(reading, collection._common_series(reading, first))) == 3
    space.set(rows=rows(5))  # two records appeared in the hour without a reader
    assert len(ids_of(reading, collection._common_series(reading, first))) == 3, "continues"
    assert len(ids_of(reading, collection._common_series(reading, second))) == 5
    longer = Window(first.start, second.end)  # of another table
    space.set(rows=rows(6))
    assert len(ids_of(reading, collection._common_series(reading, longer))) == 5, "as far as that one"
    assert len(ids_of(reading, collection._common_series(reading, Window(first.start, DAY + timedelta(hours=3))))) == 6


def test_pages_serve_no_later_batch_once_their_rows_are_stored(space: Space, tmp_path: Path) -> None:
    reading = space.reading(tmp_path, "page", in_pages("page", 2, since="since", until="until"))
    first, second = (Window(DAY + timedelta(hours=at), DAY + timedelta(hours=at + 1)) for at in range(2))

    def read(*windows: Window) -> collection._CollectedPages:
        return collection._read_pages(reading, collection._window_series(reading, WindowRequest("at", windows)))

    space.set(rows=rows(3))
    killed = read(first)
    space.set(rows=rows(1))
    assert read(first).paths == killed.paths, "its batch was killed: the next attempt continues"
    assert set(killed.paths) < set(read(first, second).paths), "a window has one series, together with any others"
    killed.build_result(cast("DataFrame", None)).before_commit()  # killed from here on, so the series is never closed
    looked_at = read(first, second)
    assert not set(killed.paths) & set(looked_at.paths)
    looked_at.build_result(cast("DataFrame", None)).before_commit()
    assert not set(looked_at.paths) & set(read(first).paths), "recollected a second time"


def test_a_snapshot_is_never_that_of_an_earlier_batch(space: Space, tmp_path: Path) -> None:
    reading = space.reading(tmp_path, "page", in_pages("page", 2))
    space.set(rows=rows(3))
    with inject_faults(after(1, "page.kept")), pytest.raises(Stopped):
        ids_of(reading, collection._series_of(reading, None, reuses_complete=False))
    assert ids_of(reading, collection._series_of(reading, None, reuses_complete=False)) == ["0", "1", "2"]
    assert len(space.asked) == 3, "it continues where it stopped"
    space.set(rows=rows(1))  # it is killed after its batch committed, before the series is closed
    assert ids_of(reading, collection._series_of(reading, None, reuses_complete=False)) == ["0"]


def test_a_page_of_which_nothing_is_left_is_not_the_last_where_there_is_more() -> None:
    says_more = Paging("page", "page", more=("more",))
    for more, following in ((True, {"page": 2}), (False, None)):
        body = Body((), (), {"more": more})
        assert next_position(says_more, {"page": 1}, body, before=0, link=None) == following
    assert next_position(Paging("page", "page"), {"page": 1}, Body((), (), {}), before=0, link=None) is None


def test_a_source_with_endless_empty_pages_is_reported(
    space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space.set(rows=[])
    monkeypatch.setattr(collection, "_MOST_EMPTY", 3)
    monkeypatch.setattr(collection, "next_position", lambda _, place, *__, **___: {"page": place["page"] + 1})
    with pytest.raises(WaterclockError) as caught:
        collect(space.reading(tmp_path, "page", in_pages("page", 3)))
    assert caught.value.code == "E843"


def test_empty_pages_with_ever_new_cursors_end(space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space.set(rows=[])
    monkeypatch.setattr(collection, "_MOST_EMPTY", 3)
    asked = iter(range(20))
    monkeypatch.setattr(collection, "next_position", lambda *_, **__: {"cursor": f"c{next(asked)}"})
    with pytest.raises(WaterclockError, match="do not end") as caught:
        collect(space.reading(tmp_path, "cursor", in_pages("cursor", 3)))
    assert caught.value.code == "E843"
    assert next(asked) == 3


def test_windows_and_other_questions_have_pages_of_their_own(space: Space, tmp_path: Path) -> None:
    space.set(rows=[{"id": str(at), "at": f"2013-01-01T0{at}:30:00Z"} for at in range(4)])
    windows = [Window(DAY + timedelta(hours=at), DAY + timedelta(hours=at + 1)) for at in range(2)]
    reading = space.reading(tmp_path, "page", in_pages("page", 9, since="since", until="until"))
    assert [collect(reading, window, close=False) for window in windows] == [["0"], ["1"]]
    other = space.reading(tmp_path, "page", in_pages("page", 9, since="since", until="until", **{"params.x": "1"}))
    assert collect(other, windows[0]) == ["0"]
    assert len(space.asked) == 6


@pytest.mark.parametrize(
    ("form", "zone", "start", "end"),
    [
        ("iso", "UTC", "2013-01-01T05:00:00Z", "2013-01-01T06:30:00Z"),
        ("iso", "America/New_York", "2013-01-01T00:00:00-05:00", "2013-01-01T01:30:00-05:00"),
        ("seconds", "UTC", "1357016400", "1357021800"),
        ("milliseconds", "UTC", "1357016400000", "1357021800000"),
        ("date", "UTC", "2013-01-01", "2013-01-02"),
        ("%Y%m%d%H", "UTC", "2013010105", "2013010107"),
        ("%d/%m/%Y %H:%M", "UTC", "01/01/2013 05:00", "01/01/2013 06:30"),
    ],
)
def test_request_times_cover_the_whole_window_in_every_time_format(form: str, zone: str, start: str, end: str) -> None:
    asked = WindowParams("since", "until", form, zone)
    first, last = DAY + timedelta(hours=5), DAY + timedelta(hours=6, minutes=30)
    assert (time_text(first, asked), time_text(last, asked, is_end=True)) == (start, end)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])
def test_request_times_cover_the_whole_window_for_either_fold_of_a_repeated_hour(zone: str) -> None:
    asked = WindowParams("since", "until", "%Y-%m-%d %H:%M", zone)
    for month, day in ((3, 29), (4, 5), (10, 25), (11, 1)):
        for half_hours in range(-30, 50):
            start = datetime(2026, month, day, tzinfo=UTC) + timedelta(minutes=30 * half_hours)
            for end in (start + timedelta(minutes=30), start + timedelta(hours=1), start + timedelta(days=1)):
                for fold in (0, 1):
                    since, until = (
                        datetime.fromisoformat(time_text(at, asked, is_end=at is end)).replace(
                            tzinfo=ZoneInfo(zone), fold=fold
                        )
                        for at in (start, end)
                    )
                    assert since.astimezone(UTC) <= start < end <= until.astimezone(UTC), (since, start, end, until)


def test_a_day_ends_where_the_next_begins() -> None:
    assert time_text(DAY + timedelta(days=1), WindowParams("a", "b", "date"), is_end=True) == "2013-01-02"


def test_stored_pages_contain_no_secret(space: Space, tmp_path: Path) -> None:
    space.set(rows=rows(5), credential="param:k3y-of-mine")
    options = in_pages("link", 2)
    reading = space.reading(tmp_path, "link", options, **{"auth.key": "k3y-of-mine", "auth.param": "key"})
    assert len(collect(reading)) == 5
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"k3y-of-mine" not in kept


KILLED = """
import sys, time
from pathlib import Path
from tests.apis import Space, in_pages
from tests.systems import setting_of, unit_of
from waterclock.connectors.rest import collection
from waterclock.faults import inject_faults
space = Space.__new__(Space); space.url = sys.argv[1]
reading = space.reading(Path(sys.argv[2]), "cursor", in_pages("cursor", 2))
def strike(point):
    if point == "page.kept":
        print(point, flush=True); time.sleep(0.1)
with inject_faults(strike):
    list(collection._read_series(reading, collection._series_of(reading, None), None))
"""


@pytest.fixture
def killed(space: Space, tmp_path: Path) -> None:
    """Collect three pages of ten in a process, and kill it."""
    space.set(rows=rows(20))
    process = subprocess.Popen([sys.executable, "-c", KILLED, space.url, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline().strip() == b"page.kept"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.usefixtures("killed")
def test_after_a_kill_no_stored_page_is_requested_again(space: Space, tmp_path: Path) -> None:
    before = len(space.asked)
    reading = space.reading(tmp_path, "cursor", in_pages("cursor", 2))
    assert collect(reading) == [str(at) for at in range(20)]
    cursors = [one["params"].get("cursor", "c0") for one in space.asked]
    assert before >= 3
    assert len(cursors) - len(set(cursors)) <= 1, "except for one that may have been in flight"
