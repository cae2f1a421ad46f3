"""The HTTP endpoint that receives events: an ASGI and RSGI application without a framework.

`POST /<connection>/<stream>` is answered with 202 once its events are on disk. All requests that are pending when the
disk is free are written together, by one write and one sync.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Protocol, Self

from waterclock.connectors.receiver.events import RefusedError, decode_body, events_of
from waterclock.connectors.receiver.segment_writing import SyncFailedError
from waterclock.flow.receiver_limits import MAX_BODY, MAX_WAITING
from waterclock.http.access_tokens import WrongTokens, bearer_of, is_same
from waterclock.http.served_hosts import ServedHosts
from waterclock.permissions.access_tokens import PREFIX

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_LONGEST_KEY = 200
_LONGEST_PATH = 400
_LONGEST_LENGTH = 18  # digits
_MOST_PARSED_IN_LOOP = 64 * 1024  # longer bodies are parsed by a thread, so that small requests do not wait for them
_MOST_HEADER_BYTES = 16 << 20  # bytes of a request's stored headers, which are repeated for each of its events


class Writer(Protocol):
    """Writes the requests of a stream to disk: see `segment_writing.SegmentWriter`."""

    def append(self, bodies: Sequence[bytes]) -> None:
        """Write request bodies to disk."""
        ...

    def seconds_to_window_end(self) -> float | None:
        """Return the seconds until `end_if_over` must be called; None without an open segment."""
        ...

    def end_if_over(self) -> None:
        """End the open segment if its window is over."""
        ...

    def end(self) -> None:
        """End the open segment."""
        ...


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The settings of a connection for requests: its token, if any, the limit of bytes, and the headers to store.

    Names in `headers` are in lower case. `has_raw`: the text of each event is also stored as it was sent.
    `needs_token`: senders need an access token, because the connection has no token of its own.
    """

    token: str | None = None
    max_body: int = MAX_BODY
    headers: tuple[str, ...] = ()
    has_raw: bool = False
    needs_token: bool = False


class SendPermission(Enum):
    """Whether an access token permits sending to the requested stream: yes (HERE), to all streams, or only elsewhere.

    Only a sender who may send EVERYWHERE may learn which streams exist.
    """

    HERE = auto()
    EVERYWHERE = auto()
    ELSEWHERE = auto()
    WRONG = auto()
    NOT_KNOWN = auto()
    """The token cannot be checked, as the ledger does not respond."""


@dataclass(slots=True)
class EndpointCounts:
    """Counters of a stream since the endpoint started."""

    events: int = 0
    requests: int = 0
    refused: int = 0
    syncs: int = 0


class Stream:
    """A stream of events, with its pending requests and the task that writes them to disk."""

    def __init__(self, limits: RequestLimits, writer: Writer) -> None:
        self.limits = limits
        self.counts = EndpointCounts()
        self.held = 0  # bytes of requests that are arriving or pending
        self.coming: dict[_ReservedBytes, None] = {}  # requests whose bodies are still arriving, the oldest first
        self._writer = writer
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._woken = asyncio.Event()
        self._is_ending = False
        self._failure: OSError | None = None

    def put(self, body: bytes) -> asyncio.Future[None]:
        """Queue a request body. The returned future completes once the body is on disk, and fails if the write fails.

        Raises OSError if an earlier failure of the disk has stopped all writing.
        """
        if self._failure is not None:
            raise self._failure
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, future))
        self._woken.set()
        return future

    def finish(self) -> None:
        """Request that `run` ends after it has written all pending requests."""
        self._is_ending = True
        self._woken.set()

    async def run(self, thread: ThreadPoolExecutor) -> None:
        """Write pending requests, until `finish` is called.

        Raises an error that makes further writing impossible, such as SyncFailedError. All pending requests fail first.
        """
        loop = asyncio.get_running_loop()
        while self._waiting or not self._is_ending:
            if not self._waiting:
                await self._wait_for_requests()
            taken, self._waiting = self._waiting, []
            self._woken.clear()
            try:
                if taken:
                    await loop.run_in_executor(thread, self._writer.append, [body for body, _ in taken])
                    self.counts.syncs += 1
                else:
                    await loop.run_in_executor(thread, self._writer.end_if_over)
            except Exception as error:
                if not isinstance(error, OSError) or isinstance(error, SyncFailedError):
                    self._failure = error if isinstance(error, OSError) else OSError(0, "it is shutting down")
                    _fail_requests([*taken, *self._waiting], self._failure)
                    raise
                _fail_requests(taken, error)
            else:
                for _, future in taken:
                    if not future.done():
                        future.set_result(None)
        await loop.run_in_executor(thread, self._writer.end)

    async def _wait_for_requests(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), self._writer.seconds_to_window_end())


