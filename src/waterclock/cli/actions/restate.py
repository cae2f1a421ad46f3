"""Makes done labels again for `recompute`, `recollect`, `replay` and `backfill --changed`, with dependent batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.batches.ledger_snapshot import FOLLOW
from waterclock.cli.actions.backfill import cost_words
from waterclock.cli.actions.confirm import confirm
from waterclock.cli.actions.run import RunOptions, run_and_report
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.run_opening import require_no_branch
from waterclock.engine.run_settings import RunSettings
from waterclock.operations.formatting import count_words, label_range, local_range
from waterclock.operations.held_batches import find_held_labels
from waterclock.operations.pauses import waiting_request_lines
from waterclock.operations.project_opening import OpenedProject, open_read_only
from waterclock.operations.restating import LabelsByTable, build_requests, find_taken_late_rows, hidden_lines
from waterclock.planner.estimate import Estimate, cost_of
from waterclock.planner.plan import Ripple
from waterclock.selection import Labels
from waterclock.timelabel.label import label_of
from waterclock.timelabel.window import Window

if TYPE_CHECKING:
    from rich.console import Console

    from waterclock.ledger.ledger import Ledger


# commands that also make held batches again
_MAKE_HELD = frozenset({"recompute", "recollect"})


@dataclass(frozen=True, slots=True)
class RestateCommand:
    """A command that makes batches again: its name, verb, selection, reason, and the function that finds the labels."""

    command: str
    verb: str
    selection: str
    labels: str | None
    choose: Callable[[OpenedProject, str, str | None], LabelsByTable]
    why: str = ""
    nothing: str = "there are no done batches to make again"

    @property
    def word(self) -> str:
        """The verb as it is shown to users."""
        return self.command if self.command == "replay" else "recompute" if self.verb == FOLLOW else self.verb


def restate_batches(
    folder: Path, env: str | None, wish: RestateCommand, now: str | None, *, yes: bool, is_run: bool, is_json: bool
) -> int:
    """Show the affected batches, ask, record the request, and run them with dependent ones. Return the exit code."""
    to = console(stderr=is_json)
    with open_read_only(folder, env, now) as at:
        require_no_branch(at.project)
        found = {name: labels for name, labels in wish.choose(at, wish.selection, wish.labels).items() if labels}
        held = find_held_labels(at, wish.selection, wish.labels) if wish.command in _MAKE_HELD else {}
        if at.ledger is not None and held:
            return _retry_held_batches(to, at, at.ledger, held, wish, now, yes=yes, is_run=is_run, is_json=is_json)
        if at.ledger is None or not found:
            to.print(wish.nothing)
            if is_json and is_run:
                return run_and_report(at.project, RunOptions(command=wish.command, only=(), now=now, is_json=True))
            if is_json:
                _print_requested_json(wish, Ripple(), cost_of({}, at.snapshot))
            return ExitCode.DONE
        asking, snapshot = build_requests(at, at.ledger, wish.verb, found)
        ripple = at.planner.ripple(snapshot, at.now, found)
        cost = cost_of({name: len(windows) for name, windows in ripple.all.items()}, at.snapshot)
        print_ripple(to, at, wish.word, ripple, cost)
        kept = waiting_request_lines(at.snapshot, ripple.all, at.zone)
        for line in (*hidden_lines(at, found), *kept):
            to.print(Text(line), soft_wrap=True)
        count = count_words(sum(map(len, found.values())), "batch", "batches")
        confirm(f"{wish.word.capitalize()} {count}?", yes=yes)
        for (verb, name), labels in asking.items():
            command = wish.word if wish.command == "replay" and verb == wish.verb else ""
            at.ledger.decisions.request_restate(
                name,
                sorted(labels),
                verb,
                who=RunSettings().who,
                why=wish.why,
                command=command,
                is_retry=verb != FOLLOW,
            )
        project, may_run = at.project, _find_windows_to_run(at, at.ledger, wish, found, ripple)
    if not is_run:
        if is_json:
            _print_requested_json(wish, ripple, cost)
        else:
            to.print("requested" if kept else f"requested; the next run makes {count} again")
        return ExitCode.DONE
    spans = {name: Labels.from_range(windows[0].start, windows[-1].start) for name, windows in may_run.items()}
    return run_and_report(
        project, RunOptions(command=wish.command, only=tuple(sorted(spans)), labels=spans, now=now, is_json=is_json)
    )


def _print_requested_json(wish: RestateCommand, ripple: Ripple, cost: Estimate) -> None:
    from waterclock.json_models.runs import RippleAnswer

    print_answer(RippleAnswer.build(verb=wish.word, **ripple.to_dict(), estimate=cost))


def _find_windows_to_run(
    at: OpenedProject, ledger: Ledger, wish: RestateCommand, found: LabelsByTable, ripple: Ripple
) -> Mapping[str, tuple[Window, ...]]:
    """Return the windows to run: those of `ripple`, the late rows that these may take over, and readers of both."""
    late = find_taken_late_rows(at, ledger, found) if wish.verb == "recompute" else {}
    if not late:
        return ripple.all
    both = {**found, **late}
    _, snapshot = build_requests(at, ledger, wish.verb, both)
    return at.planner.ripple(snapshot, at.now, both).all


def _retry_held_batches(  # noqa: PLR0913 - the command's arguments and their result
    to: Console,
    at: OpenedProject,
    ledger: Ledger,
    held: LabelsByTable,
    wish: RestateCommand,
    now: str | None,
    *,
    yes: bool,
    is_run: bool,
    is_json: bool,
) -> int:
    """Make the held batches of a selection again, and no others. These can be requested once none is held."""
    for name, labels in held.items():
        words = local_range(labels[0], labels[-1], at.flow.tables[name].cadence)
        to.print(Text(f"held: {count_words(len(labels), 'label')} of {name} ({words})"), soft_wrap=True)
    confirm(f"Make {count_words(sum(map(len, held.values())), 'held batch', 'held batches')} again?", yes=yes)
    for name, labels in held.items():
        ledger.decisions.retry(name, labels, who=RunSettings().who, why=wish.why)
    if not is_run:
        if is_json:
            from waterclock.json_models.runs import HeldAgainAnswer

            requested = {name: list(map(label_of, of)) for name, of in held.items()}
            print_answer(HeldAgainAnswer(verb=wish.word, requested=requested))
        else:
            to.print("requested; the next run makes them again")
        return ExitCode.DONE
    spans = {name: Labels.from_range(labels[0], labels[-1]) for name, labels in held.items()}
    return run_and_report(
        at.project, RunOptions(command=wish.command, only=tuple(sorted(spans)), labels=spans, now=now, is_json=is_json)
    )


def print_ripple(to: Console, at: OpenedProject, verb: str, ripple: Ripple, cost: Estimate) -> None:
    """Print the batches to make again, the batches that may have to follow, and the maximum cost."""
    _print_part(to, at, f"{verb}: {_count(ripple.requested)}", ripple.requested)
    following = ripple.following
    if following:
        to.print()
        _print_part(to, at, f"then, if rows differ, up to {_count(following)}", following)
    to.print()
    if_all = ", if all of them are made" if following else ""
    to.print(Text(f"estimate: {cost_words(cost)}{if_all}"))


def _print_part(to: Console, at: OpenedProject, head: str, part: Mapping[str, tuple[Window, ...]]) -> None:
    to.print(Text(head, style="head"))
    width = max(map(len, part), default=0)
    for name, windows in part.items():
        first, last = windows[0].start, windows[-1].start
        line = Text.assemble(
            "  ",
            (f"{name:<{width}}", "name"),
            f"  {count_words(len(windows), 'label'):>12}",
            f"  {local_range(first, last, at.flow.tables[name].cadence):<26}",
            ("  " + label_range(first, last), "quiet"),
        )
        to.print(line, soft_wrap=True)


def _count(part: Mapping[str, tuple[Window, ...]]) -> str:
    return count_words(sum(map(len, part.values())), "batch", "batches")
