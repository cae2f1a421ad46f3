"""Compares tables for `diff`: resolves its options, and records the access if the project declares users."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.batches.access import Access
from waterclock.cli.actions.access import find_declared_user
from waterclock.engine.ledger_opening import open_ledger
from waterclock.engine.query.table_comparison import ComparisonOptions
from waterclock.engine.run_settings import RunSettings
from waterclock.operations.compared_environment import naming_environment
from waterclock.operations.comparing import Comparison, ComparisonRequest, compare_tables
from waterclock.operations.explaining import Explanation, explain_difference
from waterclock.operations.project_opening import open_project, select_tables
from waterclock.permissions.users_and_roles import SignIn, owner

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.engine.spark.session import Sessions


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """The options of `diff`, as the user wrote them. Without tables, all that were made are compared."""

    tables: tuple[str, ...] = ()
    labels: str | None = None
    against: str | None = None
    as_known: str | None = None
    user: str | None = None
    options: ComparisonOptions = field(default_factory=ComparisonOptions)


def compare_environments(
    folder: Path, project: Project, asked: DiffOptions, sessions: Sessions | None = None
) -> Comparison:
    """Compare tables of a project. Raises E243 for an unknown environment, E941 for a user, and as `compare_tables`."""
    request = _open_request(folder, project, asked)
    with naming_environment(None if request.against is None else project.env):
        _record_access(project, asked)
        return compare_tables(project, request, sessions)


def explain_environments(folder: Path, project: Project, asked: DiffOptions) -> Explanation:
    """Explain the difference of a label. Raises E243 for an unknown environment, and as `explain_difference`."""
    request = _open_request(folder, project, asked)
    with naming_environment(None if request.against is None else project.env):
        _record_access(project, asked)
        return explain_difference(project, request)


def _open_request(folder: Path, project: Project, asked: DiffOptions) -> ComparisonRequest:
    other = None if asked.against is None else open_project(folder, asked.against)
    persons = None
    if asked.user is not None:
        persons = find_declared_user(other or project, asked.user), find_declared_user(project, asked.user)
    return ComparisonRequest(asked.tables, asked.labels, other, asked.as_known, asked.options, persons)


def _record_access(project: Project, asked: DiffOptions) -> None:
    """Record the comparison before it runs, if the project declares users. Raises E415 to E425 if that fails."""
    ledger = open_ledger(project) if project.access.has_people else None
    if ledger is not None:
        found, _ = select_tables(project.flow, list(asked.tables), asked.labels)
        by = owner(RunSettings().who, SignIn.COMMAND)
        with ledger:
            ledger.access.record([Access(by.name, by.sign_in, "diff", found.tables)])
