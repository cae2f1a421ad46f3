"""The summary of skipped tests at the end of a test run."""

from __future__ import annotations

from types import SimpleNamespace

from tests.conftest import SUITES, skip_lines, skip_reason


def test_each_reason_has_a_line_with_its_count() -> None:
    assert skip_lines({}) == []
    assert skip_lines({"no curl": 1, "no Go": 12}) == ["skipped    12: no Go", "skipped     1: no curl"]


def test_more_than_five_reasons_share_the_last_line() -> None:
    lines = skip_lines({f"reason {number}": number for number in range(1, 8)})
    assert len(lines) == 5
    assert lines[0] == "skipped     7: reason 7"
    assert lines[-1] == "skipped     6: for 3 other reasons, which pytest -rs lists"


def test_a_skip_reason_is_returned_without_its_place() -> None:
    assert skip_reason(SimpleNamespace(longrepr=("tests/a.py", 3, "Skipped: no curl"))) == "no curl"


def test_cases_of_a_suite_that_do_not_apply_are_counted_as_one() -> None:
    report = SimpleNamespace(longrepr=(str(SUITES / "suite.py"), 3, "Skipped: it does not take MERGE"))
    assert "nothing is missing" in skip_reason(report)
