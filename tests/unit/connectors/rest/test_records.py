from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.connectors.rest.records import NoRecords, body_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), max_size=6)


@given(RECORDS, st.lists(st.text("abc", min_size=1, max_size=2), max_size=3), st.booleans(), VALUES)
def test_records_come_out_as_they_were_written(
    records: list[dict[str, Any]], path: list[str], is_pretty: bool, beside: Any
) -> None:
    whole: Any = records
    for step in reversed(path):
        whole = {"zz": beside, step: whole, "yy": [beside]}
    content = json.dumps(whole, indent=2 if is_pretty else None, ensure_ascii=is_pretty).encode()
    body = body_of(content, path)
    assert [json.loads(line) for line in body.lines] == records
    assert all("\n" not in line and "\r" not in line for line in body.lines)
    assert set(body.columns) == {name for record in records for name in record}


def test_no_digit_of_a_number_is_lost() -> None:
    body = body_of(b'{"rows": [{"a": 1.10, "b": 12345678901234567890.1234567890, "c": 1e400}]}', ["rows"])
    assert body.lines == ('{"a": 1.10, "b": 12345678901234567890.1234567890, "c": 1e400}',)


def test_a_single_object_is_one_record_and_null_is_no_record() -> None:
    assert body_of(b'{"id": 1}', []).lines == ('{"id": 1}',)
    assert body_of(b'{"rows": null}', ["rows"]).lines == ()


def test_a_duplicate_records_key_is_refused() -> None:
    with pytest.raises(NoRecords, match="twice"):
        body_of(b'{"rows": [{"a": 1}], "rows": [{"a": 2}]}', ["rows"])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"items": []}', "it has no rows; there are items"),
        (b"[]", "it has no rows; there is an array"),
        (b'{"rows": 7}', "neither an array nor an object"),
        (b'{"rows": [{"a": 1}, 2]}', "record 2 is not an object"),
        (b'{"rows": [{"a": ' + b"[" * 1000 + b"]" * 1000 + b"}]}", "nested too deep"),
    ],
)
def test_missing_or_malformed_records_are_reported(content: bytes, told: str) -> None:
    with pytest.raises(NoRecords, match=told):
        body_of(content, ["rows"])


@pytest.mark.parametrize(
    "content",
    [
        b'{"rows": [{"a": 1}',
        b'{"rows": [{"a": 1} {"a": 2}]}',
        b'{"rows": [{"a": 1},]}',
        b'{"rows": [], }',
        b'{"rows": []} x',
        b'{"rows" [',
        b'{"rows": [',
        b"{",
        b"",
        b"<html>",
        b'{"rows": [{"a": NaN}]}',
        b'{"rows": "\xff"}',
    ],
)
def test_a_body_that_is_not_json_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (any of several errors)
        body_of(content, ["rows"])
    assert not isinstance(caught.value, NoRecords)