def _fail_requests(waiting: Sequence[tuple[bytes, asyncio.Future[None]]], error: OSError) -> None:
    for _, future in waiting:
        if not future.done():
            future.set_exception(error)


@dataclass(slots=True)
class Endpoint:
    """ASGI and RSGI application that receives events. `streams` maps `connection/stream` to the stream.

    The mapping never changes. `is_ready` is False once the application is shutting down. `patience` is the limit in
    seconds for the arrival of a body.

    `max_waiting` limits the bytes of arriving and pending requests. In addition, an equal share of the same amount is
    reserved for each stream, so that senders of one stream cannot block another. `/metrics` lists the streams, for
    requests with `metrics_token`. Wrong tokens are counted for all streams together, as their senders are unknown.
    """

    streams: Mapping[str, Stream]
    max_waiting: int = MAX_WAITING
    is_ready: bool = True
    patience: float = 60.0
    hosts: ServedHosts = field(default_factory=ServedHosts)
    metrics_token: str | None = None
    senders: Callable[[str, str, str], Awaitable[SendPermission]] | None = None
    """Checks an access token for a stream; the third argument is the address of the client."""
    wrong: WrongTokens = field(default_factory=WrongTokens)
    _tokens: frozenset[str] = field(init=False, repr=False)
    _needs_token: bool = field(init=False)

    def __post_init__(self) -> None:
        limits = [each.limits for each in self.streams.values()]
        self._tokens = frozenset(each.token for each in limits if each.token is not None)
        self._needs_token = any(each.needs_token for each in limits)

    @property
    def pending_bytes(self) -> int:
        """The bytes of all arriving and pending requests."""
        return sum(stream.held for stream in self.streams.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with suppress(_DisconnectedError):
            client = (scope.get("client") or ("",))[0]
            parts = _read_asgi_body(receive)
            status, body, head = await self.answer(scope["method"], scope["path"], headers, parts, client)
            encoded = [(name.encode(), value.encode()) for name, value in head]
            await send({"type": "http.response.start", "status": status, "headers": encoded})
            await send({"type": "http.response.body", "body": body})

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """Handle one RSGI request, as Granian sends it."""
        if scope.proto != "http":
            return
        headers = dict(scope.headers.items())
        client, parts = str(scope.client).rpartition(":")[0], _read_rsgi_body(headers, protocol)
        status, body, head = await self.answer(scope.method, scope.path, headers, parts, client)
        protocol.response_bytes(status, head, body)

    async def answer(
        self, method: str, path: str, headers: Mapping[str, str], parts: AsyncIterator[bytes], client: str = ""
    ) -> tuple[int, bytes, list[tuple[str, str]]]:
        """Return the status, body and headers of the response to a request.

        `parts` are the parts of its body; names in `headers` are in lower case. `client` is the sender's address.
        """
        try:
            status, content, more = await self._answer(method, path.strip("/"), headers, parts, client)
        except RefusedError as refused:
            more = _RETRY if refused.status == HTTPStatus.SERVICE_UNAVAILABLE else ()
            status, content = refused.status, {"error": str(refused)}
        body = json.dumps(content, separators=(",", ":")).encode() + b"\n"
        return status, body, [("content-type", "application/json"), ("content-length", str(len(body))), *more]

    async def _answer(
        self, method: str, path: str, headers: Mapping[str, str], parts: AsyncIterator[bytes], client: str
    ) -> _Answer:
        if method != "POST":
            return await self._answer_get(method, path, headers)
        stream = await self._authorize(path, headers, client)
        return stream if isinstance(stream, tuple) else await self._accept_events(stream, headers, parts)

    async def _answer_get(self, method: str, path: str, headers: Mapping[str, str]) -> _Answer:
        if not self.hosts.allows(headers.get("host", "")):
            return _NOT_SERVED
        if method not in {"GET", "HEAD"}:
            return 405, {"error": "send events by POST"}, (("allow", "GET, POST"),)
        if path == "livez":
            return 200, {"alive": True}, ()
        if path == "readyz":
            return (200 if self.is_ready else 503), {"ready": self.is_ready}, ()
        if path == "metrics":
            return await self._check_token(self.metrics_token, headers) or self._build_metrics()
        return 404, {"error": "unknown path: GET /livez, /readyz or /metrics, or POST events to /connection/stream"}, ()

    def _build_metrics(self) -> _Answer:
        streams = {
            name: {"events": of.events, "requests": of.requests, "refused": of.refused, "syncs": of.syncs}
            for name, of in ((name, stream.counts) for name, stream in self.streams.items())
        }
        return (
            200,
            {"streams": streams, "waiting_bytes": self.pending_bytes, "wrong_tokens": self.wrong.count},
            (),
        )

    async def _authorize(self, path: str, headers: Mapping[str, str], client: str) -> Stream | _Answer:
        """Return the stream of a path, or the response that refuses the request.

        A wrong token is refused before an unknown path, so that the names of streams remain hidden.
        """
        stream = self.streams.get(path)
        sent = bearer_of(headers.get("authorization", "")) or ""
        if self.senders is not None and sent.startswith(PREFIX):
            return await self._check_access_token(await self.senders(sent, path[:_LONGEST_PATH], client), stream)
        if stream is None and (self._tokens or self._needs_token):
            known = [token for token in self._tokens if is_same(sent, token)]
            if not known and (refusal := await self._check_token(None, headers)) is not None:
                return refusal
        elif stream is not None and (stream.limits.token is not None or stream.limits.needs_token):
            if (refusal := await self._check_token(stream.limits.token, headers)) is not None:
                return refusal
        elif "origin" in headers:
            # without a token, any web page in a browser on this machine could send events
            return 403, {"error": "a web page cannot send events: the connection has no token"}, ()
        elif not self.hosts.allows(headers.get("host", "")):
            return _NOT_SERVED
        return stream or _NO_STREAM

    async def _check_access_token(self, found: SendPermission, stream: Stream | None) -> Stream | _Answer:
        """Return the stream if the access token of a request may send events to it, else a response that refuses it."""
        if found is SendPermission.NOT_KNOWN:
            return 503, {"error": "the token cannot be checked now; send it again"}, _RETRY
        if found is SendPermission.WRONG:
            return (403, {"error": "wrong token"}, ()) if await self.wrong.delay() else _TOO_MANY
        if found is SendPermission.ELSEWHERE or (stream is None and found is SendPermission.HERE):
            return 403, {"error": "this token may not send here"}, ()
        return stream or _NO_STREAM

    async def _check_token(self, token: str | None, headers: Mapping[str, str]) -> _Answer | None:
        """Return None if the bearer token of a request is `token`, else the response that refuses the request.

        If `token` is None, no bearer token matches.
        """
        sent = bearer_of(headers.get("authorization", ""))
        if sent is None:
            return 401, {"error": "a token is needed: Authorization: Bearer"}, (("www-authenticate", "Bearer"),)
        if token is not None and is_same(sent, token):
            return None
        if not await self.wrong.delay():
            return _TOO_MANY
        return 403, {"error": "wrong token"}, ()

    async def _accept_events(self, stream: Stream, headers: Mapping[str, str], parts: AsyncIterator[bytes]) -> _Answer:
        stream.counts.requests += 1
        try:
            with _ReservedBytes(self, stream) as share:
                body = await self._read_body(headers.get("content-length", ""), parts, stream.limits.max_body, share)
                is_small = len(body) <= _MOST_PARSED_IN_LOOP and headers.get("content-encoding", "") in {"", "identity"}
                read = (
                    _encode_in_loop if is_small else _encode_in_thread
                )  # a small packed body may unpack to a large one
                events, kept = await read(body, headers, stream.limits)
                share.add(len(kept))
                await stream.put(kept)
        except RefusedError:
            stream.counts.refused += 1
            raise
        except OSError as error:
            message = f"the disk cannot store it: {error.strerror}; send it again"
            raise RefusedError(message, HTTPStatus.SERVICE_UNAVAILABLE) from error
        stream.counts.events += events
        return HTTPStatus.ACCEPTED, {"accepted": events}, ()

    async def _read_body(
        self, declared_length: str, parts: AsyncIterator[bytes], most: int, share: _ReservedBytes
    ) -> bytes:
        """Read the body of a request, and count its bytes as they arrive.

        Raises RefusedError with status 413 for a body that is too large, 408 for a slow one, 503 without space.
        """
        length = (
            min(int(declared_length), most + 1)
            if declared_length.isdecimal() and len(declared_length) <= _LONGEST_LENGTH
            else None
        )
        if (length or 0) > most:
            raise _too_large_error(most)
        received: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.patience) as time:
                share.start_arrival(time)
                async for part in parts:
                    size += len(part)
                    if size > most:
                        raise _too_large_error(most)
                    share.add(len(part))
                    received.append(part)
        except TimeoutError:
            if share.is_ended:
                raise _out_of_space_error() from None
            message = f"the request was incomplete after {self.patience:g} seconds"
            raise RefusedError(message, HTTPStatus.REQUEST_TIMEOUT) from None
        finally:
            share.end_arrival()
        return b"".join(received)


