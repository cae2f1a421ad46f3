"""Runs `maintain`, or shows the changes that a dry run finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from waterclock.cli.exit_codes import ExitCode
from waterclock.cli.views.json import print_answer
from waterclock.cli.views.theme import console
from waterclock.engine.ledger_opening import open_ledger
from waterclock.engine.maintenance.maintain import CountAndBytes, TableMaintenance
from waterclock.engine.maintenance.project_maintenance import ProjectMaintenance, maintain_project
from waterclock.engine.maintenance.replication_slots import UnusedSlot
from waterclock.engine.run_opening import open_workplace
from waterclock.flow.declarations import Flow
from waterclock.operations.formatting import bytes_words, count_words, local_label
from waterclock.operations.project_opening import open_project, select_tables


def run_maintenance(folder: Path, env: str | None, selection: list[str] | None, *, is_dry: bool, is_json: bool) -> int:
    """Find files to join or remove and, unless it is a dry run, do that. Print a report and return the exit code."""
    project = open_project(folder, env)
    chosen, _ = select_tables(project.flow, selection)
    known = open_ledger(project)
    if known is None:
        return _report_maintenance(ProjectMaintenance(), project.flow, is_dry=is_dry, is_json=is_json)
    known.close()
    with open_workplace(project) as work:
        done = maintain_project(work, None if selection is None else chosen.tables, is_dry=is_dry)
    return _report_maintenance(done, project.flow, is_dry=is_dry, is_json=is_json)


def _report_maintenance(done: ProjectMaintenance, flow: Flow, *, is_dry: bool, is_json: bool) -> int:
    found, at_sources = done.tables, done.at_sources
    if is_json:
        from waterclock.json_models.maintenance import MaintainAnswer

        print_answer(
            MaintainAnswer.build(
                now=done.now,
                dry_run=is_dry,
                export=None if done.exported is None else done.exported.name,
                freed=sum(each.freed_bytes for each in found),
                tables=[each for each in found if not each.is_nothing],
                kept_at_sources=at_sources,
            )
        )
    else:
        to = console()
        if done.exported is not None and done.exported.name is not None:
            size = bytes_words(done.exported.bytes)
            to.print(f"ledger exported: ledger/{done.exported.name} ({size})", soft_wrap=True)
        for line in (
            *_format_slots(at_sources, is_dry=is_dry),
            *_format_maintenance(found, at_sources, flow, is_dry=is_dry),
        ):
            to.print(line, soft_wrap=True)
    return ExitCode.of_failure(any(each.failed for each in found) or any(kept.failed for kept in at_sources))


def _format_slots(at_sources: Sequence[UnusedSlot], *, is_dry: bool) -> Iterator[str]:
    for each in at_sources:
        text = f"{each.connection} {'keeps' if is_dry or each.failed else 'kept'} {each.name} for {each.table}"
        yield f"{text}, no longer needed{': ' + each.failed if each.failed else '' if is_dry else ': dropped'}"


def _format_maintenance(
    found: Sequence[TableMaintenance], at_sources: Sequence[UnusedSlot], flow: Flow, *, is_dry: bool
) -> Iterator[str]:
    for each in found:
        if each.is_nothing:
            continue
        yield each.table
        if each.is_busy:
            yield "  skipped: a batch, a rebuild or a reset is running"
        if each.dropped.count and each.drop_before is not None:
            before = local_label(each.drop_before, flow.tables[each.table].cadence)
            yield f"  windows before {before} dropped (RETAIN): {_format_amount(each.dropped, 'file')}"
        for amount, what in (
            (each.joined, "small files joined (their slices stay)"),
            (each.unneeded, "files that no kept version needs"),
            (each.slices, "slices that are no longer needed"),
            (each.left_behind, "folders left behind by broken claims"),
            (each.states, "old states that were made again"),
        ):
            if amount.count:
                yield f"  {what}: {amount.count}, {bytes_words(amount.bytes)}"
        if each.labels:
            yield f"  labels dropped behind the view (RETAIN): {len(each.labels)}"
        if each.manifests:
            yield f"  outdated symlink manifests: {each.manifests}"
        yield from (f"  failed: {error}" for error in each.failed)
    freed = sum(each.freed_bytes for each in found)
    if all(each.is_nothing for each in found):
        if at_sources:
            return
        yield "nothing to clean up"
    elif is_dry:
        yield f"nothing was changed: `maintain` without --dry-run would free {bytes_words(freed)}"
    else:
        yield f"freed: {bytes_words(freed)}"


def _format_amount(amount: CountAndBytes, noun: str) -> str:
    return f"{count_words(amount.count, noun)}, {bytes_words(amount.bytes)}"
