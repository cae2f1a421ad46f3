from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from tests.json_answers import check_answer
from waterclock.cli.app import COMMANDS
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.json_models.commands import ANSWERS
from waterclock.json_models.parts import (
    AnswerPart,
    ErrorAnswer,
    Instant,
    InstantToSecond,
    Label,
    RoundedSeconds,
    Seconds,
    TextOrNull,
    only_if_set,
    read_from,
)

LABEL = datetime(2013, 1, 5, 5, tzinfo=UTC)
AT = LABEL.replace(microsecond=120_000)


@dataclass(frozen=True, slots=True)
class _Window:
    start: datetime


@dataclass(frozen=True, slots=True)
class _Result:
    window: _Window
    at: datetime | None = AT
    left: timedelta = timedelta(seconds=1.23456)
    text: str = ""
    note: str | None = None


class _Shown(AnswerPart):
    label: Label = read_from("window.start")
    at: Instant | None
    since: InstantToSecond = read_from("at")
    left: Seconds
    about: RoundedSeconds = read_from("left")
    text: TextOrNull
    note: str | None = only_if_set()


def test_a_part_is_built_of_a_result_and_of_other_values() -> None:
    result = _Result(_Window(LABEL), text="its own")
    built = _Shown.build(result, text="another", left=timedelta(seconds=2))
    assert built.to_json() == _Shown.model_validate(result).to_json() | {"text": "another", "left": 2.0, "about": 2.0}


def test_a_part_is_read_from_the_attributes_of_a_result() -> None:
    assert _Shown.model_validate(_Result(_Window(LABEL))).to_json() == {
        "label": "20130105050000",
        "at": "2013-01-05T05:00:00.120000Z",
        "since": "2013-01-05T05:00:00Z",
        "left": 1.23456,
        "about": 1.235,
        "text": None,
    }
    assert _Shown.model_validate(_Result(_Window(LABEL), note="x")).to_json()["note"] == "x"


def test_an_unknown_key_and_a_missing_one_are_errors() -> None:
    error = {"code": "E1", "what": "x", "where": None, "why": None, "fix": None, "excerpt": None, "transient": False}
    check_answer("plan", {"version": 1, "error": error})
    for wrong in (error | {"more": 1}, {key: value for key, value in error.items() if key != "where"}):
        with pytest.raises(ValidationError):
            ErrorAnswer.model_validate({"error": wrong})
        with pytest.raises(AssertionError):
            check_answer("plan", {"version": 1, "error": wrong})


def test_errors_of_a_project_are_in_one_error() -> None:
    one = WaterclockError("E511", "no table", fix="name one")
    told = ErrorAnswer.build(error=ProjectErrors([one, one])).to_json()
    assert told["error"]["errors"] == [one.to_dict()] * 2
    assert ErrorAnswer.build(error=one).to_json() == {"error": one.to_dict()}


def test_every_command_has_answers_whose_keys_are_described() -> None:
    assert set(ANSWERS) == {function.__name__ for functions in COMMANDS.values() for function in functions}
    for answer in {answer for answers in ANSWERS.values() for answer in answers}:
        missing = [name for name, field in answer.model_fields.items() if not field.description]
        assert not missing, (answer.__name__, missing)
