"""Runs a project's specifications under pytest: each scenario is a test, all of them on one Spark session.

import pytest
from waterclock.testing.specs import SpecCase, spec_cases

@pytest.mark.parametrize("case", spec_cases("path/to/project"), ids=str)
def test_what_is_specified(case: SpecCase) -> None:
    case.check()
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.engine.spark.session import Sessions
from waterclock.errors import ProjectErrors
from waterclock.specs.document import Feature, Scenario
from waterclock.specs.finding import find_features
from waterclock.specs.spec_runner import prepare_specs, run_all, small_sessions


@dataclass(frozen=True)
class SpecCase:
    """One scenario of a project. Its name becomes the name of the test."""

    project: Project
    feature: Feature
    scenario: Scenario

    def check(self) -> None:
        """Run the scenario in the Spark session of the process, which is started on first use and reused.

        Raises AssertionError with the step that failed and how; ProjectErrors if the scenario cannot be run.
        """
        with prepare_specs(self.project, [self.scenario], sessions=_sessions()) as at:
            outcome = run_all(at, [self.feature])
        if not outcome.is_passed:
            raise AssertionError(f"{outcome}")

    def __str__(self) -> str:
        return str(self.scenario)


def spec_cases(
    project: str | Path = ".",
    files: Sequence[str | Path] = (),
    *,
    env: str | None = None,
    name: str | None = None,
    tags: str | None = None,
) -> list[SpecCase]:
    """Return the scenarios of a project that `waterclock.spec` would select. Files are read, and no Spark is started.

    Raises ProjectErrors if the project has errors or a file is not Gherkin, E360 if there are no scenarios.
    """
    loaded = load_project(Path(project), env=env, capabilities=capabilities())
    found = find_features(loaded.root, files, name=name, tags=tags)
    if found.errors:
        raise ProjectErrors(found.errors)
    return [SpecCase(loaded, feature, scenario) for feature in found.features for scenario in feature.scenarios]


@cache
def _sessions() -> Sessions:
    """Return the Spark sessions of this process, whose resources are released when it ends."""
    folder = tempfile.TemporaryDirectory(prefix="waterclock-spec-", ignore_cleanup_errors=True)
    sessions = small_sessions(Path(folder.name))
    atexit.register(folder.cleanup)
    atexit.register(sessions.close)
    return sessions