@dataclass(slots=True, eq=False)
class _ReservedBytes:
    """The bytes of one request that count towards the limit for arriving and pending requests, until it is answered.

    If a stream's share is used up, the request that has been arriving for the longest time is ended. So a sender that
    announces a body and does not send it cannot block others.
    """

    endpoint: Endpoint
    stream: Stream
    size: int = 0
    is_ended: bool = False
    _timeout: asyncio.Timeout | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release_bytes()

    def start_arrival(self, time: asyncio.Timeout) -> None:
        """Record that the request's body is arriving; `time` is its timeout."""
        self._timeout = time
        self.stream.coming[self] = None

    def end_arrival(self) -> None:
        """Record that the body has arrived or was refused."""
        self.stream.coming.pop(self, None)

    def add(self, size: int) -> None:
        """Count more bytes. If the limit is exceeded, end requests that are still arriving, the oldest first.

        Raises RefusedError (503) if that is not enough.
        """
        if self.is_ended:
            raise _out_of_space_error()
        self.size += size
        self.stream.held += size
        share = self.endpoint.max_waiting // len(self.endpoint.streams)
        while self.endpoint.pending_bytes > self.endpoint.max_waiting and self.stream.held > share:
            oldest = next((each for each in self.stream.coming if each is not self and each.size), None)
            if oldest is None:
                raise _out_of_space_error()
            oldest.end()

    def end(self) -> None:
        """End the wait for the body, and release the request's bytes."""
        self.is_ended = True
        self.end_arrival()
        self._release_bytes()
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())

    def _release_bytes(self) -> None:
        self.stream.held -= self.size
        self.size = 0


