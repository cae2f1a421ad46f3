from __future__ import annotations

import pytest

from waterclock.temporal.query_refusals import OVERLAPPING, UNPLACED, UNSPELT, UNTIMED, refusal_of, stop_text
from waterclock.temporal.text_formats import FORMATS


@pytest.mark.parametrize(
    ("refusal", "code"), [(UNPLACED, "E304"), (UNTIMED, "E304"), (OVERLAPPING, "E309"), (UNSPELT, "E310")]
)
@pytest.mark.parametrize(
    "spark_says",
    [
        "[USER_RAISED_EXCEPTION] {} SQLSTATE: P0001",
        "[TASK_WRITE_FAILED] Task failed while writing rows.\n\nCaused by: [USER_RAISED_EXCEPTION] {} SQLSTATE",
    ],
    ids=["read", "written"],
)
def test_the_error_that_stopped_a_query_is_parsed_from_the_text_of_spark(
    refusal: str, code: str, spark_says: str
) -> None:
    found = refusal_of(RuntimeError(spark_says.format(stop_text(refusal))))
    assert found is not None
    assert (found.code, f"{code} {found.what}", found.transient) == (code, refusal, False)
    assert found.fix is not None
    assert stop_text(refusal) == f"{refusal}; {found.fix}"


@pytest.mark.parametrize("text", ["", "[USER_RAISED_EXCEPTION] E304 my own check", "[DIVIDE_BY_ZERO] Division by zero"])
def test_other_errors_stay_as_they_are(text: str) -> None:
    assert refusal_of(RuntimeError(text)) is None


@pytest.mark.parametrize("refusal", [UNPLACED, UNTIMED, OVERLAPPING, UNSPELT])
def test_an_error_text_inside_a_printed_plan_is_not_an_error(refusal: str) -> None:
    plan = f"raise_error(USER_RAISED_EXCEPTION, map(errorMessage, concat({stop_text(refusal)} [, a, ])), NullType)"
    text = f"[UNRESOLVED_COLUMN] A column `x` cannot be resolved. SQLSTATE: 42703; line 1 pos 7;\n'Project\n+- {plan}"
    assert refusal_of(RuntimeError(text)) is None


@pytest.mark.parametrize(
    ("refusal", "said", "why"),
    [
        (UNPLACED, "NULL, 2020-01-01", "its key and time are NULL, 2020-01-01"),
        (UNTIMED, "c, soon", "its key and time are c, soon"),
        (OVERLAPPING, "a{}, 1", "the key is a{}, 1"),
        (UNSPELT, "uper", "a row has uper"),
    ],
)
def test_the_values_of_the_row_are_part_of_the_error(refusal: str, said: str, why: str) -> None:
    found = refusal_of(RuntimeError(f"[USER_RAISED_EXCEPTION] {stop_text(refusal)} [{said}] SQLSTATE: P0001"))
    assert found is not None
    assert found.why == why


def test_the_fix_for_an_unknown_format_names_all_formats() -> None:
    assert all(each in stop_text(UNSPELT) for each in FORMATS)
