"""Requests for each of some keys, in batches, in parallel and with faults, compared with the API's content."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apis import Space, patient
from tests.systems import HERE
from waterclock.connectors.interface import EachRequest
from waterclock.connectors.rest import collection, for_each
from waterclock.connectors.rest.addresses import OutsideApiError
from waterclock.connectors.rest.client import ApiRequest
from waterclock.connectors.rest.collection import ResourceNotFound, RestSource
from waterclock.connectors.rest.for_each import _EachContext
from waterclock.connectors.rest.option_definitions import details_of, each_parameters, resource_of
from waterclock.connectors.rest.page_store import Series, lines_of
from waterclock.connectors.rest.records import Body
from waterclock.connectors.rest.response_store import (
    KEY,
    NOTHING,
    ResponseStore,
    ResponseWriter,
    StoredResponse,
    answer_of,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit, Value
from waterclock.timelabel.window import Window

DAY = datetime(2013, 1, 1, tzinfo=UTC)
WINDOW = Window(DAY, DAY + timedelta(days=1))
ONE: dict[str, Value] = {"path": "detail/{id}"}
MANY: dict[str, Value] = {"path": "details", "params.ids": "{id}", "match": "id"}


@pytest.fixture
def space() -> Space:
    return Space()


def asking_of(space: Space, folder: Path, options: dict[str, Value]) -> _EachContext:
    setting = space.setting(folder, tries=2)
    unit = Unit("api", "things", None, options, HERE)
    reading = RestSource(patient(setting), setting, unit, resource_of(setting.options, unit.path, options))
    request = EachRequest("raw.things", "raw.things", each_parameters("things", options), {})
    return _EachContext(reading, request, details_of(options), ResponseStore(folder / "each", "asked"))


def key_of(value: object) -> str:
    return json.dumps([str(value)])


def kept(series: Series) -> dict[str, list[Any]]:
    """Return the stored records by key; assert that a key has one response, on one page."""
    found: dict[str, list[Any]] = {}
    for page in series.pages():
        of_page: dict[str, list[Any]] = {}
        for line in lines_of(series.folder / page.file):
            told = json.loads(line)
            of_page.setdefault(told[KEY], []).extend([] if NOTHING in told else [told])
        assert not of_page.keys() & found.keys()
        assert page.rows == sum(map(len, of_page.values()))
        found |= of_page
    return found


def ask(asking: _EachContext, values: list[Any], series: Series) -> None:
    """Request the keys that are not stored yet, as a collect does."""
    known = kept(series)
    writer = ResponseWriter(asking.answers, series, len(list(series.pages())) + 1)
    open_ = [key_of(value) for value in dict.fromkeys(values) if key_of(value) not in known]
    try:
        for_each._request_all_keys(asking, WINDOW, writer, io.StringIO("".join(f"{key}\n" for key in open_)))
    finally:
        writer.flush()


FAULTS = st.lists(st.sampled_from([None, None, None, 500, 503, "half", "cut"]), max_size=8)


@settings(max_examples=15)
@given(
    asked=st.lists(st.integers(1, 12), max_size=20),
    there=st.sets(st.integers(1, 12)),
    batch=st.sampled_from([1, 2, 5]),
    in_flight=st.sampled_from([1, 3]),
    faults=FAULTS,
)
def test_each_key_is_answered_once_whatever_fails_on_the_way(
    tmp_path_factory: pytest.TempPathFactory,
    asked: list[int],
    there: set[int],
    batch: int,
    in_flight: int,
    faults: list[Any],
) -> None:
    space, folder = Space(), tmp_path_factory.mktemp("each")
    space.set(rows=[{"id": one, "deep": {"n": one}} for one in sorted(there)], faults=faults)
    options = {**(ONE if batch == 1 else {**MANY, "batch": batch}), "not_found": "skip", "in_flight": in_flight}
    asking, series = asking_of(space, folder, options), Series(folder / "w=20130101000000" / "asked" / "000001")
    for _ in range(len(faults) + 1):
        before = kept(series)
        with suppress(WaterclockError):
            ask(asking, asked, series)
        assert before.items() <= kept(series).items(), "stored responses stay"
    found = kept(series)
    assert found.keys() == {key_of(one) for one in asked}
    assert {key: [each["deep"]["n"] for each in of] for key, of in found.items()} == {
        key_of(one): [one] if one in there else [] for one in asked
    }
    good = [one for said in space.asked for one in said["ids"]]
    assert len(good) <= len(set(asked)) + batch * in_flight * 2 * len(faults)


def test_values_are_put_into_a_path_as_one_step_of_it(space: Space, tmp_path: Path) -> None:
    asking = asking_of(
        space, tmp_path, {"path": "detail/{id}", "params.of": "x:{kind}", "params.json": '{"a": {kind}}'}
    )
    put = for_each._resource_for(asking, [["a/b c?", "ü"]])
    assert put.path == "detail/a%2Fb%20c%3F"
    assert dict(put.params) == {"of": "x:ü", "json": '{"a": ü}'}
    with pytest.raises(OutsideApiError, match=r"id '\.\.' in the path"):
        for_each._resource_for(asking, [["..", ""]])


def test_a_value_that_looks_like_a_placeholder_is_inserted_literally(space: Space, tmp_path: Path) -> None:
    asking = asking_of(space, tmp_path, {"path": "detail/{id}", "params.q": "{kind} {id}"})
    assert dict(for_each._resource_for(asking, [["1", "{id}"]]).params) == {"q": "{id} 1"}


def test_a_batch_in_a_body_is_a_list(space: Space, tmp_path: Path) -> None:
    space.set(rows=[{"id": one} for one in (1, 2, 3)])
    options: dict[str, Value] = {**MANY, "method": "POST", "params_in": "body", "batch": 3}
    asking, series = asking_of(space, tmp_path, options), Series(tmp_path / "w=1" / "asked" / "000001")
    ask(asking, [1, 2, 3], series)
    assert [said["ids"] for said in space.asked] == [["1", "2", "3"]]
    assert all(len(of) == 1 for of in kept(series).values())


def test_concurrent_requests_never_exceed_the_in_flight_option(space: Space, tmp_path: Path) -> None:
    space.set(rows=[{"id": one} for one in range(9)], pause=0.1)
    asking = asking_of(space, tmp_path, {**ONE, "in_flight": 3})
    ask(asking, list(range(9)), Series(tmp_path / "w=1" / "asked" / "000001"))
    assert space.told()["most_flying"] <= 3


def test_a_record_with_a_key_that_was_not_requested_is_refused(space: Space, tmp_path: Path) -> None:
    space.set(rows=[{"id": one} for one in (1, 2, 3)], echo="all")
    asking, series = asking_of(space, tmp_path, {**MANY, "batch": 2}), Series(tmp_path / "w=1" / "asked" / "000001")
    with pytest.raises(WaterclockError, match="E868"):
        ask(asking, [1, 2], series)
    assert kept(series) == {}


def test_a_404_fails_the_collect_and_earlier_responses_are_kept(space: Space, tmp_path: Path) -> None:
    space.set(rows=[{"id": 1}])
    asking, series = asking_of(space, tmp_path, ONE), Series(tmp_path / "w=1" / "asked" / "000001")
    with pytest.raises(WaterclockError, match="E869") as raised:
        ask(asking, [1, 7], series)
    assert "detail/7" in str(raised.value.why)
    assert list(kept(series)) == [key_of(1)]


def test_a_later_page_that_is_not_there_loses_no_page_before_it(
    space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error does not contain the requested id."""
    asking = asking_of(space, tmp_path, {**ONE, "not_found": "skip", "paging": "page", "page_size": 1})
    lacking: list[bool] = []

    def request_page(_: Any, place: Any, *others: Any) -> Any:
        lacking.append(others[-1](ApiRequest("GET", "detail/1", {})).accepts_not_found)
        if len(lacking) == 1:
            return Body(('{"id": 1}',), ("id",), None), {**place, "page": 2}
        raise (
            ResourceNotFound
            if lacking[-1]
            else WaterclockError("E845", "refused", where="here", why="404", fix="mend it")
        )

    monkeypatch.setattr(for_each, "request_page", request_page)
    with pytest.raises(WaterclockError, match="E845"):
        for_each._request_keys(asking, WINDOW, [key_of(1)])
    assert lacking == [True, False]


