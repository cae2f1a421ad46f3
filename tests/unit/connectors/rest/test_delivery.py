"""Rows are sent to a real server once and in order; after any fault only rows that were not accepted are sent."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apis import Space, patient
from tests.systems import HERE
from waterclock.connectors.delivering import Delivery, DeliveryOutcome
from waterclock.connectors.rest.delivery import RestDeliverer
from waterclock.connectors.rest.journal import AcceptedRequest, Journal
from waterclock.errors import WaterclockError
from waterclock.faults import inject_faults
from waterclock.flow.declarations import Unit, Value
from waterclock.flow.enums import Mode
from waterclock.timelabel.label import instant_of

LABEL = "20130101000000"
PROJECT, PUBLISH = "shop", "api.take"


@pytest.fixture
def space() -> Space:
    return Space()


def seal(folder: Path, rows: Sequence[dict[str, Any]], at: int = 0) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"part-{at}.parquet"
    fields = [("id", pa.string()), ("who", pa.string()), ("at", pa.int32()), ("_more", pa.string())]
    pq.write_table(pa.Table.from_pylist(list(rows), schema=pa.schema(fields)), path)
    return path


def delivery(
    files: Sequence[Path], claim: int = 1, *, order: Sequence[str] = (), per: Sequence[str] = (), label: str = LABEL
) -> Delivery:
    return Delivery(
        project=PROJECT,
        publish=PUBLISH,
        claim=claim,
        label=instant_of(label),
        label_text=label,
        mode=Mode.APPEND,
        is_from_partitioned=True,
        columns=(("id", "STRING"), ("who", "STRING"), ("at", "INT")),
        files=tuple(files),
        keys=("id",),
        order_by=tuple(order),
        per=tuple(per),
    )


def deliverer(space: Space, folder: Path, **options: Value) -> RestDeliverer:
    made = RestDeliverer(space.setting(folder, **options))
    made.__dict__["api"] = patient(made.setting)
    return made


def unit(**options: Value) -> Unit:
    return Unit("api", "take", None, {"path": "take/rows", **options}, HERE)


def rows(count: int, people: int = 3) -> list[dict[str, Any]]:
    return [{"id": str(at), "who": f"p{at % people}", "at": at} for at in range(count)]


def ids(space: Space) -> list[str]:
    return [row["id"] for row in space.told()["kept"]]


def sent(space: Space) -> list[dict[str, Any]]:
    return [one for one in space.asked if "key" in one]


def test_rows_are_sent_in_chunks_with_their_label_and_a_key_each(space: Space, tmp_path: Path) -> None:
    given = delivery([seal(tmp_path, rows(5))])
    (done,) = deliverer(space, tmp_path).deliver(unit(chunk=2), [given])
    assert (done.outcome, done.rows, done.is_repeat) == (DeliveryOutcome.DELIVERED, 5, False)
    assert [one["ids"] for one in sent(space)] == [["0", "1"], ["2", "3"], ["4"]]
    assert len({one["key"] for one in sent(space)}) == 3
    assert not list(tmp_path.rglob("*.accepted")), "finished deliveries need no details"
    assert space.told()["kept"][0] == {
        "id": "0", "who": "p0", "at": 0, "timelabel": LABEL, "claim": 1, "method": "POST",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"format": "ndjson", "path": "take/lines"}, "lines"),
        ({"wrap": "rows"}, "rows"),
        ({"format": "row", "path": "take/rows/{id}", "method": "PUT"}, "rows/0"),
        ({"path": "take/rows/{timelabel}"}, f"rows/{LABEL}"),
    ],
)
def test_each_form_of_a_request_brings_the_rows(
    space: Space, tmp_path: Path, options: dict[str, Value], path: str
) -> None:
    deliverer(space, tmp_path).deliver(unit(**options), [delivery([seal(tmp_path, rows(3))])])
    assert ids(space) == ["0", "1", "2"]
    assert sent(space)[0]["path"].split("/", 1)[1] == path


def test_a_request_whose_answer_was_lost_is_sent_again_with_its_key(space: Space, tmp_path: Path) -> None:
    space.set(faults=[None, "lost"])
    deliverer(space, tmp_path).deliver(unit(chunk=2), [delivery([seal(tmp_path, rows(6))])])
    assert ids(space) == [str(at) for at in range(6)]
    keys = [one["key"] for one in sent(space)]
    assert keys[1] == keys[2]


def test_towards_an_api_without_keys_it_may_be_there_twice(space: Space, tmp_path: Path) -> None:
    space.set(faults=[None, "lost"], knows_keys=False)
    deliverer(space, tmp_path).deliver(unit(chunk=2, idempotency=""), [delivery([seal(tmp_path, rows(6))])])
    assert ids(space) == ["0", "1", "2", "3", "2", "3", "4", "5"]
    assert {one["key"] for one in sent(space)} == {""}


def test_equal_rows_are_there_as_often_as_they_are(space: Space, tmp_path: Path) -> None:
    space.set(faults=[None, "lost"])
    same = [{"id": "a", "who": "p", "at": 1}] * 4
    deliverer(space, tmp_path).deliver(unit(chunk=1), [delivery([seal(tmp_path, same)])])
    assert ids(space) == ["a"] * 4


def test_an_interrupted_delivery_continues_where_it_stopped(space: Space, tmp_path: Path) -> None:
    space.set(faults=[None, None, *[503] * 9])
    given = delivery([seal(tmp_path, rows(8))])
    with pytest.raises(WaterclockError) as caught:
        deliverer(space, tmp_path, tries=2).deliver(unit(chunk=2), [given])
    assert (caught.value.code, caught.value.transient) == ("E848", True)
    assert deliverer(space, tmp_path).find(unit(), PROJECT, PUBLISH, 1) is None
    space.set(faults=[], log=[])
    killed = deliverer(space, tmp_path).kill(unit(), PROJECT, PUBLISH, 1)
    assert (killed.outcome, killed.rows) == (DeliveryOutcome.DELIVERED, 8), "a started delivery continues"
    assert [one["ids"] for one in sent(space)] == [["4", "5"], ["6", "7"]]
    assert ids(space) == [str(at) for at in range(8)]


def test_a_claim_that_cannot_go_on_now_stays_open(space: Space, tmp_path: Path) -> None:
    space.set(faults=[None, *[503] * 4])
    given = delivery([seal(tmp_path, rows(4))])
    with pytest.raises(WaterclockError) as caught:
        deliverer(space, tmp_path, tries=2).deliver(unit(chunk=2), [given])
    with pytest.raises(WaterclockError) as caught_again:
        deliverer(space, tmp_path, tries=2).kill(unit(), PROJECT, PUBLISH, 1)
    assert (caught.value.code, caught_again.value.code) == ("E848", "E848")


def test_refused_rows_are_reported_by_key_and_all_other_rows_are_delivered(space: Space, tmp_path: Path) -> None:
    space.set(refuses="3")
    given = delivery([seal(tmp_path, rows(6))])
    made = deliverer(space, tmp_path)
    with pytest.raises(WaterclockError) as caught:
        made.deliver(unit(format="row"), [given])
    error = caught.value
    assert (error.code, error.transient, error.what) == ("E847", False, "api refuses 1 row")
    assert "id 3" in str(error.why)
    assert "3 is not welcome" in str(error.why)
    assert ids(space) == ["0", "1", "2", "4", "5"]
    assert made.kill(unit(), PROJECT, PUBLISH, 1).outcome is DeliveryOutcome.KILLED
    assert made.deliver(unit(format="row"), [given])[0].outcome is DeliveryOutcome.KILLED


def test_the_next_claim_sends_only_rows_not_accepted_whatever_the_chunk_size(space: Space, tmp_path: Path) -> None:
    space.set(refuses="3")
    with pytest.raises(WaterclockError):
        deliverer(space, tmp_path).deliver(unit(chunk=2), [delivery([seal(tmp_path, rows(7))])])
    assert ids(space) == ["0", "1", "4", "5", "6"]
    space.set(log=[])
    mended = [row for row in rows(7) if row["id"] != "3"] + [{"id": "x", "who": "p", "at": 0}]
    (done,) = deliverer(space, tmp_path).deliver(unit(chunk=3), [delivery([seal(tmp_path, mended, 1)], claim=2)])
    assert (done.outcome, done.rows) == (DeliveryOutcome.DELIVERED, 7)
    assert [one["ids"] for one in sent(space)] == [["2", "x"]]


def test_a_label_that_was_delivered_and_is_made_again_is_sent_again_whole(space: Space, tmp_path: Path) -> None:
    given = delivery([seal(tmp_path, rows(2))])
    made = deliverer(space, tmp_path)
    made.deliver(unit(), [given])
    made.deliver(unit(), [replace(given, claim=2)])
    keys = [one["key"] for one in sent(space)]
    assert len(set(keys)) == 2
    assert [row["claim"] for row in space.told()["kept"]] == [2, 2]


def test_a_slice_that_is_missing_when_a_delivery_continues_is_reported(space: Space, tmp_path: Path) -> None:
    space.set(faults=[None, 503])
    path = seal(tmp_path, rows(4))
    with pytest.raises(WaterclockError):
        deliverer(space, tmp_path, tries=1).deliver(unit(chunk=2), [delivery([path])])
    path.unlink()
    with pytest.raises(WaterclockError) as caught:
        deliverer(space, tmp_path).kill(unit(), PROJECT, PUBLISH, 1)
    assert caught.value.code == "E849"


def test_rejected_credentials_fail_the_claim_and_the_next_claim_delivers(space: Space, tmp_path: Path) -> None:
    given = delivery([seal(tmp_path, rows(4))])
    space.set(credential="bearer:good")
    with pytest.raises(WaterclockError) as caught:
        deliverer(space, tmp_path, **{"auth.token": "wr0ng-token"}).deliver(unit(chunk=1), [given])
    assert caught.value.code == "E844"
    assert len(sent(space)) == 1
    made = deliverer(space, tmp_path, **{"auth.token": "good"})
    assert made.deliver(unit(), [replace(given, claim=2)])[0].outcome is DeliveryOutcome.DELIVERED
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"wr0ng-token" not in kept


def test_ordered_rows_are_sent_in_order_one_request_at_a_time(space: Space, tmp_path: Path) -> None:
    shuffled = sorted(rows(9), key=lambda row: (int(row["id"]) * 5) % 9)
    files = [seal(tmp_path, shuffled[:4], 0), seal(tmp_path, [*shuffled[4:], {"id": "n", "who": "p0"}], 1)]
    deliverer(space, tmp_path).deliver(unit(chunk=4), [delivery(files, order=["at"])])
    assert [row["id"] for row in space.told()["kept"]] == ["n", *map(str, range(9))]
    assert space.told()["most_flying"] == 1


def test_no_two_rows_of_one_entity_are_on_their_way_and_others_go_beside(space: Space, tmp_path: Path) -> None:
    space.set(pause=0.05)
    given = delivery([seal(tmp_path, rows(24, people=6)[::-1])], order=["at"], per=["who"])
    deliverer(space, tmp_path).deliver(unit(chunk=2, in_flight=3), [given])
    told = space.told()
    assert told["overlaps"] == 0
    assert told["most_flying"] == 3
    assert_in_order(told["kept"])
    assert all(len(set(one["ids"])) == 2 for one in told["log"])


def test_behind_a_refused_row_its_own_wait_and_no_others(space: Space, tmp_path: Path) -> None:
    space.set(refuses="4")  # the second of p1
    given = delivery([seal(tmp_path, rows(12))], order=["at"], per=["who"])
    with pytest.raises(WaterclockError, match="refuses"):
        deliverer(space, tmp_path).deliver(unit(format="row", in_flight=2), [given])
    assert sorted(ids(space), key=int) == ["0", "1", "2", "3", "5", "6", "8", "9", "11"]
    space.set(refuses="")
    deliverer(space, tmp_path).deliver(unit(format="row", in_flight=2), [replace(given, claim=2)])
    assert_in_order([row for row in space.told()["kept"] if row["who"] == "p1"])
    assert sorted(one["ids"][0] for one in sent(space)[-3:]) == ["10", "4", "7"]


def test_a_row_without_a_value_for_the_path_is_refused(space: Space, tmp_path: Path) -> None:
    given = delivery([seal(tmp_path, [{"id": "a", "who": "p"}, {"id": "b"}])])
    with pytest.raises(WaterclockError, match="refuses") as caught:
        deliverer(space, tmp_path).deliver(unit(format="row", path="take/rows/{who}"), [given])
    assert "id b" in str(caught.value.why)
    assert ids(space) == ["a"]


def assert_in_order(kept: list[dict[str, Any]]) -> None:
    for who in {row["who"] for row in kept}:
        times = [row["at"] for row in kept if row["who"] == who]
        assert all(one < other for one, other in pairwise(times)), who


class Struck(Exception):
    """Raised to stop a delivery at a chosen point."""


FAULTS = st.lists(st.sampled_from([None, None, 429, 503, "cut", "lost"]), max_size=10)


@settings(max_examples=settings().max_examples * 5 // 8)
@given(
    st.integers(0, 14), st.integers(1, 4), st.integers(1, 3), st.sampled_from(["", "at", "at per who"]), FAULTS,
    st.lists(st.integers(1, 6), max_size=3),
)  # fmt: skip
def test_whatever_fails_all_rows_are_there_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    chunk: int,
    in_flight: int,
    ordered: str,
    faults: list[object],
    stops: list[int],
) -> None:
    folder, space = tmp_path_factory.mktemp("api"), Space()
    space.set(faults=faults)
    in_flight = 1 if ordered == "at" else in_flight
    given = delivery(
        [seal(folder, rows(count)[::-1])], order=["at"] if ordered else [], per=["who"] if "per" in ordered else []
    )
    asked = unit(chunk=chunk, in_flight=in_flight)
    for at in stops:
        left = [at]

        def strike(point: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Struck(point)

        try:
            with inject_faults(strike):
                deliverer(space, folder, tries=2).deliver(asked, [given])
        except (Struck, WaterclockError):
            pass
    (done,) = deliverer(space, folder, tries=12).deliver(asked, [given])
    assert (done.outcome, done.rows) == (DeliveryOutcome.DELIVERED, count)
    kept = space.told()["kept"]
    assert Counter(row["id"] for row in kept) == Counter(map(str, range(count)))
    if ordered == "at":
        assert [row["at"] for row in kept] == list(range(count))
    if "per" in ordered:
        assert_in_order(kept)
        assert space.told()["overlaps"] == 0


def test_a_journal_line_truncated_by_a_crash_does_not_affect_other_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    lines = [AcceptedRequest(LABEL, at, (f"{at:016}",)) for at in range(3)]
    journal.accept(1, lines[0])
    with (tmp_path / "1.accepted").open("a") as file:
        file.write('["20130101000000", 1, "00000')  # then the power failed
    for line in lines[1:]:
        journal.accept(1, line)
    assert list(journal.read_accepted(1)) == lines
    journal.accept(1, lines[2])  # another runner had sent it as well
    assert journal.count_carried(LABEL, [1]) == Counter(f"{at:016}" for at in range(3))


def test_both_parts_of_a_chunk_are_recorded_in_an_object_store_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.connectors.rest.journal.is_remote", lambda _: True)
    (tmp_path / "1.accepted").mkdir()  # an object store needs no folder
    journal = Journal(tmp_path)
    parts = [AcceptedRequest(LABEL, 3, (digit * 16,)) for digit in "ab"]  # rows of "b" waited for a refused one
    for part in (*parts, parts[0]):
        journal.accept(1, part)
    assert sorted(journal.read_accepted(1), key=lambda one: one.digests) == parts


KILLED = """
import sys
from pathlib import Path
from tests.unit.connectors.rest.test_delivery import Space, deliverer, delivery, unit
space = Space.__new__(Space); space.url = sys.argv[1]
from waterclock.faults import inject_faults
import os, signal
left = [3]
def strike(point):
    left[0] -= point == "deliver.chunk"
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
with inject_faults(strike):
    deliverer(space, Path(sys.argv[2])).deliver(unit(chunk=1), [delivery([Path(sys.argv[2]) / "part-0.parquet"])])
