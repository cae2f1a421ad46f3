"""Runs a project's specifications from a notebook or a program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.specs.finding import find_features
from waterclock.specs.outcome import SpecOutcome
from waterclock.specs.running import ready, run_all


def spec(
    files: str | Path | Sequence[str | Path] = (),
    *,
    project: str | Path = ".",
    env: str | None = None,
    name: str | None = None,
    tags: str | None = None,
    html: str | Path | None = None,
) -> SpecOutcome:
    """Run a project's specifications, all of `specs/` or those named, and give what came of them.

    In a notebook the outcome shows itself as the living document; `html` names a file to write that to as well. `name`
    and `tags` choose scenarios, as `waterclock spec` does. Takes the Spark session that is there, else starts one for
    the time of the run. Nothing of the project's storage, sources and destinations is read or written.

    Raises ProjectErrors with all that is wrong with the project or its specifications, before any of them runs; E360
    where there are none.
    """
    loaded = load_project(Path(project), env=env, capabilities=capabilities())
    found = find_features(loaded.root, (files,) if isinstance(files, str | Path) else files, name=name, tags=tags)
    with ready(loaded, found.scenarios, errors=found.errors) as at:
        outcome = run_all(at, found.features)
    if html is not None:
        Path(html).write_text(outcome.html(), encoding="utf-8")
    return outcome
