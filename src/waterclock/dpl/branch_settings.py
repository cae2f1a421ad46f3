"""Reads the settings of branches and other environments from the project file alone: the flow may have errors."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from waterclock.dpl.config.branches import recorded_base, recorded_branches
from waterclock.dpl.config.environment import UNDECLARED
from waterclock.dpl.config.file_name import FILE
from waterclock.dpl.config.model import read_config
from waterclock.dpl.project import Project, build_project
from waterclock.dpl.project_files import no_project_error, not_utf8_error, read_project_file
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.similar_names import did_you_mean


@dataclass(frozen=True, slots=True)
class BranchSettings:
    """A branch of a project: its settings, with an empty flow, and the name of the environment that it borrows from.

    `base` is empty if the file of the branch is damaged. `problem` is the reason if the base cannot be used: `project`
    then has the branch's own settings alone, and no bases.
    """

    project: Project
    base: str
    problem: WaterclockError | None = None


def read_environment_bases(root: Path) -> dict[str, str | None]:
    """Map each environment of the project file, and each created branch, to the one that it borrows from, or None.

    A created branch whose file is damaged has an empty name. Raises ProjectErrors if the project file cannot be read.
    """
    declared = _declared_bases(root)
    made = {name: recorded_base(root, name) or "" for name in recorded_branches(root) if name not in declared}
    return {**declared, **made}


def read_branch_settings(root: Path, name: str, base: str) -> BranchSettings:
    """Read the settings of a branch, also if its base is unknown.

    Raises ProjectErrors if the project file is invalid.
    """
    project, errors = _read_settings(root, name)
    problem = next((each for each in errors if each.code == "E243"), None)
    return BranchSettings(project, base, None if project.bases else problem)


def read_other_environments(root: Path, name: str) -> tuple[Project, ...]:
    """Read the settings of all environments and created branches except one, each with an empty flow.

    Raises ProjectErrors if the project file is invalid.
    """
    return tuple(_read_settings(root, other)[0] for other in read_environment_bases(root) if other != name)


def find_unknown_sandboxes(project: Project) -> list[WaterclockError]:
    """Return E221 for each sandbox of another environment that is no connection of the flow."""
    text, known = _read_text(project.root), project.flow.connections
    config, _ = read_config(text, env=project.env, root=project.root)
    if config is None:
        return []
    sections = tomllib.loads(text).get("env", {})
    return [
        config.place(("env", env, "sandbox", name)).refuse(
            "E221",
            f"unknown connection {name}",
            why=f"a sandbox has the name of a connection of the flow; the branch {env} cannot be used",
            fix=did_you_mean(name, known, otherwise=f"remove it, or declare {name} in a .dpl file"),
        )
        for env, section in sections.items()
        if env != project.env
        for name in section.get("sandbox", {})
        if name not in known
    ]


def _read_settings(root: Path, env: str) -> tuple[Project, list[WaterclockError]]:
    """Read the settings of an environment. Raises ProjectErrors if the project file is invalid."""
    text = _read_text(root)
    config, errors = read_config(text, env=env, root=root, is_base_optional=True)
    if config is None:
        raise ProjectErrors(errors)
    return build_project(root, config, Flow(project=config.name, tables={}), {}), errors


def _declared_bases(root: Path) -> Mapping[str, str | None]:
    try:
        file = tomllib.loads(_read_text(root))
    except (RecursionError, ValueError):
        _, errors = read_config(_read_text(root), env=None, root=root)
        raise ProjectErrors(errors) from None
    sections, head = file.get("env"), file.get("project")
    if not sections or not isinstance(sections, dict):
        return {str(head.get("env") or UNDECLARED) if isinstance(head, dict) else UNDECLARED: None}
    bases = {name: section.get("from") for name, section in sections.items() if isinstance(section, dict)}
    return {name: base if isinstance(base, str) else None for name, base in bases.items()}


def _read_text(root: Path) -> str:
    try:
        return read_project_file(root)
    except UnicodeDecodeError as error:
        raise ProjectErrors([not_utf8_error(FILE, error)]) from None
    except FileNotFoundError:
        raise ProjectErrors([no_project_error(root)]) from None
