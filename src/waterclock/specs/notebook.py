"""Runs a project's specifications from a notebook or a program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.specs.finding import find_features
from waterclock.specs.outcome import SpecOutcome
from waterclock.specs.spec_runner import prepare_specs, run_all


def spec(
    files: str | Path | Sequence[str | Path] = (),
    *,
    project: str | Path = ".",
    env: str | None = None,
    name: str | None = None,
    tags: str | None = None,
    html: str | Path | None = None,
) -> SpecOutcome:
    """Run a project's specifications, all of `specs/` or the given files, and return the results.

    In a notebook the outcome displays itself as the living document. The run uses the existing Spark session, or starts
    one and stops it at the end. The project's storage, sources and destinations are neither read nor written.

    Args:
        files: A file, or several; without any, all files of `specs/`.
        project: The project's folder.
        env: The environment in `waterclock.toml`; without it, the project's default.
        name: The scenarios to run, as in `waterclock spec --name`.
        tags: The tags of the scenarios to run, as in `waterclock spec --tags`.
        html: A file to write the living document to.

    Returns:
        The results of the scenarios.

    Raises:
        ProjectErrors: The project or its specifications have errors; none of the specifications has run.
        WaterclockError: E360 if there are no specifications.

    Example:
        >>> wc.spec("specs/sums.feature").is_passed
        True
    """
    loaded = load_project(Path(project), env=env, capabilities=capabilities())
    found = find_features(loaded.root, (files,) if isinstance(files, str | Path) else files, name=name, tags=tags)
    with prepare_specs(loaded, found.scenarios, errors=found.errors) as at:
        outcome = run_all(at, found.features)
    if html is not None:
        Path(html).write_text(outcome.html(), encoding="utf-8")
    return outcome
