"""Sends an event to open pages when a newer tick or batch of a table is committed, by server-sent events.

An event has no content: the page requests itself again. One task checks all tables that are followed, in one thread,
however many clients follow them, and ends with the last client. A client that reads slowly misses events and gets the
newest one, so nothing is buffered. If a check fails, all streams end, and the pages poll as others do.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from waterclock.engine.ledger_opening import lake_of
from waterclock.errors import WaterclockError
from waterclock.flow.open_windows import open_table_of
from waterclock.permissions.users_and_roles import Person, Right
from waterclock.ui.guarded_routes import person_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from waterclock.ui.live_project import LiveProject
    from waterclock.ui.people import People
    from waterclock.ui.request_guard import Guard

_LOG = logging.getLogger(__name__)
PATH = "/events/{table}"
_ROUNDING = 0.001  # seconds: a timer may end a moment early
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # a proxy passes each event on at once


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of streams. All times are in seconds.

    `most` and `most_of_one` are the numbers of streams in all and of a person. The latter is less than the six
    connections that a browser opens to a server, so that its pages can be requested. `longest` is the duration of a
    stream, after which the client connects again. `alive` is the time between two signs of life.
    """

    most: int = 40
    most_of_one: int = 4
    longest: float = 300.0
    alive: float = 15.0
    retry_after: int = 60


@dataclass(eq=False, slots=True)
class _Followed:
    """A table that is followed: its newest state, and the number of its streams. `changed` is set and replaced."""

    table: str
    seconds: float
    streams: int = 0
    state: str = ""
    due: float = 0.0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def set_state(self, state: str) -> None:
        if state != self.state:
            self.state = state
            self.wake()

    def wake(self) -> None:
        self.changed, woken = asyncio.Event(), self.changed
        woken.set()


