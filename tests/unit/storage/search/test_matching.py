"""The combined search finds values in bytes exactly where a search for each of them does."""

from __future__ import annotations

import json
import random
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.storage.search.matching import Needle, ValueMatcher, needles_of

QUICK = settings(max_examples=200, deadline=None)
VALUES = st.lists(st.text('ab4 é"', min_size=1, max_size=12), min_size=1, max_size=6)


def occurrences(data: bytes, values: list[str]) -> set[tuple[int, bytes]]:
    """Search for each spelling of each value at each position."""
    needles = {needle.text: needle for value in values for needle in needles_of(value)}
    return {
        (at, text)
        for text, needle in needles.items()
        for at in range(len(data))
        if data.startswith(text, at) and needle.fits(data, at, 0, len(data))
    }


def found(matcher: ValueMatcher, data: bytes) -> set[tuple[int, bytes]]:
    matches = [(match.start, match.needle.text) for match in matcher.find(data)]
    assert len(matches) == len(set(matches))
    return set(matches)


@QUICK
@given(VALUES, st.data())
def test_each_occurrence_of_each_value_is_found(values: list[str], data: st.DataObject) -> None:
    parts = st.one_of(st.sampled_from(values), st.text('ab4 é"', max_size=8))
    text = data.draw(st.lists(parts, max_size=12).map("".join))
    content = text.encode() + b"\xff" * data.draw(st.integers(0, 9))
    assert found(ValueMatcher(values), content) == occurrences(content, values)


@QUICK
@given(VALUES, st.binary(max_size=40), st.lists(st.integers(1, 9), min_size=1, max_size=40))
def test_a_stream_in_chunks_is_searched_as_a_whole(values: list[str], filler: bytes, sizes: list[int]) -> None:
    content = b" ".join([filler, *(value.encode() for value in values), filler]) * 2
    matcher = ValueMatcher(values)
    chunks: list[bytes] = []
    at = 0
    while at < len(content):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(content[at : at + size])
        at += size
    matches = [(match.start, match.needle.text) for match in matcher.find_in_chunks(chunks)]
    assert len(matches) == len(set(matches))
    assert set(matches) == found(matcher, content)


@pytest.mark.parametrize(
    ("value", "text", "is_found"),
    [
        ("anna@example.com", "xanna@example.comx", True),
        ("42", "a 42, b", True),
        ("42", "420", False),
        ("42", "x42", False),
        ("42", "0.42", False),
        ("42", "42.5", False),
        ("42", "at 42.", True),
        ("4", "4", True),
        ("12345", "012345", False),
        ("123456789", "1234567890", False),
        ("123456789", ">123456789<", True),
        ("müller gmbh", json.dumps({"name": "müller gmbh"}), True),
        ("müller gmbh", json.dumps(json.dumps({"name": "müller gmbh"})), True),
        ("müller gmbh", "m\\u00FCller gmbh", True),
        ("O'Hara & Sons", "O&#x27;Hara &amp; Sons", True),
        ("a b/c d e", "?q=a%20b%2Fc%20d%20e", True),
        ('say "hello"', 'x,"say ""hello""",y', True),
        ("x" * 20 + "-person-of-a-long-name", '{"max": "' + ("x" * 20 + "-person-of-a")[:32] + '\U0010ffff"}', True),
        ("x" * 20 + "-person-of-a-long-name", "x" * 20 + "-person-of-another", False),
    ],
)
def test_spellings_and_words(value: str, text: str, is_found: bool) -> None:
    assert bool(found(ValueMatcher([value]), text.encode())) is is_found


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "cp1252"])
def test_other_encodings(encoding: str) -> None:
    assert found(ValueMatcher(["müller"]), "Herr müller".encode(encoding))


def test_a_value_is_not_found_in_the_middle_of_another_value() -> None:
    needle = Needle(b"anna")
    assert not needle.fits(b"xxanna", 2, 0, 5)
    assert not needle.fits(b"xxanna", 2, 3, 6)


@pytest.mark.parametrize("form", ["customer-{:07}", "user{}@example.com", "{:09}"])
def test_ten_thousand_values_are_searched_in_one_pass(form: str) -> None:
    values = [form.format(at) for at in range(0, 20_000, 2)]
    chance = random.Random(1)
    lines = [f"{at},{form.format(chance.randrange(10**6, 10**7))},x" for at in range(150_000)]
    lines[70_000] = f"70000,{values[4321]},x"
    content = "\n".join(lines).encode()
    matcher = ValueMatcher(values)
    begun = process_time()
    matches = list(matcher.find_in_chunks(content[at : at + (1 << 20)] for at in range(0, len(content), 1 << 20)))
    assert [match.needle.text.decode() for match in matches] == [values[4321]]
    assert process_time() - begun < 10  # a search for each value would take minutes
