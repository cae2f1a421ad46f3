"""Runs the queries of the pages one at a time, each with a time limit. The others wait in a short queue."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waterclock.errors import WaterclockError
from waterclock.operations.query_process import BEGUN, QueryProcess, QueryRequest
from waterclock.operations.query_results import ZonedQueryResult
from waterclock.ui.query_client import QueryClient

if TYPE_CHECKING:
    from waterclock.dpl.project import Project

SECONDS = "WATERCLOCK_UI_QUERY_SECONDS"
_SECONDS = 60.0
MOST_WAITING = 8
_MOST_OF_ONE_READER = 3  # waiting or running queries of one reader
_SECONDS_TO_CANCEL = 5.0
_CANCEL_INTERVAL = 0.5
_CHECK_SECONDS = 0.1  # seconds between two checks whether the reader has disconnected
_SECONDS_TO_START = 180.0  # for the start of Spark, which the first query waits for


def seconds_of_environment() -> float:
    """Return the time limit of a query: WATERCLOCK_UI_QUERY_SECONDS, or else 60. Raises E906 for an invalid one."""
    value = os.environ.get(SECONDS)
    if not value:
        return _SECONDS
    if not value.isdecimal() or not 1 <= int(value) <= 86_400:
        raise WaterclockError("E906", f"{SECONDS}={value} is not a number of seconds from 1 to 86400", fix="write 300")
    return float(value)


@dataclass(slots=True, eq=False)
class _Query:
    """A query in the queue: it waits for its turn, or runs."""

    reader: QueryClient
    has_begun: bool = False


@dataclass(slots=True)
class QueryQueue:
    """Answers one query after another in a separate process, which the first query starts.

    `seconds` limits both how long a query runs and how long it waits for its turn. A stopped query is cancelled. If
    Spark does not end it within some seconds, the process is killed and the next query starts another.
    """

    seconds: float = field(default_factory=seconds_of_environment)
    start: Callable[[], QueryProcess] = QueryProcess
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _queries: list[_Query] = field(default_factory=list)  # the first one runs
    _process: QueryProcess | None = None
    _is_closed: bool = False

    def ask(
        self, project: Project, sql: str, limit: int, *, as_of: str | None, reader: QueryClient | None = None
    ) -> ZonedQueryResult:
        """Run a query in its turn, and return at most `limit` rows.

        Raises the errors of the query, E701 to E704 if Spark does not start, E731 if the query is stopped, E732 if too
        many queries wait.
        """
        query = self._enqueue(reader or QueryClient())
        query.reader.on_leaving(self._notify_waiting)
        is_stopping = False
        try:
            self._wait_for_turn(query)
            process = self._running_process()
            found = self._wait_for_answer(process, query, QueryRequest(project, sql, limit, as_of, query.reader.person))
            if found is None:
                # a stopped query returns no answer, even a late one; the next query waits until this one has ended
                is_stopping = True
                threading.Thread(target=self._stop, args=(process, query), name="stopping a query").start()
                raise (
                    _query_stopped_error(query.reader, self.seconds, is_closed=self._is_closed)
                    if query.has_begun or query.reader.has_left or self._is_closed
                    else _spark_start_error()
                )
            return found
        finally:
            if not is_stopping:
                self._remove(query)

    def _enqueue(self, reader: QueryClient) -> _Query:
        with self._changed:
            of_reader = sum(each.reader.name == reader.name for each in self._queries)
            if reader.name and of_reader >= _MOST_OF_ONE_READER:
                raise _too_many_queries_error(f"{of_reader} of your queries run or wait already")
            if self._is_closed or len(self._queries) > MOST_WAITING:
                raise _too_many_queries_error("other queries run or wait already")
            query = _Query(reader)
            self._queries.append(query)
            return query

    def _wait_for_turn(self, query: _Query) -> None:
        end = time.monotonic() + self.seconds
        with self._changed:
            while True:
                if query.reader.has_left or self._is_closed:
                    raise _query_stopped_error(query.reader, self.seconds, is_closed=self._is_closed)
                if self._queries[0] is query:
                    return
                if not self._changed.wait(end - time.monotonic()) and time.monotonic() >= end:
                    raise _too_many_queries_error(f"the queries before this one took {self.seconds:g} seconds")

    def _running_process(self) -> QueryProcess:
        """Return the process that runs queries, and start it if needed. Only the query at the head may call this."""
        if self._process is not None and self._process.has_ended:
            self._process.kill()  # its child processes and its connection
            self._process = None
        if self._process is None:
            self._process = self.start()
        return self._process

    def _wait_for_answer(self, process: QueryProcess, query: _Query, request: QueryRequest) -> ZonedQueryResult | None:
        """Return a query's answer, or None if its time limit is reached or its reader has left."""
        try:
            process.ask(request)
            end = time.monotonic() + _SECONDS_TO_START
            while time.monotonic() < end and not query.reader.has_left and not self._is_closed:
                message = process.answer(_CHECK_SECONDS)
                if message == BEGUN:
                    query.has_begun = True
                    end = time.monotonic() + self.seconds
                elif isinstance(message, ZonedQueryResult):
                    return message
        except WaterclockError:
            if process.has_ended:
                self._process = None
            raise
        return None

    def _stop(self, process: QueryProcess, query: _Query) -> None:
        """Cancel a query until it ends, as Spark may start new stages after a cancel. Otherwise kill the process."""
        end, is_over = time.monotonic() + _SECONDS_TO_CANCEL, False
        try:
            while time.monotonic() < end and not is_over:
                process.cancel()
                is_over = isinstance(process.answer(_CANCEL_INTERVAL), ZonedQueryResult)
        except Exception:  # noqa: BLE001 - any error of the cancelled query
            is_over = not process.has_ended
        if not is_over:
            process.kill()
            self._process = None
        self._remove(query)

    def _notify_waiting(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _remove(self, query: _Query) -> None:
        with self._changed:
            if query in self._queries:
                self._queries.remove(query)
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the running and waiting queries and the process, within some ten seconds."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._queries, _SECONDS_TO_CANCEL + 2 * _CANCEL_INTERVAL)
            process, self._process = self._process, None
        if process is not None:
            process.close()


def _query_stopped_error(reader: QueryClient, seconds: float, *, is_closed: bool) -> WaterclockError:
    if is_closed or reader.has_left:
        why = "the pages are ending" if is_closed else "its reader left the page"
        return WaterclockError("E731", "the query was stopped", why=why, transient=True)
    return WaterclockError(
        "E731",
        f"the query was stopped after {seconds:g} seconds",
        fix=f"read fewer rows; or start `waterclock ui` with {SECONDS}=600; `waterclock query` has no limit",
    )


def _spark_start_error() -> WaterclockError:
    return WaterclockError(
        "E731",
        "the query was stopped",
        why=f"Spark did not start within {_SECONDS_TO_START:g} seconds",
        fix="run `waterclock query 'SELECT 1'`, which shows why",
        transient=True,
    )


def _too_many_queries_error(why: str) -> WaterclockError:
    return WaterclockError("E732", "too many queries at once", why=why, fix="run it again in a minute", transient=True)
