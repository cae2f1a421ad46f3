"""Runs queries in a child process, one at a time. The parent can kill and replace it.

Its Spark is confined, see `engine.spark.confined_jvm`. The process ends when its parent has ended.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from waterclock.engine.run_opening import sessions_of_queries
from waterclock.engine.spark.cancelling import cancel_jobs, mark_jobs
from waterclock.errors import WaterclockError
from waterclock.operations.query_results import ZonedQueryResult, answer_query

if TYPE_CHECKING:
    from waterclock.dpl.project import Project
    from waterclock.engine.spark.session import Sessions
    from waterclock.permissions.users_and_roles import Person

BEGUN = "begun"
"""Message: Spark has started and the query is running."""
_CANCEL = "cancel"
_JOB_TAG = "waterclock-query"
_SECONDS_TO_END = 5.0
_MOST_SENT = 64 * 1024**2
_MOST_BYTES = 4 * 1024**3  # memory of the child's Python; the JVM has its own limit


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query of one project, the maximum number of rows, and the person who sees them; None is the owner."""

    project: Project
    sql: str
    limit: int
    as_of: str | None
    person: Person | None = None


class QueryProcess:
    """Controls a child process that runs one query at a time. This is the parent's side of the connection."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"from {__name__} import main; main()", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._connection = Connection(ours.detach())

    @property
    def has_ended(self) -> bool:
        """Whether the child process has ended."""
        return self._process.poll() is not None

    def ask(self, request: QueryRequest) -> None:
        """Send a query to the process. It starts Spark if needed."""
        with self._raise_if_ended():
            self._connection.send(request)

    def answer(self, seconds: float) -> ZonedQueryResult | str | None:
        """Return the next message: BEGUN, or the query's result. Return None if there is none within `seconds`.

        Raises the query's own error, or E731 if the process has ended.
        """
        with self._raise_if_ended():
            message = self._connection.recv() if self._connection.poll(seconds) else None
        if isinstance(message, BaseException):
            raise message
        found: ZonedQueryResult | str | None = message
        return found

    def cancel(self) -> None:
        """Cancel the Spark jobs of the running query. `answer` then raises its error."""
        with suppress(OSError):
            self._connection.send(_CANCEL)

    def kill(self) -> None:
        """Kill the process, its Spark and all their child processes unconditionally."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()

    def close(self) -> None:
        """End the process. A busy one is killed after some seconds."""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_END)
        self.kill()

    @contextmanager
    def _raise_if_ended(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            code = self._process.wait(_SECONDS_TO_END)
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise WaterclockError(
                "E731",
                "the query was stopped",
                why=f"the process that answers queries ended ({how})",
                fix="query again: a new process is started",
                transient=True,
            ) from error


class _QueryServer:
    """Runs queries in the child process, with one Spark session. This is the child's side of the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._requests: SimpleQueue[QueryRequest | None] = SimpleQueue()
        self._sessions: Sessions | None = None
        self._spark_settings: tuple[Any, ...] = ()

    def run(self) -> None:
        threading.Thread(target=self._listen, name="listening", daemon=True).start()
        while (request := self._requests.get()) is not None:
            self._send_message(self._answer(request))
        if self._sessions is not None:
            self._sessions.close()

    def _listen(self) -> None:
        try:
            while True:
                message = self._connection.recv()
                if message != _CANCEL:
                    self._requests.put(message)
                elif self._sessions is not None:
                    cancel_jobs(self._sessions, _JOB_TAG)
        except (EOFError, OSError):
            self._requests.put(None)
            time.sleep(_SECONDS_TO_END)
            os.killpg(0, signal.SIGKILL)

    def _answer(self, request: QueryRequest) -> ZonedQueryResult | BaseException:
        try:
            sessions = self._sessions_of(request.project)
            mark_jobs(sessions.root(), _JOB_TAG)
            self._send_message(BEGUN)
            with _bounded_memory():
                return answer_query(
                    request.project,
                    request.sql,
                    request.limit,
                    as_of=request.as_of,
                    sessions=sessions,
                    person=request.person,
                )
        except MemoryError:
            return WaterclockError(
                "E731",
                "the query was stopped",
                why=f"its result takes more than {_MOST_BYTES // 1024**3} GiB of memory",
                fix="query fewer rows or columns",
            )
        except Exception as error:  # noqa: BLE001 - raised again in the parent
            return error

    def _sessions_of(self, project: Project) -> Sessions:
        """Return the previous sessions, if the project's Spark settings are unchanged and Spark still answers."""
        of = (project.spark, project.storage, project.work_folder, project.storage_options)
        if self._sessions is not None and of != self._spark_settings:
            self._sessions.close()
            self._sessions = None
        if self._sessions is None:
            self._sessions, self._spark_settings = sessions_of_queries(project), of
        self._sessions.revive()
        return self._sessions

    def _send_message(self, message: ZonedQueryResult | BaseException | str) -> None:
        try:
            data = pickle.dumps(message)
            pickle.loads(data)  # noqa: S301 - our own data; an error with its own arguments may fail to unpickle
        except Exception:  # noqa: BLE001 - whatever an error contains
            data = pickle.dumps(RuntimeError(f"{type(message).__name__}: {message}"))
        if len(data) > _MOST_SENT:
            data = pickle.dumps(
                WaterclockError(
                    "E731",
                    "the query was stopped",
                    why=f"its result has {len(data) // 1024**2} MiB; the pages accept {_MOST_SENT // 1024**2} MiB",
                    fix="query fewer rows, or use `waterclock query`",
                )
            )
        self._connection.send_bytes(data)


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Limit the memory of this process within the block. A JVM that is started later is not affected."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def main() -> None:
    """Answer queries on the connection whose file descriptor is the only argument."""
    _QueryServer(Connection(int(sys.argv[1]))).run()
