"""Runs the specifications of a project: checks all scenarios first, then runs them on one Spark session."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from waterclock.dpl.project import Project
from waterclock.engine.run_opening import open_workplace
from waterclock.engine.spark.session import Sessions
from waterclock.engine.spark.settings import SparkSettings
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.specs.code import code_of
from waterclock.specs.document import Feature, Scenario
from waterclock.specs.outcome import ScenarioOutcome, ScenarioVerdict, SpecOutcome, StepOutcome
from waterclock.specs.scenario_run import LEDGER, open_scenario
from waterclock.specs.schemas import SpecSchemas
from waterclock.specs.script import Script
from waterclock.specs.step_resolution import script_of
from waterclock.specs.typed_rows import TypedScript, convert_rows

# examples are small: more than one task would only add overhead
_CONFS = {"spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1"}


@dataclass(frozen=True, slots=True)
class ReadyScenarios:
    """Checked scenarios without errors, and the resources to run them: Spark sessions and a temporary folder."""

    project: Project
    scenarios: tuple[TypedScript, ...]
    sessions: Sessions
    folder: Path


class ScenarioListener:
    """Receives events of running scenarios. This default ignores them and never stops the run."""

    def on_scenario_start(self, scenario: Scenario, number: int) -> None:
        """Receive the start of a scenario, with its number from 1."""

    def on_scenario_end(self, outcome: ScenarioOutcome) -> None:
        """Receive the outcome of a scenario."""

    def is_stopping(self) -> bool:
        """Return whether the run must end before the next scenario."""
        return False


def small_sessions(folder: Path) -> Sessions:
    """Return a factory that starts a session for small tables on first use, or uses the session of the process."""
    return Sessions(work_folder=folder / "spark", settings=SparkSettings(master="local[2]", confs=_CONFS))


@contextmanager
def prepare_specs(
    project: Project,
    scenarios: Iterable[Scenario],
    *,
    sessions: Sessions | None = None,
    errors: Sequence[WaterclockError] = (),
) -> Iterator[ReadyScenarios]:
    """Check scenarios, and provide the resources to run them. Starts Spark.

    Raises ProjectErrors with all errors, those in `errors` included, in the order of places, before anything runs.
    """
    with tempfile.TemporaryDirectory(prefix="waterclock-spec-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        own = sessions or small_sessions(folder)
        try:
            checked = _check_scenarios(project, scenarios, own, folder, errors)
            yield ReadyScenarios(project, checked, own, folder)
        finally:
            if sessions is None:
                own.close()


def _check_scenarios(
    project: Project,
    scenarios: Iterable[Scenario],
    sessions: Sessions,
    folder: Path,
    errors: Sequence[WaterclockError],
) -> tuple[TypedScript, ...]:
    found = list(errors)
    scripts: list[Script] = []
    for scenario in scenarios:
        script, wrong = script_of(scenario, project.flow)
        found.extend(wrong)
        if script is not None:
            scripts.append(script)
    done: list[TypedScript] = []
    if scripts:
        checked_project = replace(project, storage=str(folder / "look"), ledger=f"sqlite:///{folder / LEDGER}")
        with open_workplace(checked_project, sessions=sessions) as work:
            schemas = SpecSchemas(work)
            for script in scripts:
                one, wrong = convert_rows(script, schemas.of)
                found.extend(wrong)
                if one is not None:
                    done.append(one)
    if found:
        raise ProjectErrors(sort_distinct_errors(found))
    return tuple(done)


def sort_distinct_errors(errors: Iterable[WaterclockError]) -> list[WaterclockError]:
    """Sort errors by file, line and column, without duplicates. A background is checked with every scenario."""
    unique = {(error.code, error.where, error.what): error for error in errors}
    return sorted(unique.values(), key=lambda error: _position(error.where or ""))


def _position(where: str) -> tuple[str, int, int]:
    file, line, column = (*where.rsplit(":", 2), "", "")[:3]
    return (file, int(line), int(column)) if line.isdigit() and column.isdigit() else (where, 0, 0)


def run_one(at: ReadyScenarios, scenario: TypedScript, number: int) -> ScenarioOutcome:
    """Run one scenario in a folder of its own. The steps after a failed step are skipped."""
    begun = time.perf_counter()
    script = scenario.script
    outcomes: list[StepOutcome] = []
    with open_scenario(at.project, scenario, at.sessions, at.folder / f"s{number}", at.folder / LEDGER) as bench:
        for index, action in enumerate(script.actions):
            if any(each.verdict is ScenarioVerdict.FAILED for each in outcomes):
                outcomes.append(StepOutcome(action.meaning.step, ScenarioVerdict.SKIPPED))
            else:
                outcomes.append(bench.step(index))
    exercised = tuple(name for name in at.project.flow.order if name in script.runs | (script.made - script.given))
    return ScenarioOutcome(script.scenario, tuple(outcomes), time.perf_counter() - begun, exercised)


def run_all(
    at: ReadyScenarios,
    features: Sequence[Feature],
    watch: ScenarioListener | None = None,
) -> SpecOutcome:
    """Run scenarios one after the other, until all are done or `watch` requests a stop."""
    watch = watch or ScenarioListener()
    start = time.perf_counter()
    outcomes: list[ScenarioOutcome] = []
    for number, scenario in enumerate(at.scenarios, 1):
        if watch.is_stopping():
            break
        watch.on_scenario_start(scenario.script.scenario, number)
        outcomes.append(run_one(at, scenario, number))
        watch.on_scenario_end(outcomes[-1])
    names = {name for outcome in outcomes for name in outcome.code}
    return SpecOutcome(
        project=at.project.name,
        env=at.project.env,
        features=tuple(features),
        scenarios=tuple(outcomes),
        code=code_of(at.project, names),
        seconds=time.perf_counter() - start,
        was_stopped=len(outcomes) < len(at.scenarios),
        left_out=len(at.scenarios) - len(outcomes),
    )
