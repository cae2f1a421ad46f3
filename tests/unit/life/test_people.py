"""Rules of random lives on people: masks, grants and personal data, as documented on the pages."""

from __future__ import annotations

import pytest

from tests.life.declarations import Declared
from tests.life.part import Part, Read
from tests.life.parts import Refers
from tests.life.people import Granted, Impersonal, Personal, Shown, is_personal, masked
from tests.life.rows import Row

RAW = "raw.a"


def made(name: str, *reads: Read, parts: list[Part] | None = None) -> Declared:
    return Declared("TRANSFORM", name, "PARTITIONED", parts=parts or [], reads=reads)


@pytest.mark.parametrize(
    ("decision", "value", "seen"),
    [
        ("generalize", 37, "30-39"), ("generalize", 7, "0-9"), ("generalize", 120, "120-129"),
        ("mask_text", 387, "3nn"), ("mask_text", 42, "4n"), ("mask_text", 7, "n"),
        ("", 37, 37), ("TAGS (pii)", 37, 37), ("TAGS (no_pii)", 37, 37),
    ],
)  # fmt: skip
def test_a_mask_hides_a_value_as_documented(decision: str, value: int, seen: int | str) -> None:
    assert masked(decision, value) == seen


def test_a_value_is_personal_where_any_value_that_it_is_computed_of_is() -> None:
    flow = {
        RAW: Declared("COLLECT", RAW, "PARTITIONED", parts=[Personal()]),
        "raw.b": Declared("COLLECT", "raw.b", "PARTITIONED"),
        "made.first": made("made.first", Read("PLAIN", RAW)),
        "made.second": made("made.second", Read("PLAIN", "raw.b"), Read("HISTORY", "made.first")),
        "made.odd": made("made.odd", Read("PLAIN", "raw.b")),
        "made.own": made("made.own", Read("PLAIN", "raw.b"), Read("PREVIOUS", "made.own")),
        "made.ended": made("made.ended", Read("PLAIN", RAW), parts=[Impersonal()]),
        "made.after": made("made.after", Read("PLAIN", "made.ended")),
        "made.answers": made("made.answers", Read("PLAIN", RAW)),
        "out.p": Declared("PUBLISH", "out.p", "PARTITIONED", of="made.second"),
    }
    flow["made.odd"].odd = (Read("PLAIN", RAW),)
    flow["made.answers"].answers = (Row(1, 2, 3),)
    found = {name for name in flow if is_personal(flow, name)}
    assert found == {RAW, "made.first", "made.second", "made.odd", "out.p"}


def test_flat_adds_the_value_of_the_parent() -> None:
    flow = {
        RAW: Declared("COLLECT", RAW, "TEMPORAL", parts=[Personal()]),
        "raw.b": Declared("COLLECT", "raw.b", "PARTITIONED", parts=[Refers(RAW)]),
        "made.flat": made("made.flat", Read("FLAT", "raw.b")),
        "made.plain": made("made.plain", Read("PLAIN", "raw.b")),
    }
    assert is_personal(flow, "made.flat")
    assert not is_personal(flow, "made.plain")


def test_a_reader_sees_the_rows_and_columns_of_a_grant() -> None:
    rows, whole = [Row(1, 37, 0), Row(3, 5, 7), Row(2, 120, 14)], ["k", "v", "at"]
    assert Granted("rows").seen(rows) == [(1, 37), (2, 120)]
    assert Granted("columns").seen(rows) == [(1, None), (2, None), (3, None)]
    assert Granted("mask").seen(rows) == [(1, "30-39"), (2, "120-129")]
    assert Granted("rows").columns(whole) == whole
    assert Granted("columns").columns(whole) == ["k", "at"]
    assert Granted("mask").columns(whole) == ["k", "v"]


def test_query_results_are_compared_by_key_and_value() -> None:
    assert Shown(("v", "k"), ((7, 2), (5, 1))).values() == [(1, 5), (2, 7)]
    assert Shown(("k", "at"), ((2, 7), (1, 5))).values() == [(1, None), (2, None)]
