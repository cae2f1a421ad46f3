"""Parses the text of steps by a fixed vocabulary, and suggests the most similar step for an unknown text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

from waterclock.errors import WaterclockError
from waterclock.specs.document import SpecStep


class StepAction(StrEnum):
    """The kinds of steps: they give rows, run a table, or expect a result."""

    HAS = "the table T has"  # rows of a label's batch
    IS_EMPTY = "the table T is empty"
    ALSO = "the table T also gets"  # late rows, in addition to those of the label
    NOW = "the table T is now"  # the label's new rows: it is restated
    RUNS = "T runs"  # T and all tables it depends on are updated, as of the end of the label's window
    IS = "T is"
    NOTHING = "T is empty"
    CONTAINS = "T contains"
    FAILS = "T fails with"
    WARNS = "T warns of"


GIVEN = frozenset({StepAction.HAS, StepAction.IS_EMPTY, StepAction.ALSO, StepAction.NOW})
_WITH_GRID = frozenset({StepAction.HAS, StepAction.ALSO, StepAction.NOW, StepAction.IS, StepAction.CONTAINS})

_NAME = r"(?P<table>[^\s,:]+)"
_AT = r"(?: at (?P<labels>\S+?))?"
_FORMS: Mapping[StepAction, str] = {
    StepAction.IS_EMPTY: rf"(?:the )?table {_NAME}{_AT} is empty",
    StepAction.ALSO: rf"(?:the )?table {_NAME}{_AT} also gets",
    StepAction.NOW: rf"(?:the )?table {_NAME}{_AT} is now",
    StepAction.HAS: rf"(?:the )?table {_NAME}{_AT}(?: has)?",
    StepAction.RUNS: rf"{_NAME} runs(?: again)?{_AT}",
    StepAction.NOTHING: rf"{_NAME}{_AT} is empty",
    StepAction.IS: rf"{_NAME}{_AT} is",
    StepAction.CONTAINS: rf"{_NAME}{_AT} contains",
    StepAction.FAILS: rf"{_NAME}{_AT} fails with (?P<what>\S.*?)",
    StepAction.WARNS: rf"{_NAME}{_AT} warns of (?P<what>\S.*?)",
}
_PATTERNS = {does: re.compile(f"{form}:?", re.IGNORECASE) for does, form in _FORMS.items()}
_SHOWN: Mapping[StepAction, str] = {
    StepAction.HAS: "the table {t}{at}",
    StepAction.IS_EMPTY: "the table {t}{at} is empty",
    StepAction.ALSO: "the table {t}{at} also gets",
    StepAction.NOW: "the table {t}{at} is now",
    StepAction.RUNS: "{t} runs{at}",
    StepAction.IS: "{t}{at} is",
    StepAction.NOTHING: "{t}{at} is empty",
    StepAction.CONTAINS: "{t}{at} contains",
    StepAction.FAILS: "{t}{at} fails with RULE",
    StepAction.WARNS: "{t}{at} warns of RULE",
}
VOCABULARY: tuple[str, ...] = tuple(shown.format(t="TABLE", at=" at LABEL") for shown in _SHOWN.values())


@dataclass(frozen=True, slots=True)
class StepMeaning:
    """The meaning of a step: its table, its labels as written, and the rule or error code that it expects."""

    step: SpecStep
    does: StepAction
    table: str
    labels: str | None = None
    what: str = ""


def parse_step(step: SpecStep) -> StepMeaning:
    """Parse one step. Raises E351 for a text that is no step, E352 for a step with a wrong table."""
    for does, pattern in _PATTERNS.items():
        found = pattern.fullmatch(step.text.strip())
        if found is not None:
            parts = found.groupdict()
            meaning = StepMeaning(
                step, does, parts["table"].replace("`", ""), parts.get("labels"), _strip_quotes(parts.get("what") or "")
            )
            _check_grid(meaning)
            return meaning
    raise WaterclockError(
        "E351",
        f"unknown step {step.text!r}",
        where=str(step.place),
        why="the steps are:\n" + "\n".join(VOCABULARY),
        fix=f"did you mean: {_most_similar_step(step.text)}",
    )


def _strip_quotes(text: str) -> str:
    """Remove the quotes around a name. An unnamed rule is given by its expression, whose quotes are kept."""
    return text[1:-1] if text[:1] in {"'", '"'} and text.find(text[0], 1) == len(text) - 1 else text


def _check_grid(meaning: StepMeaning) -> None:
    step, needs = meaning.step, meaning.does in _WITH_GRID
    if step.has_text:
        raise _step_error(step, "this step takes no text block", "write a table of | cells |")
    if needs and step.grid is None:
        is_given = meaning.does in GIVEN
        empty = f"the table {meaning.table} is empty" if is_given else f"{meaning.table} is empty"
        raise _step_error(step, "the rows are missing below this step", f"write a table of | cells |, or: {empty}")
    if not needs and step.grid is not None:
        raise _step_error(step, "this step takes no rows", "remove the table below it")


def _step_error(step: SpecStep, what: str, fix: str) -> WaterclockError:
    return WaterclockError("E352", what, where=str(step.place), why=f"the step is {step.text!r}", fix=fix)


def _most_similar_step(text: str) -> str:
    """Return the step most similar to a text, with the names in the text."""
    words = text.split()
    table = next((word for word in words if "." in word and not word[0].isdigit()), "TABLE")
    label = next((word for word in words if word[0].isdigit()), None)
    at = f" at {label}" if label else ""
    candidates = [shown.format(t=table.strip("`:,"), at=at) for shown in _SHOWN.values()]
    return max(candidates, key=lambda each: SequenceMatcher(None, text.lower(), each.lower()).ratio())
