"""Lists recorded accesses, and records the queries of the command line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from waterclock.batches.access import Access
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.ledger_opening import open_ledger
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.operations.access_records import query_access
from waterclock.operations.project_opening import open_project, zone_of
from waterclock.permissions.users_and_roles import Person, SignIn, owner
from waterclock.printable import printable_line
from waterclock.similar_names import did_you_mean
from waterclock.timelabel.zone import parse_instant

if TYPE_CHECKING:
    from waterclock.dpl.project import Project

_AGE = re.compile(r"(?P<count>[0-9]{1,5})(?P<unit>[dh])")


def list_accesses(
    folder: Path, env: str | None, *, since: str | None, who: str | None, most: int, is_json: bool
) -> None:
    """Print the newest accesses. Raises E106 for an invalid instant."""
    project = open_project(folder, env)
    ledger, found = open_ledger(project), tuple[Access, ...]()
    if ledger is not None:
        with ledger:
            start = None if since is None else _parse_since(since, ledger.now(), zone_of(project.flow))
            found = ledger.access.list_accesses(since=start, who=who, most=most)
    if is_json:
        from waterclock.json_models.access import AccessesAnswer, AccessPart

        print_answer(AccessesAnswer(accesses=[AccessPart.model_validate(each) for each in found]))
        return
    if not found:
        console().print("no access is recorded", soft_wrap=True)
        return
    table = Table("when", "who", "what", "tables", "from", "times", "refused because", box=None)
    for each in found:
        when = f"{each.at:%Y-%m-%d %H:%M:%SZ}"
        tables, times = ", ".join(each.tables), str(each.times)
        texts = (when, each.who, each.action, tables, each.address, times, each.refusal or "")
        table.add_row(*(Text(printable_line(text)) for text in texts))
    console().print(table)


def record_query(project: Project, sql: str) -> None:
    """Record a query before it runs, if the project declares users. Raises E415 to E425 if that fails."""
    ledger = open_ledger(project) if project.access.has_people else None
    if ledger is not None:
        with ledger:
            by = owner(RunSettings().who, SignIn.COMMAND)
            ledger.access.record([query_access(by, project.flow, sql)])


def find_declared_user(project: Project, name: str) -> Person:
    """Return a user of the project file, for a command that runs as this user. Raises E941 for an unknown name."""
    person = project.access.person(name, SignIn.COMMAND)
    if person is None:
        users = project.access.users
        raise WaterclockError(
            "E941",
            f"unknown user {name}",
            why=f"waterclock.toml declares {', '.join(users)}" if users else "waterclock.toml declares no users",
            fix=did_you_mean(name, users, otherwise=f"add [users.{name}] to waterclock.toml"),
        )
    return person


def _parse_since(since: str, now: datetime, zone: str) -> datetime:
    age = _AGE.fullmatch(since)
    if age is None:
        return parse_instant(since, zone)
    count = int(age["count"])
    return now - (timedelta(days=count) if age["unit"] == "d" else timedelta(hours=count))
