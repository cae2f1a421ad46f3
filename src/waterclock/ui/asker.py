"""The Spark that answers the queries of the pages: one, started by the first of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waterclock.engine.spark.session import Sessions
from waterclock.engine.spark.settings import settings_of
from waterclock.operations.answers import Answered, asked

if TYPE_CHECKING:
    from waterclock.dpl.project import Project


@dataclass(slots=True)
class Asker:
    """Asks one query after another in a Spark of its own, which the first one starts and which is left open.

    `given` sessions are used instead, and are their owner's to close.
    """

    given: Sessions | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _own: Sessions | None = None
    _project: Project | None = None

    def ask(self, project: Project, sql: str, limit: int, *, as_of: str | None) -> Answered:
        """Return at most `limit` rows.

        Raises  as `engine.query.query.query`, E701 to E704 where Spark does not start
        """
        with self._lock:
            return asked(project, sql, limit, as_of=as_of, sessions=self.given or self._sessions(project))

    def _sessions(self, project: Project) -> Sessions:
        """Return the sessions of before, where the project still says the same of Spark."""
        if self._own is None or self._project is None or self._project.spark != project.spark:
            self._close()
            self._own = Sessions(work_folder=project.work_folder / "spark", settings=settings_of(project))
            self._project = project
        return self._own

    def close(self) -> None:
        """Stop the Spark that was started."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._own is not None:
            self._own.close()
        self._own = None
