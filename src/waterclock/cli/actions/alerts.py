"""Lists alerts, tests targets, acknowledges alerts and sends pending messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.alerts.checking import RunFindings, check_alerts
from waterclock.alerts.targets import deliver, target_errors
from waterclock.alerts.wording import test_alert
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.alerts import (
    AlertList,
    TestMessageResult,
    known_answer,
    print_acknowledged,
    print_alerts,
    print_sent,
    print_tried,
    sent_answer,
    tried_answer,
)
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.ledger_opening import open_ledger
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError, raise_all
from waterclock.http.posting import NotDelivered
from waterclock.operations.project_opening import no_ledger_error, open_project, open_read_only
from waterclock.operations.required_reasons import need_reason_of_acknowledging
from waterclock.secrets.reader import Secrets
from waterclock.similar_names import did_you_mean

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.flow.alerts import Target

_LONG = 10  # the number of an alert has fewer digits
_TEST_TEXT = (
    "This is a test of `waterclock alerts test`. Failed and held batches, warnings and silent sources are "
    "reported here."
)


def list_alerts(folder: Path, env: str | None, *, is_json: bool) -> int:
    """Print the open alerts, the pending messages and the recipients."""
    known = _read_known_alerts(open_project(folder, env))
    if is_json:
        print_answer(known_answer(known))
    else:
        print_alerts(console(), known)
    return ExitCode.DONE


def send_test_messages(folder: Path, env: str | None, names: Sequence[str], *, is_json: bool) -> int:
    """Send a test message to each selected target. Return 1 if one was not reached. Raises E914, E915, E918."""
    project = open_project(folder, env)
    targets, secrets = _select_targets(project, names), Secrets.from_places(project.secrets)
    require_usable_targets(project, targets)
    body = {
        "title": f"[{project.name}] test",
        "text": _TEST_TEXT,
        "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "project": project.name,
        "env": project.env,
        "alerts": [test_alert(_TEST_TEXT, datetime.now(UTC))],
    }
    tried = []
    for target in targets:
        try:
            deliver(target, secrets, body)
        except NotDelivered as error:
            tried.append(TestMessageResult(target, str(error)))
        else:
            tried.append(TestMessageResult(target))
    if is_json:
        print_answer(tried_answer(tried))
    else:
        print_tried(console(), tried, is_on=project.alerts.is_on, env=project.env)
    return ExitCode.of_failure(any(each.error for each in tried))


def acknowledge_alerts(folder: Path, env: str | None, numbers: Sequence[str], why: str, *, is_json: bool) -> int:
    """Acknowledge alerts, so that their messages are not repeated. Raises E412, E457, E458, E903, E918."""
    need_reason_of_acknowledging(why)
    wanted = [_parse_number(text) for text in dict.fromkeys(numbers)]
    if not wanted:
        raise WaterclockError("E918", "no alert is named", fix="`waterclock alerts` lists their numbers")
    project = open_project(folder, env)
    ledger = open_ledger(project)
    if ledger is None:
        raise no_ledger_error()
    with ledger:
        done = [ledger.alerts.acknowledge(number, who=RunSettings().who, why=why) for number in wanted]
    if is_json:
        from waterclock.json_models.alerts import AcknowledgedAnswer

        print_answer(AcknowledgedAnswer(acknowledged=[alert.number for alert in done]))
    else:
        print_acknowledged(console(), done, project)
    return ExitCode.DONE


def send_alerts(folder: Path, env: str | None, *, is_json: bool) -> int:
    """Check again for open problems and send pending messages. Return 1 if a message could not be delivered.

    Raises E412 if nothing ran yet, E918 if this environment sends no alerts, E914 and E915 as `check_target`.
    """
    with open_read_only(folder, env, None) as at:
        project = at.project
        if not project.alerts.is_on:
            raise no_alerts_error(project)
        if at.ledger is None:
            raise no_ledger_error()
        require_usable_targets(project, tuple(project.alerts.targets.values()))
        found = check_alerts(project, at.ledger, lambda: at.snapshot, at.now, RunFindings())
        waiting = len(at.ledger.alerts.outgoing_messages())
    if is_json:
        print_answer(sent_answer(found, waiting))
    else:
        print_sent(console(), found, waiting)
    return ExitCode.of_failure(found.sent.lost)


def require_usable_targets(project: Project, targets: Sequence[Target]) -> None:
    """Raise the errors of all unusable targets: unresolved secrets, invalid addresses, missing packages."""
    errors = target_errors(targets, Secrets.from_places(project.secrets))
    raise_all(errors)


def no_alerts_error(project: Project) -> WaterclockError:
    """Build the error for an environment that sends no alerts."""
    if not project.alerts.targets:
        return WaterclockError(
            "E918", "no target is declared", fix='write [alerts.targets.NAME] with apprise = … or webhook = "https://…"'
        )
    return WaterclockError(
        "E918",
        f"environment {project.env} sends no alerts",
        why="only environments with alerts = true send alerts",
        fix=f"write alerts = true below [env.{project.env}]",
    )


def _read_known_alerts(project: Project) -> AlertList:
    ledger = open_ledger(project)
    if ledger is None:
        return AlertList(project, datetime.now(UTC))
    with ledger:
        alerts = tuple(alert for alert in ledger.alerts.known() if alert.is_open)
        return AlertList(project, ledger.now(), alerts, ledger.alerts.outgoing_messages())


def _select_targets(project: Project, names: Sequence[str]) -> tuple[Target, ...]:
    targets = project.alerts.targets
    if not targets:
        raise no_alerts_error(project)
    for name in names:
        if name not in targets:
            raise WaterclockError(
                "E918",
                f"unknown target {name}",
                why=f"the targets are {', '.join(targets)}",
                fix=did_you_mean(name, targets),
            )
    return tuple(targets[name] for name in dict.fromkeys(names)) or tuple(targets.values())


def _parse_number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < _LONG:
        return int(text)
    raise WaterclockError(
        "E918", f"{text!r} is not the number of an alert", fix="`waterclock alerts` lists their numbers"
    )
