"""Takes up a flow that was changed on disk while a runner works from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from waterclock.connectors.registry import capabilities
from waterclock.dpl.config.model import FILE
from waterclock.dpl.project import Project, load_project
from waterclock.engine.connections import Connections
from waterclock.engine.opening import apply_flow
from waterclock.engine.workplace import Workplace
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.secrets import Secrets

_Stamps = dict[str, tuple[int, int]]


class Reloading:
    """Looks at the files of a project, and makes a workplace work from what they say now, between two batches.

    What cannot be taken up is told once, and the runner goes on with what it has: a flow with errors, one whose tables
    would have to be rebuilt, another storage or ledger, and Python code, which a process holds as it first read it.
    """

    def __init__(self, work: Workplace, tell: Callable[[str], None]) -> None:
        self._work = work
        self._tell = tell
        self._stamps = _stamps_of(work.project)

    def is_new(self) -> bool:
        """Whether another flow was taken up by this look. Cost: a look at the times of the project's files."""
        stamps = _stamps_of(self._work.project)
        if stamps == self._stamps:
            return False
        changed = sorted(name for name in {*stamps, *self._stamps} if stamps.get(name) != self._stamps.get(name))
        self._stamps = stamps
        if any(name.endswith(".py") for name in changed):
            self._tell(f"{', '.join(changed)} changed: Python code is taken up by a restart of the runner")
            return False
        try:
            return self._take_up()
        except ProjectErrors as errors:
            self._tell(f"the flow was changed and has {len(errors.errors)} errors; going on with the one before")
        except WaterclockError as error:
            self._tell(f"the flow was changed and cannot be taken up; going on with the one before: {error.what}")
        return False

    def _take_up(self) -> bool:
        old = self._work.project
        new = load_project(old.root, env=old.env, capabilities=capabilities())
        if (new.storage, new.ledger, new.publish) != (old.storage, old.ledger, old.publish):
            self._tell("storage, ledger or publish changed: that is taken up by a restart of the runner")
            return False
        if new.flow == old.flow:
            return False
        connections = self._work.connections
        self._work.project = new
        self._work.connections = Connections(
            new.root, Path(new.storage) / "archive", new.flow.connections, Secrets.of(new.secrets)
        )
        try:
            apply_flow(self._work, self._work.real_now())
        except BaseException:
            self._work.project, self._work.connections = old, connections
            raise
        self._tell("the flow was changed and is taken up")
        return True


def _stamps_of(project: Project) -> _Stamps:
    found = sorted({FILE, *project.files, *_others(project)})
    stamps: _Stamps = {}
    for name in found:
        try:
            stat = (project.root / name).stat()
        except OSError:
            continue
        stamps[name] = (stat.st_mtime_ns, stat.st_size)
    return stamps


def _others(project: Project) -> list[str]:
    """Return the statements' files beside those that are known: new ones are changes too."""
    folders = {(project.root / name).parent for name in project.files}
    return (
        [
            path.relative_to(project.root).as_posix()
            for folder in folders
            for path in folder.iterdir()
            if path.suffix in {".dpl", ".py"}
        ]
        if all(folder.is_dir() for folder in folders)
        else []
    )
