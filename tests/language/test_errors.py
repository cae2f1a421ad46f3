"""Every case in errors/: the exact output of `check`.

After a wanted change run `UPDATE_CASES=1 python -m pytest tests/language/test_errors.py -p no:randomly`, and read the
difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.language.cases import Case, cases_of, check, rendered, text_of
from waterclock.error_codes.catalog import CODES

CASES = list(cases_of("errors"))
_ERROR = re.compile(r"\n\n(?=[EW]\d{3} )")
_MESSAGE = re.compile(r"^(?:[EW]\d{3}|why |fix ) (.*)$", re.MULTILINE)
_DOUBLED = re.compile(r"\b(?!at at)([A-Za-z]{2,}) \1\b")  # a query may be unreadable at the word at
_A_BEFORE_A_VOWEL = re.compile(r"\b[Aa] (?!AS\b)[AEIO][A-Z]+\b")  # a may also be a column: a AS b


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.book.stem}: {case.title}")
def test_error_is_worded_so(case: Case, tmp_path: Path) -> None:
    _, errors = check(case, tmp_path)
    found = rendered(errors, tmp_path)
    if os.environ.get("UPDATE_CASES"):
        text = case.book.read_text(encoding="utf-8")
        case.book.write_text(text.replace(text_of(case, case.expected), text_of(case, found)), encoding="utf-8")
        return
    assert errors
    assert found == case.expected


def test_there_are_at_least_sixty_cases_with_titles_of_their_own() -> None:
    titles = [(case.book, case.title) for case in CASES]
    assert len(titles) == len(set(titles)) >= 60


def test_no_message_has_a_doubled_word_or_a_before_a_vowel() -> None:
    lines = [line for case in CASES for line in _MESSAGE.findall(case.expected)]
    texts = [*lines, *(f"{code.title}. {code.text}" for code in CODES.values())]
    assert [text for text in texts if _DOUBLED.search(text) or _A_BEFORE_A_VOWEL.search(text)] == []
    assert len(lines) > 1000


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.book.stem}: {case.title}")
def test_each_error_has_a_fix(case: Case) -> None:
    without = [error for error in _ERROR.split(case.expected) if not re.search(r"^fix  \S", error, re.MULTILINE)]
    assert not without