@pytest.mark.parametrize("value", ["\u00b2", "\u0663", "07", "-1", "1.0", " 1", "x"])
def test_a_text_in_a_body_stays_one(value: str) -> None:
    """Digits of other scripts are not JSON numbers."""
    assert collection._json_parameter(value) == value
    assert collection._json_parameter("12345678901234567890") == 12345678901234567890


def test_two_writers_of_one_series_keep_no_key_twice(tmp_path: Path) -> None:
    answers, series = ResponseStore(tmp_path, "asked"), Series(tmp_path / "w=1" / "asked" / "000001")

    def answered(value: int, by: str) -> tuple[str, StoredResponse]:
        return key_of(value), answer_of(key_of(value), ["_n"], [json.dumps({"by": by})], ["by"], DAY)

    one, other = ResponseWriter(answers, series, 1), ResponseWriter(answers, series, 1)
    for value in (1, 2):
        one.add(*answered(value, "one"))
    one.flush()
    for value in (2, 3):
        other.add(*answered(value, "other"))
    other.flush()
    found = kept(series)
    assert {key: of[0]["by"] for key, of in found.items()} == {key_of(1): "one", key_of(2): "one", key_of(3): "other"}


def test_a_writer_that_was_overtaken_keeps_nothing_that_is_kept(tmp_path: Path) -> None:
    """The slower writer gets responses for keys that the other one has already stored."""
    answers, series = ResponseStore(tmp_path, "asked"), Series(tmp_path / "w=1" / "asked" / "000001")
    one, other = ResponseWriter(answers, series, 1), ResponseWriter(answers, series, 1)
    for value in range(1, 6):
        one.add(key_of(value), answer_of(key_of(value), ["_n"], ["{}"], [], DAY))
    one.flush()
    for value in range(1, 8):
        other.add(key_of(value), answer_of(key_of(value), ["_n"], ["{}"], [], DAY))
        other.flush()
    assert list(kept(series)) == [key_of(value) for value in range(1, 8)]


