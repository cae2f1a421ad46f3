"""Exports, rebuilds and moves the ledger, and reports the result."""

from __future__ import annotations

from pathlib import Path

from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.ledger_export import export_ledger
from waterclock.engine.ledger_opening import ledger_url, open_ledger
from waterclock.engine.maintenance.ledger_move import move_ledger
from waterclock.engine.maintenance.ledger_rebuild import LedgerRebuildResult, rebuild_ledger
from waterclock.engine.run_settings import RunSettings
from waterclock.ledger.ledger_errors import nothing_to_export
from waterclock.ledger.store.locations import redact_url_text
from waterclock.operations.formatting import bytes_words, count_words
from waterclock.operations.project_opening import open_project


def run_export(folder: Path, env: str | None, *, is_whole: bool, is_json: bool) -> None:
    """Write the ledger to the storage, and print the location. Raises E419 if there is no ledger."""
    project = open_project(folder, env)
    ledger = open_ledger(project)
    if ledger is None:
        raise nothing_to_export(redact_url_text(ledger_url(project)))
    with ledger:
        found = export_ledger(ledger, project.storage, is_whole=is_whole)
    if is_json:
        from waterclock.json_models.maintenance import LedgerAnswer

        print_answer(LedgerAnswer(what="export", export=found.name, bytes=found.bytes, follows=found.follows))
        return
    if found.name is None:
        console().print("no changes since the newest export")
        return
    after = f", the changes since {found.follows}" if found.follows else ", the whole ledger"
    console().print(f"exported: ledger/{found.name} ({bytes_words(found.bytes)}{after})", soft_wrap=True)


def run_ledger_rebuild(folder: Path, env: str | None, export: str | None, *, force: bool, is_json: bool) -> None:
    """Rebuild the ledger, and print the export and the commits it was made from. Raises E417, E418."""
    found = rebuild_ledger(open_project(folder, env), force=force, export=export)
    if is_json:
        from waterclock.json_models.maintenance import LedgerAnswer

        print_answer(LedgerAnswer.build(found, what="rebuild"))
        return
    to = console()
    for line in _format_rebuild(found):
        to.print(line, soft_wrap=True)


def run_move(folder: Path, env: str | None, to: str, *, is_json: bool) -> None:
    """Move the ledger to a URL or to the ledger URL of another environment, and print the setting to change.

    Raises E417 if the target is a ledger already, E419 if there is no ledger to move, E426 while batches run.
    """
    project = open_project(folder, env)
    url = to if ":" in to else ledger_url(open_project(folder, to))
    found = move_ledger(project, url, who=RunSettings().who)
    if is_json:
        from waterclock.json_models.maintenance import LedgerAnswer

        print_answer(LedgerAnswer(what="move", old=found.old, new=found.new, batches=found.batches))
        return
    say = console()
    say.print(f"moved: {count_words(found.batches, 'batch', 'batches')} from {found.old}", soft_wrap=True)
    say.print(f"       to {found.new}", soft_wrap=True)
    if "://" in to:
        say.print(f'set it in waterclock.toml, below [env.{project.env}]: ledger = "{found.new}"', soft_wrap=True)


def _format_rebuild(found: LedgerRebuildResult) -> list[str]:
    count = sum(found.adopted.values())
    begun = f"from ledger/{found.export}" if found.export else "from commits only: there was no export"
    lines = [f"rebuilt: {begun}, and {count_words(count, 'claim')} that committed since"]
    lines += [f"  {name}: {count_words(of, 'claim')}" for name, of in sorted(found.adopted.items())]
    lines += [
        f"  {name}: {count_words(of, 'commit')} had been cleaned from its log; their labels are due again"
        for name, of in sorted(found.missing.items())
    ]
    if found.unknown:
        claims = count_words(len(found.unknown), "claim")
        lines.append(f"  {claims} without a record: their labels are due again, or covered by a later snapshot")
    if found.killed:
        lines.append(f"  {count_words(found.killed, 'claim')} sealed and not committed: killed")
    if found.aside:
        lines.append(f"the previous ledger: {found.aside}")
    return lines
