"""Checks the JSON output of commands against their models: every key, at every depth, and no other."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from waterclock.json_models.commands import ANSWERS
from waterclock.json_models.parts import Answer, ErrorAnswer


def check_answer(command: str, told: dict[str, Any]) -> Answer:
    """Return the answer that a command printed.

    Raises AssertionError if it is not one of the command's answers, or differs from the model in keys, values or order.
    """
    meant = (ErrorAnswer,) if set(told) == {"version", "error"} else ANSWERS[command]
    errors = []
    for answer in meant:
        try:
            found = answer.model_validate(told)
        except ValidationError as error:
            errors.append(str(error))
        else:
            again = {"version": found.version, **found.to_json()}
            assert json.dumps(again) == json.dumps(told)
            return found
    raise AssertionError("\n".join(errors))