@pytest.mark.parametrize("is_in_body", [False, True])
def test_a_value_with_a_comma_is_never_part_of_a_comma_separated_list(*, is_in_body: bool) -> None:
    waiting = "".join(f"{key_of(value)}\n" for value in ("a", "b,c", "d", ",", "e"))
    batches = [
        [json.loads(key)[0] for key in batch]
        for batch in for_each._batches(io.StringIO(waiting), 2, is_listed=not is_in_body)
    ]
    expected = [["a", "b,c"], ["d", ","], ["e"]] if is_in_body else [["b,c"], ["a", "d"], [","], ["e"]]
    assert batches == expected


KILLED = """
import sys
from pathlib import Path
from tests.apis import Space
from tests.unit.connectors.rest import test_for_each as tests
from waterclock.connectors.rest.page_store import Series
space = Space.__new__(Space); space.url = sys.argv[1]
folder, options = Path(sys.argv[2]), tests.ONE if sys.argv[3] == "1" else {**tests.MANY, "batch": int(sys.argv[3])}
asking = tests.asking_of(space, folder, {**options, "not_found": "skip", "in_flight": 3})
print("begun", flush=True)
tests.ask(asking, list(range(90)), Series(folder / "w=1" / "asked" / "000001"))
"""


@pytest.mark.parametrize(
    ("batch", "seed"), [(1, 0), *(pytest.param(*each, marks=pytest.mark.soak) for each in [(4, 1), (1, 2), (4, 3)])]
)
def test_a_process_killed_at_any_time_leaves_responses_that_the_next_one_reuses(
    space: Space, tmp_path: Path, batch: int, seed: int
) -> None:
    chance, series = random.Random(seed), Series(tmp_path / "w=1" / "asked" / "000001")
    space.set(rows=[{"id": one, "more": "\u2028" * one} for one in range(0, 90, 2)], pause=0.05 * batch)
    before: set[str] = set()
    for _ in range(2):
        command = [sys.executable, "-c", KILLED, space.url, str(tmp_path), str(batch)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        time.sleep(chance.uniform(0.1, 1.6))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        found = set(kept(series))
        assert before <= found
        before = found
    asked = len(space.asked)
    options = ONE if batch == 1 else {**MANY, "batch": batch}
    ask(asking_of(space, tmp_path, {**options, "not_found": "skip"}), list(range(90)), series)
    done = kept(series)
    assert {key: [one["id"] for one in of] for key, of in done.items()} == {
        key_of(one): [one] if one % 2 == 0 else [] for one in range(90)
    }
    assert sum(len(one["ids"]) for one in space.asked[asked:]) == 90 - len(before), (
        "stored responses are not requested again"
    )


def test_a_line_holds_the_record_as_it_was_written() -> None:
    answer = answer_of('["7"]', ["_n"], ['{ "big": 1.10, "id": 12345678901234567890 }', "{}"], ["big", "id"], DAY)
    first, second = answer.lines
    assert first.endswith('"big": 1.10, "id": 12345678901234567890 }')
    assert json.loads(second)["_n"] == "7"
    assert answer.records == 2
    assert [NOTHING in json.loads(line) for line in answer_of('["7"]', ["_n"], [], [], DAY).lines] == [True]


class TestWhichSeries:
    """The series that a label continues."""

    def series(self, tmp_path: Path, *, resume: float = 60, is_done: bool = False, is_anew: bool = False) -> Series:
        now = datetime.now(UTC)
        return ResponseStore(tmp_path, "asked").series("1", resume, now, is_done=is_done, is_anew=is_anew)

    def begun(self, tmp_path: Path, *, is_closed: bool) -> Series:
        series = self.series(tmp_path)
        writer = ResponseWriter(ResponseStore(tmp_path, "asked"), series, 1)
        writer.add('["1"]', answer_of('["1"]', ["_n"], [], [], DAY))
        writer.flush()
        if is_closed:
            series.close()
        return series

    def test_a_stopped_series_is_resumed_only_within_the_resume_time(self, tmp_path: Path) -> None:
        begun = self.begun(tmp_path, is_closed=False)
        assert self.series(tmp_path) == begun
        assert self.series(tmp_path, resume=0) != begun

    def test_a_done_label_keeps_its_responses_until_it_is_recollected(self, tmp_path: Path) -> None:
        begun = self.begun(tmp_path, is_closed=True)
        assert self.series(tmp_path, resume=0, is_done=True) == begun
        assert self.series(tmp_path, is_done=True, is_anew=True).folder.name == "000002"

    def test_a_label_keeps_its_answers_if_a_recollect_that_stopped_was_withdrawn(self, tmp_path: Path) -> None:
        done = self.begun(tmp_path, is_closed=True)
        series = self.series(tmp_path, is_done=True, is_anew=True)
        series.folder.mkdir()
        assert self.series(tmp_path, is_done=True, is_anew=True) == series
        assert self.series(tmp_path, is_done=True) == done

    def test_a_stopped_recollect_is_resumed(self, tmp_path: Path) -> None:
        begun = self.begun(tmp_path, is_closed=False)
        assert self.series(tmp_path, is_done=True, is_anew=True) == begun

    def test_answers_of_other_labels_are_found_by_their_days(self, tmp_path: Path) -> None:
        answers, now = ResponseStore(tmp_path, "asked"), datetime.now(UTC)
        series = self.series(tmp_path)
        writer = ResponseWriter(answers, series, 1)
        writer.add('["1"]', answer_of('["1"]', ["_n"], ["{}"], [], DAY))
        writer.flush()
        other = Series(tmp_path / "w=2" / "asked" / "000001")
        assert len(answers.files_since(now - timedelta(days=1), datetime.now(UTC), other)) == 1
        assert answers.files_since(datetime.now(UTC), datetime.now(UTC), other) == []
        assert answers.files_since(now - timedelta(days=1), datetime.now(UTC), series) == [], "its own are no others"
