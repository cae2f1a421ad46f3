"""The results of scenarios: each step with its differences, each scenario, and the code that it exercised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from waterclock.errors import WaterclockError
from waterclock.specs.comparing import Comparison
from waterclock.specs.document import Feature, Scenario, SpecStep


class ScenarioVerdict(StrEnum):
    """The result of a step or scenario. Steps after a failed one are skipped."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The result of one step. A failed step has differing rows, an error of the engine, or a message."""

    step: SpecStep
    verdict: ScenarioVerdict
    comparison: Comparison | None = None
    error: WaterclockError | None = None
    failure: str = ""

    def message(self) -> str:
        """Return the failure message, or an empty text for a step that passed."""
        if self.verdict is not ScenarioVerdict.FAILED:
            return ""
        if self.comparison is not None:
            return f"{self.comparison.summary()}\n{self.comparison.text()}"
        return self.error.render() if self.error is not None else self.failure

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as a dict for JSON."""
        found: dict[str, Any] = {
            "keyword": self.step.keyword,
            "text": self.step.text,
            "place": str(self.step.place),
            "verdict": str(self.verdict),
        }
        if self.verdict is ScenarioVerdict.FAILED:
            found["difference"] = self.comparison.summary() if self.comparison is not None else self.failure
            found["error"] = None if self.error is None else self.error.to_dict()
            found["rows"] = None if self.comparison is None else _comparison_rows(self.comparison)
        return found


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """The result of one scenario. `code` names the tables whose declarations it ran."""

    scenario: Scenario
    steps: tuple[StepOutcome, ...]
    seconds: float = 0.0
    code: tuple[str, ...] = ()

    @property
    def verdict(self) -> ScenarioVerdict:
        """FAILED if a step failed, otherwise PASSED."""
        is_failed = any(step.verdict is ScenarioVerdict.FAILED for step in self.steps)
        return ScenarioVerdict.FAILED if is_failed else ScenarioVerdict.PASSED

    @property
    def failed(self) -> StepOutcome | None:
        """The first step that failed, or None."""
        return next((step for step in self.steps if step.verdict is ScenarioVerdict.FAILED), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as a dict for JSON."""
        return {
            "feature": self.scenario.feature,
            "rule": self.scenario.rule or None,
            "scenario": self.scenario.title,
            "place": str(self.scenario.place),
            "tags": list(self.scenario.tags),
            "verdict": str(self.verdict),
            "seconds": round(self.seconds, 3),
            "tables": list(self.code),
            "steps": [step.to_dict() for step in self.steps],
        }


@dataclass(frozen=True, slots=True)
class DeclaredRule:
    """The source text that declares a table or view of the project, with its place."""

    table: str
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class SpecOutcome:
    """The results of all scenarios that ran, by feature, in the order of the files. Notebooks show it as a page."""

    project: str
    env: str
    features: tuple[Feature, ...]
    scenarios: tuple[ScenarioOutcome, ...]
    code: tuple[DeclaredRule, ...] = ()
    seconds: float = 0.0
    was_stopped: bool = False
    left_out: int = field(default=0)

    @property
    def is_passed(self) -> bool:
        """Whether there was at least one scenario, and all passed."""
        return bool(self.scenarios) and not self.failed

    @property
    def failed(self) -> tuple[ScenarioOutcome, ...]:
        """The scenarios that failed."""
        return tuple(each for each in self.scenarios if each.verdict is ScenarioVerdict.FAILED)

    @property
    def passed(self) -> tuple[ScenarioOutcome, ...]:
        """The scenarios that passed."""
        return tuple(each for each in self.scenarios if each.verdict is ScenarioVerdict.PASSED)

    def outcomes_by_feature(self) -> Iterator[tuple[Feature, tuple[ScenarioOutcome, ...]]]:
        """Yield each feature with the results of its scenarios; features without any are left out."""
        for feature in self.features:
            ids = set(map(id, feature.scenarios))
            found = tuple(each for each in self.scenarios if id(each.scenario) in ids)
            if found:
                yield feature, found

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as a dict for JSON."""
        return {
            "project": self.project,
            "env": self.env,
            "ok": self.is_passed,
            "passed": len(self.passed),
            "failed": len(self.failed),
            "stopped": self.was_stopped,
            "seconds": round(self.seconds, 3),
            "scenarios": [each.to_dict() for each in self.scenarios],
        }

    def html(self) -> str:
        """Return the living document as one self-contained page."""
        from waterclock.specs.page import page_of

        return page_of(self)

    def _repr_html_(self) -> str:
        from waterclock.specs.page import render_frame

        return render_frame(self)

    def __str__(self) -> str:
        lines = [f"{len(self.passed)} passed, {len(self.failed)} failed"]
        for each in self.failed:
            if each.failed is not None:
                lines += ["", f"{each.scenario}", f"  {each.failed.step.place}  {each.failed.step.text}"]
                lines += [f"  {line}" for line in each.failed.message().splitlines()]
        return "\n".join(lines)


def _comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "mark": str(line.mark),
            "expected": None if line.expected is None else dict(zip(comparison.columns, line.expected, strict=True)),
            "got": None if line.got is None else dict(zip(comparison.columns, line.got, strict=True)),
        }
        for line in comparison.lines
    ]
