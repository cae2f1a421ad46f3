"""Plans an erasure of persons, asks, carries it out, and writes its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from waterclock.cli.actions.confirm import confirm
from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.erase import format_plan, format_result
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.progress import Progress
from waterclock.cli.views.theme import console
from waterclock.engine.erasing.erasing import erase, plan_erasure
from waterclock.engine.erasing.request import build_request
from waterclock.engine.ledger_export import export_ledger
from waterclock.engine.run_opening import apply_flow, open_workplace
from waterclock.errors import WaterclockError
from waterclock.operations.erasure_certificate import build_certificate, certificate_text
from waterclock.operations.formatting import count_words
from waterclock.operations.project_opening import open_project, zone_of
from waterclock.operations.required_reasons import need_reason_of_erasing
from waterclock.storage.erasure_files import write_certificate


@dataclass(frozen=True, slots=True)
class ErasureOptions:
    """The options of `erase`."""

    why: str
    keys_from: Path | None
    keys: str | None
    is_dry_run: bool
    continues: bool
    yes: bool
    is_json: bool


def run_erase(folder: Path, env: str | None, subject: str, keys: Sequence[str], options: ErasureOptions) -> None:
    """Show the plan, ask, erase, and write the certificate. Exit with 1 if places are left.

    Raises the errors of `build_request` and `plan_erasure`.
    """
    if not (options.is_dry_run or options.continues):
        need_reason_of_erasing(options.why)
    values = [*keys, *(_read_values(options.keys_from) if options.keys_from else ())]
    project = open_project(folder, env)
    to = console(stderr=options.is_json)
    progress = Progress(project.flow, zone_of(project.flow), to, is_quiet=options.is_json and not to.is_terminal)
    with open_workplace(project, listener=progress) as work:
        if not options.is_dry_run:
            apply_flow(work, work.real_now())
        request = build_request(work, subject, values, options.keys)
        plan = plan_erasure(work, request, continues=options.continues)
        for line in format_plan(plan):
            to.print(line, soft_wrap=True)
        if options.is_dry_run:
            certificate = build_certificate(plan)
        else:
            confirm(f"Erase {count_words(len(request.values), subject)} for good?", yes=options.yes)
            result = erase(work, plan, why=options.why)
            certificate = build_certificate(plan, result)
            path = write_certificate(
                work.lake.root, result.erasure.number, certificate.to_json(), certificate_text(certificate)
            )
            export_ledger(work.ledger, work.lake.root)
            for line in format_result(result, path):
                to.print(line, soft_wrap=True)
    if options.is_json:
        print_answer(certificate)
    if not options.is_dry_run and certificate.left:
        raise typer.Exit(ExitCode.FAILED)


def _read_values(file: Path) -> list[str]:
    """Return the lines of a file without empty ones at its end. Raises E462 if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WaterclockError(
            "E462",
            "the file with the values cannot be read",
            where=str(file),
            why=str(error),
            fix="write one value a line, in UTF-8",
        ) from error