class TableEvents:
    """The streams of events of a server, for people who may see the page of the table.

    Rights are checked at each event and at each sign of life: a stream ends if its session, token or user was revoked.
    """

    def __init__(self, people: People, guard: Guard, limits: StreamLimits | None = None) -> None:
        self._people = people
        self._guard = guard
        self.limits = limits or StreamLimits()
        self._followed: dict[str, _Followed] = {}
        self._of_person: Counter[str] = Counter()
        self._checking: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._reading = threading.Lock()
        self._numbers: dict[str, tuple[object, int]] = {}
        self._next_number = count(time.time_ns() // 1_000_000)  # no number of an earlier server is used again

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return self._of_person.total()

    @property
    def checked_tables(self) -> int:
        """The number of tables that the task checks; 0 without streams, when no task runs."""
        return len(self._followed) if self._checking is not None else 0

    async def respond(self, request: Request) -> Response:
        """Return the stream of events of a table. Without CONTINUOUS, or for an unknown table, the status is 404."""
        if request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
            raise HTTPException(HTTPStatus.FORBIDDEN)
        name = request.path_params["table"]
        try:
            seconds = await run_in_threadpool(self._find_seconds, name)
        except WaterclockError as error:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, headers=self._retry) from error
        if seconds is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=_HEADERS)
        return _EventStream(self, request, name, seconds)

    def close(self) -> None:
        """End all streams. It can be called from any thread; later requests are refused."""
        self._is_closed = True
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and with it all streams
                loop.call_soon_threadsafe(self._wake_all)

    @property
    def _retry(self) -> dict[str, str]:
        return {"Retry-After": str(self.limits.retry_after)}

    def find_refusal(self, person: str) -> Response | None:
        """Return the response to one stream too many, or None if a person may open another stream."""
        if self._is_closed:
            why = "the server is ending"
        elif self.streams >= self.limits.most:
            why = "too many pages follow a table"
        elif self._of_person[person] >= self.limits.most_of_one:
            why = "too many of your pages follow a table"
        else:
            return None
        return PlainTextResponse(f"{why}\n", HTTPStatus.SERVICE_UNAVAILABLE, self._retry)

    @contextmanager
    def follow(self, person: str, table: str, seconds: float) -> Iterator[_Followed]:
        """Count a stream while the block runs, and let the task check the table."""
        self._loop = asyncio.get_running_loop()
        followed = self._followed.setdefault(table, _Followed(table, seconds))
        followed.streams += 1
        self._of_person[person] += 1
        if self._checking is None:
            self._checking = asyncio.create_task(self._check(), name="events of tables")
        try:
            yield followed
        finally:
            followed.streams -= 1
            self._of_person[person] -= 1
            if not self._of_person[person]:
                del self._of_person[person]
            if not followed.streams and self._followed.get(table) is followed:
                del self._followed[table]
                self._numbers.pop(table, None)
            if not self._followed and self._checking is not None:
                self._checking.cancel()
                self._checking = None

    async def events(self, request: Request, followed: _Followed) -> AsyncIterator[str]:
        """Yield the events of a stream: `tick` for a newer state, never more often than the tick, and `alive`."""
        known, clock, limits = request.headers.get("last-event-id", ""), time.monotonic, self.limits
        end, heard, sent = clock() + limits.longest, clock(), -followed.seconds + clock()
        yield "retry: 3000\n\n"
        while self._is_followed(followed) and (now := clock()) < end:
            changed, is_new = followed.changed, bool(followed.state) and followed.state != known
            if (is_new and now >= sent + followed.seconds) or now >= heard + limits.alive:
                if not await self._may_follow(request):
                    return
                heard = now
                if is_new and now >= sent + followed.seconds:
                    known, sent = followed.state, now
                    yield f"id: {known}\nevent: tick\ndata: {known}\n\n"
                else:
                    yield "event: alive\ndata: alive\n\n"
                continue
            wait = min(end, heard + limits.alive, *([sent + followed.seconds] if is_new else [])) - now
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), max(wait, 0.0) + _ROUNDING)

    def _is_followed(self, followed: _Followed) -> bool:
        return not self._is_closed and self._followed.get(followed.table) is followed

    async def _may_follow(self, request: Request) -> bool:
        """Return whether the credential of a request still belongs to a person who may see the page of a table."""
        person = await self._guard.admit(request, self._people)
        if not isinstance(person, Person) or not person.may(Right.LOOK):
            return False
        require = self._people.find_requirement(PATH)
        if require is None or person.may(Right.ADMINISTER):
            return True
        try:
            await run_in_threadpool(require, person)
        except WaterclockError:
            return False
        return True

    async def _check(self) -> None:
        """Check the followed tables, each once in a tick, until the task is cancelled or a check fails."""
        try:
            while not self._is_closed:
                now = time.monotonic()
                due = [each for each in self._followed.values() if each.due <= now]
                names = [each.table for each in due]
                found = await to_thread.run_sync(self._read_states, names, limiter=CapacityLimiter(1))
                for each in due:
                    each.due = now + each.seconds
                    if (state := found.get(each.table)) is not None and state != each.state:
                        self._live.ticks.clear()  # the page that the event requests is as of this tick
                        each.set_state(state)
                    elif state is None:  # the table has no CONTINUOUS any more
                        self._followed.pop(each.table, None)
                        each.wake()
                wait = min((each.due for each in self._followed.values()), default=0.0) - time.monotonic()
                await asyncio.sleep(max(wait, 0.01))
        except Exception as error:  # noqa: BLE001 - the pages report errors of the project when they poll
            if not isinstance(error, WaterclockError | OSError):
                _LOG.error("following tables failed", exc_info=error)
            self._checking = None
            self._wake_all(is_forgotten=True)

    def _wake_all(self, *, is_forgotten: bool = False) -> None:
        followed = [*self._followed.values()]
        if is_forgotten:
            self._followed.clear()
        for each in followed:
            each.wake()

    @property
    def _live(self) -> LiveProject:
        return self._people.live

    def _find_seconds(self, name: str) -> float | None:
        """Return the time between two ticks of a table; None if it has none."""
        table = self._live.load().flow.tables.get(name)
        return None if table is None or table.continuous is None else table.continuous.to_timedelta().total_seconds()

    def _read_states(self, tables: list[str]) -> dict[str, str]:
        """Return texts that identify the newest tick and the batches of tables.

        Raises OSError if an earlier call has not ended: one thread at most waits for a storage that does not answer.
        Cost: one query of the ledger in all, and for each table some small files.
        """
        if not self._reading.acquire(blocking=False):
            raise OSError("the check before has not ended")
        try:
            return dict(self._iterate_states(tables))
        finally:
            self._reading.release()

    def _iterate_states(self, tables: list[str]) -> Iterator[tuple[str, str]]:
        from waterclock.storage.commit.speed_tables import read_check, read_hidden_labels, read_state

        at = self._live.load()
        lake = lake_of(at.project, at.ledger)
        for name in tables:
            table = at.flow.tables.get(name)
            if table is None or table.continuous is None:
                continue
            folder = lake.folder(open_table_of(name))
            state, facts = read_state(folder), at.snapshot.of(name)
            own = facts, read_hidden_labels(folder), read_check(folder).outages, table.fingerprint
            known, number = self._numbers.get(name, (None, 0))
            if own != known:
                number = next(self._next_number)
                self._numbers[name] = own, number
            yield name, f"{state.version + 1}-{number}"


class _EventStream(Response):
    """A response that is a stream of events, or 503 if there are too many streams."""

    def __init__(self, events: TableEvents, request: Request, table: str, seconds: float) -> None:
        super().__init__(media_type="text/event-stream", headers=_HEADERS)
        self._events, self._request, self._table, self._seconds = events, request, table, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = person_of(self._request)
        person = f"{found.sign_in.value} {found.name}"
        if (refusal := self._events.find_refusal(person)) is not None:
            await refusal(scope, receive, send)
            return
        with self._events.follow(person, self._table, self._seconds) as followed:
            stream = self._events.events(self._request, followed)
            await StreamingResponse(stream, headers=_HEADERS, media_type="text/event-stream")(scope, receive, send)
