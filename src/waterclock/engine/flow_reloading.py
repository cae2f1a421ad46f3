"""Reloads a flow that was changed on disk while a runner uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from waterclock.connectors.registry import capabilities
from waterclock.dpl.config.file_name import FILE
from waterclock.dpl.project import Project, load_project
from waterclock.engine.connections import connections_of
from waterclock.engine.linked_projects import links_of
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import apply_flow
from waterclock.errors import ProjectErrors, WaterclockError

_FIXED_SETTINGS = ("storage", "storage_options", "ledger", "publish", "spark")
Stamps = dict[str, tuple[int, int]]
"""Maps each file to its modification time in nanoseconds and its size."""


class Reloading:
    """Polls the files of a project, and reloads them into a run context between two batches.

    Some changes cannot be reloaded: a flow with errors, a rename of a table that has batches under both names, another
    storage, ledger or Spark. Such a change is reported once, and the runner continues with its current flow.
    """

    def __init__(self, work: RunContext, report: Callable[[str], None]) -> None:
        self._work = work
        self._report = report
        self._stamps = stamps_of(work.project)
        # the applied flow when a change was refused; under another applied flow the change may become possible
        self._refused_under: str | None = None
        self._refused_for = ""

    def is_new(self) -> bool:
        """Poll the files once, and return whether another flow or other settings were loaded.

        Cost: a stat of each file of the project.
        """
        stamps = stamps_of(self._work.project)
        if stamps == self._stamps and not self._can_retry_refused_change():
            return False
        self._stamps, self._refused_under = stamps, None
        try:
            return self._reload()
        except ProjectErrors as errors:
            first = errors.errors[0]
            more = f" (and {len(errors.errors) - 1} more)" if len(errors.errors) > 1 else ""
            first_error = f"{first.code} {first.what}, {first.where}{more}"
            self._report(f"the changed flow has errors, the runner keeps the previous one: {first_error}")
        except WaterclockError as error:
            if error.transient:  # a batch of another runner blocks the change: a later poll tries again
                self._stamps = {}
            if error.what != self._refused_for:
                self._report(f"the changed flow cannot be applied, the runner keeps the previous one: {error.what}")
            self._refused_for = error.what
        self._refused_under = self._read_applied_flow()
        return False

    def _can_retry_refused_change(self) -> bool:
        """Return whether another flow was applied since a change was refused: the change may be possible now."""
        return self._refused_under is not None and self._refused_under != self._read_applied_flow()

    def _read_applied_flow(self) -> str:
        return self._work.ledger.reads.snapshot(self._work.flow, tables=[]).flow or ""

    def _reload(self) -> bool:
        old = self._work.project
        new = load_project(old.root, env=old.env, capabilities=capabilities())
        if any(getattr(new, part) != getattr(old, part) for part in _FIXED_SETTINGS):
            self._report("storage, ledger, publish or spark changed: restart the runner to apply it")
            return False
        if new.flow == old.flow:
            return self._apply_settings(old, new)
        connections, links = self._work.connections, self._work.links
        self._work.project = new
        self._work.connections = connections_of(new)
        self._work.links = links_of(new, self._work.connections)  # snapshots are of the tables of its flow
        try:
            apply_flow(self._work, self._work.real_now())
        except BaseException:
            self._work.project, self._work.connections, self._work.links = old, connections, links
            raise
        self._refused_for = ""
        self._work.ledger.runners.see(self._work.settings.runner, flow=new.flow.fingerprint)
        self._report("the changed flow is applied")
        return True

    def _apply_settings(self, old: Project, new: Project) -> bool:
        """Apply changed settings, such as those of alerts, if the flow is unchanged. Return whether there are any."""
        self._work.project = new
        if replace(new, files=old.files, sources=old.sources) == old:
            return False
        self._work.connections = connections_of(new)
        self._work.links = links_of(new, self._work.connections)
        self._report("the changed settings are applied")
        return True


def stamps_of(project: Project) -> Stamps:
    """Map each file of the project, and each that could become part of it, to its modification time and size."""
    stamps: Stamps = {}
    for path in {project.root / FILE, *(project.root / name for name in project.files), *_list_other_files(project)}:
        with suppress(OSError):
            stat = path.stat()
            stamps[path.relative_to(project.root).as_posix()] = (stat.st_mtime_ns, stat.st_size)
    return stamps


def _list_other_files(project: Project) -> Iterator[Path]:
    """Yield files next to those of the statements (a new file is a change too), and the project's own modules."""
    root = project.root
    for folder in {(root / name).parent for name in project.files}:
        yield from (path for path in folder.glob("*") if path.suffix in {".dpl", ".py"})
    yield from root.glob("*.py")
    for package in root.glob("*/__init__.py"):
        yield from package.parent.rglob("*.py")