"""


def test_after_a_kill_only_the_rest_is_sent(space: Space, tmp_path: Path) -> None:
    given = delivery([seal(tmp_path, rows(9))])
    ran = subprocess.run([sys.executable, "-c", KILLED, space.url, str(tmp_path)], check=False)
    assert ran.returncode == -9
    assert ids(space) == ["0", "1", "2"]
    (done,) = deliverer(space, tmp_path).deliver(unit(chunk=1), [given])
    assert done.outcome is DeliveryOutcome.DELIVERED
    assert [one["ids"] for one in sent(space)] == [[str(at)] for at in range(9)]


def test_a_value_that_cannot_be_sent_is_refused_before_the_first_request(space: Space, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    days = pa.array([0, 2_932_897], pa.date32())  # the last one is in the year 10000
    pq.write_table(pa.table({"id": ["1", "2"], "who": days, "at": [1, 2]}), tmp_path / "far.parquet")
    made = deliverer(space, tmp_path)
    with pytest.raises(WaterclockError, match="who has a time outside of the years 1 to 9999"):
        made.deliver(unit(chunk=1), [delivery([tmp_path / "far.parquet"])])
    assert not sent(space)
    assert made.kill(unit(), PROJECT, PUBLISH, 1).outcome is DeliveryOutcome.KILLED
