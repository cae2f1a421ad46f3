from __future__ import annotations

import pytest

from waterclock.masking import row_refusals
from waterclock.masking.row_refusals import LOST_KEY, NOT_ENCRYPTED, UNREADABLE, row_refusal_of, stop_sql

ALL = list(row_refusals._ERRORS)


@pytest.mark.parametrize("refusal", ALL)
def test_a_refusal_is_found_in_the_text_of_sparks_error_with_its_code_and_fix(refusal: str) -> None:
    message = stop_sql(refusal).removeprefix("raise_error('").removesuffix("')")
    found = row_refusal_of(RuntimeError(f"Job aborted: [USER_RAISED_EXCEPTION] {message} [x1] SQLSTATE: P0001"))
    assert found is not None
    assert f"{found.code} {found.what}" == message
    assert found.what == refusal
    assert found.fix
    assert found.why


def test_a_key_is_named_and_no_text_is() -> None:
    found = row_refusal_of(RuntimeError(f"[USER_RAISED_EXCEPTION] E735 {LOST_KEY} [1999] at x"))
    assert found is not None
    assert found.why == "it was encrypted with the key 1999, which the connection does not have"


@pytest.mark.parametrize(
    "text", [f"E736 {NOT_ENCRYPTED}", f"plan: raise_error('{UNREADABLE}')", "[USER_RAISED_EXCEPTION] E736"]
)
def test_other_errors_are_not_taken_for_a_refusal(text: str) -> None:
    assert row_refusal_of(RuntimeError(text)) is None
