"""Keeps a project open for the pages, and loads it again when its files or its ledger change."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from waterclock.batches.ledger_snapshot import LedgerSnapshot
from waterclock.dpl.config.file_name import FILE
from waterclock.dpl.project import Project, read_access
from waterclock.engine.connections import connections_of
from waterclock.engine.flow_reloading import Stamps, stamps_of
from waterclock.engine.ledger_opening import ledger_url, open_ledger
from waterclock.engine.linked_projects import links_of
from waterclock.errors import WaterclockError
from waterclock.flow.linked_projects import linked_tables
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store.backend import parse_url
from waterclock.ledger.store.locations import redact_url_text
from waterclock.operations.abandoned_claim_report import Left, describe_abandoned_claims, mark_abandoned_claims
from waterclock.operations.project_opening import OpenedProject, instant_of_question, open_project
from waterclock.permissions.users_and_roles import AccessRules
from waterclock.planner.linked_projects import add_links
from waterclock.planner.planning import Planner
from waterclock.secrets.reader import SecretPlaces
from waterclock.ui.page_cache import PageCache, current_second

_SECONDS_TO_CLOSE = 3


@dataclass(slots=True)
class LiveProject:
    """A project that many threads read repeatedly. `now`: the instant to plan for, or None for the ledger's clock."""

    folder: Path
    env: str | None = None
    now: str | None = None
    memory: PageCache = field(default_factory=PageCache)
    ticks: PageCache = field(default_factory=lambda: PageCache(current_second))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _project: Project | None = None
    _planner: Planner | None = None
    _stamps: Stamps = field(default_factory=dict)
    _ledger: Ledger | None = None
    _file: tuple[int, int] | None = None
    _had_ledger: bool = False
    _renames_applied_to: Project | None = None
    _snapshot: LedgerSnapshot | None = None
    _access: tuple[tuple[int, ...], AccessRules, SecretPlaces | None] = ((), AccessRules(), None)
    _abandoned: Left = field(default_factory=dict)

    def load(self) -> OpenedProject:
        """Return the current project. Raises ProjectErrors; E421 to E423. Cost: reading file times, and one query."""
        with self._lock:
            project, planner = self._load_current()
            ledger = self._open_ledger(project)
            snapshot = LedgerSnapshot() if ledger is None else self._current_snapshot(ledger, project)
            if linked_tables(project.flow):
                snapshot = add_links(snapshot, links_of(project, connections_of(project)).read_progress(ledger))
            return OpenedProject(project, ledger, planner, snapshot, instant_of_question(project, self.now, ledger))

    def project(self) -> Project:
        """Return the project as its files declare it now, without its ledger. Raises ProjectErrors with all errors."""
        with self._lock:
            return self._load_current()[0]

    def access(self) -> tuple[AccessRules, SecretPlaces | None]:
        """Return the declared users and the places of secrets, as the project file states them now.

        The flow may have errors. If the project file cannot be read, the result is that of its last readable state.
        Cost: a stat of the file.
        """
        with suppress(WaterclockError, OSError):  # reported by the pages
            stat = (self.folder / FILE).stat()
            stamp = (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)
            if stamp != self._access[0]:
                self._access = (stamp, *read_access(self.folder, env=self.env))
        return self._access[1:]

    def ledger(self) -> Ledger | None:
        """Return the ledger, even while the project has errors; None before the first run. Raises E421 to E423."""
        with self._lock:
            try:
                project: Project | None = self._load_current()[0]
            except (WaterclockError, OSError):
                project = self._project
            return None if project is None else self._open_ledger(project)

    def close(self) -> None:
        """Close the ledger. If a read does not end within seconds, the ledger stays open until the process ends."""
        if self._lock.acquire(timeout=_SECONDS_TO_CLOSE):
            try:
                self._close_ledger()
            finally:
                self._lock.release()

    def _load_current(self) -> tuple[Project, Planner]:
        if self._project is None or self._planner is None or stamps_of(self._project) != self._stamps:
            old = self._project
            project = open_project(self.folder, self.env)
            if old is not None and ledger_url(old) != ledger_url(project):
                self._close_ledger()
            self._project, self._planner = project, Planner(project.flow)
            self._stamps, self._snapshot = stamps_of(project), None
        return self._project, self._planner

    def _open_ledger(self, project: Project) -> Ledger | None:
        url = ledger_url(project)
        file = _file_identity(url)
        if self._ledger is not None and file != self._file:
            self._close_ledger()  # an open file would still be read after another file has replaced it
        if self._ledger is None:
            self._file, self._ledger = file, open_ledger(project)
            if self._ledger is None and self._had_ledger:
                raise WaterclockError(
                    "E421",
                    "the ledger is gone",
                    where=redact_url_text(url),
                    why="it existed at an earlier request of these pages",
                    fix="restore it; if the project is to start over, restart `waterclock ui`",
                    transient=True,
                )
            self._had_ledger = self._ledger is not None
        elif not self._ledger.answers():
            raise WaterclockError(
                "E423",
                "the ledger cannot be reached",
                why="it does not answer now",
                fix="`waterclock check --connect` shows the cause; the page continues by itself once the ledger "
                "answers",
                transient=True,
            )
        if (
            self._ledger is not None and self._renames_applied_to is not project
        ):  # a changed flow may rename other tables
            self._ledger.declared.apply_pending_renames(project.flow)
            self._renames_applied_to = project
        return self._ledger

    def _current_snapshot(self, ledger: Ledger, project: Project) -> LedgerSnapshot:
        if self._snapshot is None or self._snapshot.sequence != ledger.sequence():
            self._snapshot, self._abandoned = ledger.reads.snapshot(project.flow), {}
        left = describe_abandoned_claims(ledger, self._snapshot)
        if left != self._abandoned:  # an expired lease or an ended process writes nothing to the ledger
            self._snapshot, self._abandoned = mark_abandoned_claims(self._snapshot, left), left
        return self._snapshot

    def _close_ledger(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
        self._ledger = self._snapshot = None


def _file_identity(url: str) -> tuple[int, int] | None:
    """Return device and inode of a ledger's file, to detect a replacement; None for a server or a missing file."""
    if not url.startswith("sqlite:"):
        return None
    try:
        found = Path(str(parse_url(url).database)).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
