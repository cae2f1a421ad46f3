"""Offsets of labels: contiguous, complete, and never past lost records without an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.interface import Positions
from waterclock.connectors.kafka.ranges import Log, OffsetSpan, first_range, next_range, readable_range, spans_of
from waterclock.engine.collect.positions import require_contiguous
from waterclock.errors import WaterclockError

WHERE = "kafka.orders"


def log(*parts: tuple[int, int], name: str = "a") -> Log:
    return Log(
        "orders", name, {at: low for at, (low, _) in enumerate(parts)}, {at: up for at, (_, up) in enumerate(parts)}
    )


def refused(topic: Log, reached: Positions, without: str = "") -> WaterclockError:
    with pytest.raises(WaterclockError) as caught:
        next_range(topic, reached, where=WHERE, without=without)
    return caught.value


def test_a_range_begins_where_the_last_one_ended() -> None:
    first = first_range(log((3, 10), (0, 0)), {0: 3, 1: 0})
    assert first == Positions("orders a", {"0": (3, 10), "1": (0, 0)})
    assert next_range(log((3, 10), (0, 0)), first, where=WHERE) is None
    assert next_range(log((5, 12), (0, 4), (0, 2)), first, where=WHERE) == Positions(
        "orders a", {"0": (10, 12), "1": (0, 4), "2": (0, 2)}
    )


def test_a_topic_that_begins_at_its_end_owns_an_empty_range() -> None:
    latest = first_range(log((3, 10)), {0: 10})
    assert latest.parts == {"0": (10, 10)}
    assert spans_of(latest) == ()


def test_offsets_lost_to_retention_are_reported_and_skipped_only_if_named() -> None:
    reached = Positions("orders a", {"0": (0, 10), "1": (0, 5)})
    error = refused(log((15, 20), (5, 9), (2, 4)), reached)
    assert error.code == "E852"
    assert "0:10-15,2:0-2" in str(error.why)
    assert refused(log((16, 20), (5, 9), (2, 4)), reached, "0:10-15,2:0-2").code == "E852"
    found = next_range(log((15, 20), (5, 9), (2, 4)), reached, where=WHERE, without="0:10-15, 2:0-2")
    assert found == Positions("orders a", {"0": (10, 20), "1": (5, 9), "2": (0, 4)}, {"0": (10, 15), "2": (0, 2)})
    assert spans_of(found) == (OffsetSpan(0, 15, 20), OffsetSpan(1, 5, 9), OffsetSpan(2, 2, 4))
    assert Positions.of_dict(found.to_dict()) == found


def test_a_recreated_topic_is_reported_and_read_only_if_the_old_one_is_named() -> None:
    reached = Positions("orders a", {"0": (0, 10)})
    error = refused(log((0, 99), name="b"), reached)
    assert (error.code, "without 'topic a'" in str(error.fix), "0:10" in str(error.why)) == ("E853", True, True)
    found = next_range(log((0, 99), name="b"), reached, where=WHERE, without="topic a")
    assert found == Positions("orders b", {"0": (0, 99)})


def test_a_truncated_log_or_a_missing_partition_is_reported() -> None:
    reached = Positions("orders a", {"0": (0, 10), "1": (0, 5)})
    assert "0: 8 < 10" in str(refused(log((0, 8), (0, 5)), reached).why)
    assert "1: gone < 5" in str(refused(log((0, 10)), reached).why)


def test_rereading_a_range_that_the_topic_no_longer_has_is_refused() -> None:
    owned = Positions("orders a", {"0": (10, 20)})
    readable_range(log((10, 50)), owned, where=WHERE)
    with pytest.raises(WaterclockError) as caught:
        readable_range(log((15, 50)), owned, where=WHERE)
    assert (caught.value.code, "0:10-15" in str(caught.value.why)) == ("E852", True)
    with pytest.raises(WaterclockError) as caught:
        readable_range(log((0, 50), name="b"), owned, where=WHERE)
    assert caught.value.code == "E853"
    assert "without '" not in str(caught.value.fix)
    assert "waterclock skip" in str(caught.value.fix)


def test_the_records_that_are_still_there_of_an_owned_range_are_read_by_name() -> None:
    owned = Positions("orders a", {"0": (10, 20), "1": (0, 5), "2": (3, 6)})
    topic = log((15, 50), (0, 9), (8, 9))
    with pytest.raises(WaterclockError) as caught:
        readable_range(topic, owned, where=WHERE, without="0:10-15")
    named = str(caught.value.fix).partition("without '")[2].partition("'")[0]
    assert (caught.value.code, named) == ("E852", "0:10-15,2:3-6")
    assert "if the label was done before, it keeps its rows" in str(caught.value.fix)
    found = readable_range(topic, owned, where=WHERE, without=named)
    assert found == Positions("orders a", owned.parts, {"0": (10, 15), "2": (3, 6)})
    assert spans_of(found) == (OffsetSpan(0, 15, 20), OffsetSpan(1, 0, 5))
    with pytest.raises(WaterclockError, match="E852"):
        readable_range(log((16, 50), (0, 9), (8, 9)), owned, where=WHERE, without=named)


def test_a_range_whose_records_a_new_leader_does_not_have_is_not_waited_for() -> None:
    with pytest.raises(WaterclockError) as caught:
        readable_range(log((0, 15)), Positions("orders a", {"0": (10, 20)}), where=WHERE)
    assert (caught.value.code, caught.value.transient, "0: 15 < 20" in str(caught.value.why)) == ("E853", True, True)
    with pytest.raises(WaterclockError) as caught:
        readable_range(log((0, 30)), Positions("orders a", {"0": (10, 20), "1": (0, 5)}), where=WHERE)
    assert (caught.value.code, "1: gone < 5" in str(caught.value.why)) == ("E853", True)


FOUR = st.lists(st.integers(0, 9), min_size=4, max_size=4)


@given(st.lists(st.tuples(FOUR, FOUR), max_size=12))
def test_ranges_cover_every_offset_once_except_those_reported_as_lost(steps: list[tuple[list[int], list[int]]]) -> None:
    ends, starts = [0, 0], [0, 0]
    reached = first_range(log(*zip(starts, ends, strict=True)), {0: 0, 1: 0})
    seen: dict[int, list[int]] = {}
    lost: dict[int, list[int]] = {}
    for number, (grow, drop) in enumerate(steps):
        if number == 3:  # a partition is added
            ends, starts = [*ends, 0], [*starts, 0]
        ends = [end + more for end, more in zip(ends, grow, strict=False)]
        starts = [min(end, start + less) for start, end, less in zip(starts, ends, drop, strict=False)]
        topic = log(*zip(starts, ends, strict=True))
        try:
            came = next_range(topic, reached, where=WHERE)
        except WaterclockError as error:
            named = str(error.fix).partition("without '")[2].partition("'")[0]
            came = next_range(topic, reached, where=WHERE, without=named)
        if came is None:
            continue
        require_contiguous(reached, came, where=WHERE)
        for span in spans_of(came):
            seen.setdefault(span.partition, []).extend(range(span.low, span.high))
        for part, (low, high) in came.gone.items():
            lost.setdefault(int(part), []).extend(range(low, high))
        reached = came
    for part, (_, end) in reached.parts.items():
        both = sorted(seen.get(int(part), []) + lost.get(int(part), []))
        assert both == list(range(end))