def _out_of_space_error() -> RefusedError:
    return RefusedError("too many requests wait for the disk; send it again", HTTPStatus.SERVICE_UNAVAILABLE)


_Answer = tuple[int, Mapping[str, Any], Sequence[tuple[str, str]]]
_RETRY = (("retry-after", "1"),)
_TOO_MANY: _Answer = (429, {"error": "too many wrong tokens"}, _RETRY)
_NO_STREAM: _Answer = (404, {"error": "no table collects from here: POST to /connection/stream"}, ())
_NOT_SERVED: _Answer = (421, {"error": "this host name is not served"}, ())


class _DisconnectedError(Exception):
    """Raised if the sender disconnects before its request is complete."""


async def _read_asgi_body(receive: Receive) -> AsyncIterator[bytes]:
    """Yield the parts of an ASGI request body. Raises _DisconnectedError if the sender ends it early."""
    is_more = True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _DisconnectedError
        yield message.get("body", b"")
        is_more = message.get("more_body", False)


async def _read_rsgi_body(headers: Mapping[str, str], protocol: Any) -> AsyncIterator[bytes]:
    """Yield the parts of an RSGI request body. A body with a short declared length is a single part."""
    length = headers.get("content-length", "")
    if length.isdecimal() and len(length) <= _LONGEST_LENGTH and int(length) <= _MOST_PARSED_IN_LOOP:
        yield await protocol()
        return
    async for part in protocol:
        yield part


def _too_large_error(most: int) -> RefusedError:
    return RefusedError(f"the body is larger than {most} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


async def _encode_in_loop(body: bytes, headers: Mapping[str, str], limits: RequestLimits) -> tuple[int, bytes]:
    """Parse a body in the event loop. Return the number of its events, and the bytes to store."""
    return _encode_events(body, headers, limits)


async def _encode_in_thread(body: bytes, headers: Mapping[str, str], limits: RequestLimits) -> tuple[int, bytes]:
    return await asyncio.get_running_loop().run_in_executor(None, _encode_events, body, headers, limits)


def _encode_events(body: bytes, headers: Mapping[str, str], limits: RequestLimits) -> tuple[int, bytes]:
    kept = events_of(decode_body(body, headers.get("content-encoding", "").lower(), limits.max_body))
    key = headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= _LONGEST_KEY:
        raise RefusedError(f"Idempotency-Key has {len(key)} characters: 1 to {_LONGEST_KEY} are allowed")
    stored_headers = {name: headers[name] for name in limits.headers if name in headers} if limits.headers else None
    size = len(json.dumps(stored_headers)) if stored_headers else 0
    if size * len(kept.events) > _MOST_HEADER_BYTES:
        raise RefusedError(
            f"{size} bytes of headers are stored with each of {len(kept.events)} events: send fewer events per request",
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        )
    return len(kept.events), kept.body(key, stored_headers, has_raw=limits.has_raw)
