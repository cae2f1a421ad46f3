"""The Spark that answers the queries of the pages: one query at a time, each with a time limit, few that wait."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waterclock.engine.spark.cancelling import cancel_jobs, mark_jobs
from waterclock.engine.spark.session import Sessions
from waterclock.engine.spark.settings import settings_of
from waterclock.errors import WaterclockError
from waterclock.operations.answers import Answered, asked
from waterclock.ui.readers import Reader

if TYPE_CHECKING:
    from waterclock.dpl.project import Project

SECONDS = "WATERCLOCK_UI_QUERY_SECONDS"
_SECONDS = 60.0
MOST_WAITING = 8
_MOST_OF_ONE = 3  # queries of one reader that wait or run
_SECONDS_TO_CANCEL = 5.0
_AGAIN = 0.5
_SECONDS_TO_START = 180.0  # of Spark, which the first query waits for


def seconds_of_environment() -> float:
    """Return how long a query may take: WATERCLOCK_UI_QUERY_SECONDS, else 60.

    Raises  E906 for what is no number of seconds
    """
    said = os.environ.get(SECONDS)
    if not said:
        return _SECONDS
    if not said.isdecimal() or not 1 <= int(said) <= 86_400:
        raise WaterclockError("E906", f"{SECONDS}={said} is no number of seconds from 1 to 86400", fix="write 300")
    return float(said)


@dataclass(slots=True, eq=False)
class _Query:
    """One query that runs in a thread of its own: its answer or its error, once it is over."""

    reader: Reader
    answer: Answered | None = None
    error: BaseException | None = None
    began: float | None = None
    is_over: bool = False


@dataclass(slots=True)
class Asker:
    """Answers one query after another in a Spark of its own, which the first one starts and which is left open.

    `given` sessions are used instead, and are their owner's to close. `seconds` bounds how long a query runs and how
    long it waits for its turn. A query that Spark does not stop when told to ends with the JVM, where no one else uses
    that (`is_alone`); else queries are refused until it ends.
    """

    given: Sessions | None = None
    seconds: float = field(default_factory=seconds_of_environment)
    is_alone: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _queries: list[_Query] = field(default_factory=list)  # the first one runs
    _own: Sessions | None = None
    _project: Project | None = None
    _is_closed: bool = False

    def ask(
        self, project: Project, sql: str, limit: int, *, as_of: str | None, reader: Reader | None = None
    ) -> Answered:
        """Return at most `limit` rows.

        Raises  as `engine.query.query.query`, E701 to E704 where Spark does not start, E731 for a query that was
                stopped, E732 where too many wait
        """
        query = self._queued(reader or Reader())
        query.reader.on_leaving(self._wake)
        try:
            self._wait_for_turn(query)
        except BaseException:
            self._remove(query)
            raise
        work = threading.Thread(target=self._run, args=(query, project, sql, limit, as_of), name="query", daemon=True)
        work.start()
        if not self._is_answered(query):
            # what is stopped is no answer, even if it comes yet; the next query waits until this one has ended
            threading.Thread(target=self._stop, args=(query,), name="stopping a query", daemon=True).start()
            raise _stopped(query.reader, self.seconds, is_closed=self._is_closed)
        if query.answer is None:
            raise query.error or _stopped(query.reader, self.seconds, is_closed=self._is_closed)
        return query.answer

    def _queued(self, reader: Reader) -> _Query:
        with self._changed:
            of_reader = sum(each.reader.name == reader.name for each in self._queries)
            if self._is_closed or len(self._queries) > MOST_WAITING or (reader.name and of_reader >= _MOST_OF_ONE):
                raise _busy("other queries run or wait already")
            query = _Query(reader)
            self._queries.append(query)
            return query

    def _wait_for_turn(self, query: _Query) -> None:
        end = time.monotonic() + self.seconds
        with self._changed:
            while self._queries[0] is not query:
                if query.reader.has_left or self._is_closed:
                    raise _stopped(query.reader, self.seconds, is_closed=self._is_closed)
                if not self._changed.wait(end - time.monotonic()) and time.monotonic() >= end:
                    raise _busy(f"the queries before this one took {self.seconds:g} seconds")

    def _is_answered(self, query: _Query) -> bool:
        """Wait until a query is over, its time is over, or its reader has left; return whether it is over."""
        asked_at = time.monotonic()

        def seconds_left() -> float:
            end = asked_at + _SECONDS_TO_START if query.began is None else query.began + self.seconds
            return 0 if query.reader.has_left or self._is_closed else end - time.monotonic()

        with self._changed:
            while not query.is_over and (left := seconds_left()) > 0:
                self._changed.wait(left)
            return query.is_over

    def _run(self, query: _Query, project: Project, sql: str, limit: int, as_of: str | None) -> None:
        answer: Answered | None = None
        error: BaseException | None = None
        try:
            sessions = self.given or self._sessions(project)
            mark_jobs(sessions.root(), _tag(query))
            with self._changed:
                query.began = time.monotonic()
                is_wanted = not (query.reader.has_left or self._is_closed)
                self._changed.notify_all()
            if is_wanted:
                answer = asked(project, sql, limit, as_of=as_of, sessions=sessions)
        except BaseException as raised:  # noqa: BLE001 - raised again where the query was asked
            error = raised
        with self._changed:
            query.answer, query.error, query.is_over = answer, error, True
        self._remove(query)

    def _stop(self, query: _Query) -> None:
        """Cancel a query's jobs, and end the JVM of one that goes on all the same."""
        threading.Thread(target=self._cancel, args=(query,), name="cancelling a query", daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: query.is_over, _SECONDS_TO_CANCEL)
        if not query.is_over and self.is_alone and self._own is not None and query.began is not None:
            self._own.kill()

    def _cancel(self, query: _Query) -> None:
        """Cancel until the query ends: a new stage may begin after the first of it. A JVM may never answer."""
        while not query.is_over:
            sessions = self.given or self._own
            if sessions is None:
                return
            cancel_jobs(sessions, _tag(query))
            with self._changed:
                self._changed.wait_for(lambda: query.is_over, _AGAIN)

    def _sessions(self, project: Project) -> Sessions:
        """Return the sessions of before, where the project still says the same of Spark and it still answers."""
        if self._own is not None and (self._project is None or self._project.spark != project.spark):
            self._own.close()
            self._own = None
        if self._own is None:
            self._own = Sessions(work_folder=project.work_folder / "spark", settings=settings_of(project))
            self._project = project
        self._own.revive()
        return self._own

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _remove(self, query: _Query) -> None:
        with self._changed:
            if query in self._queries:
                self._queries.remove(query)
            self._changed.notify_all()

    def close(self) -> None:
        """Stop what runs and waits, and the Spark that was started, within some ten seconds."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            is_over = self._changed.wait_for(lambda: not self._queries, _SECONDS_TO_CANCEL + 2 * _AGAIN)
            own, self._own = self._own, None
        if own is not None and is_over:
            own.close()
        elif own is not None and self.is_alone:
            own.kill()


def _tag(query: _Query) -> str:
    return f"waterclock-query-{id(query):x}"


def _stopped(reader: Reader, seconds: float, *, is_closed: bool) -> WaterclockError:
    if is_closed or reader.has_left:
        why = "the pages are ending" if is_closed else "its reader left the page"
        return WaterclockError("E731", "the query was stopped", why=why, transient=True)
    return WaterclockError(
        "E731",
        f"the query was stopped after {seconds:g} seconds",
        fix=f"read fewer rows; or start `waterclock ui` with {SECONDS}=600; `waterclock query` has no limit",
    )


def _busy(why: str) -> WaterclockError:
    return WaterclockError("E732", "too many queries at once", why=why, fix="ask again in a minute", transient=True)
