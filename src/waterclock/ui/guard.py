"""Rejects unauthorized requests: for other host names, from other origins, without the token, or with large bodies.

The rules follow OWASP's cheat sheets:

- CSRF: check the source and target origin of changing requests.
- DNS rebinding: accept only our own names in Host.
- Content security: load nothing from elsewhere, run no inline code.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from waterclock.http.access_tokens import WrongTokens, bearer_of, is_same
from waterclock.http.served_hosts import ServedHosts
from waterclock.ui.browser_sessions import BrowserSessions
from waterclock.ui.one_time_links import OneTimeLinks
from waterclock.ui.peers import peer_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LINK = "link"
MOST_BYTES = 64 * 1024
_SAFE = frozenset({"GET", "HEAD"})
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_NO_TOKEN = "open a link that `waterclock ui --link` prints, or send `Authorization: Bearer` with the token\n"  # noqa: S105 - words
_USED_LINK = "this link was used, or is older than an hour: `waterclock ui --link` prints another\n"
# on a redirect from another site's link, the browser would not send the strict cookie: this page reloads by itself
_GO_ON = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><a href="/">Continue</a>\n'


def new_token() -> str:
    """Return a random token that cannot be guessed."""
    return secrets.token_urlsafe(24)


@dataclass(slots=True)
class Guard:
    """Accepts requests with the token, or with the session of a browser that opened a one-time link.

    `place` is the server's port or the path of a Unix socket. The cookie's name contains the port, because browsers
    send cookies to all ports of a host. For the same reason, a session is only for the peer that opened the link.
    """

    token: str = field(default_factory=new_token, repr=False)
    hosts: ServedHosts = field(default_factory=ServedHosts)
    place: str = ""
    wrong: WrongTokens = field(default_factory=WrongTokens)
    sessions: BrowserSessions = field(default_factory=BrowserSessions)
    links: OneTimeLinks = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.links = OneTimeLinks(self.token, self.place)

    @property
    def cookie(self) -> str:
        """The name of the session's cookie."""
        return f"waterclock_session_{self.place}" if self.place.isdecimal() else "waterclock_session"

    async def refusal(self, request: Request) -> Response | None:
        """Return the response for a rejected request, or None if the request is accepted."""
        if not self.hosts.allows(request.headers.get("host", "")):
            said = "this host name is not served here: use the address that `waterclock ui` printed\n"
            return PlainTextResponse(said, HTTPStatus.MISDIRECTED_REQUEST)
        if request.method not in _SAFE:
            if request.method != "POST":
                return PlainTextResponse(
                    "the methods are GET and POST\n", HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, POST"}
                )
            if not _is_own(request):
                return PlainTextResponse("only pages of this address may send this request\n", HTTPStatus.FORBIDDEN)
            is_chunked = "transfer-encoding" in request.headers  # a length header does not count then
            if is_chunked or not _is_small(request.headers.get("content-length", "")):
                return PlainTextResponse("the form is too large\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return await self._authorize_without_token(request)

    async def _authorize_without_token(self, request: Request) -> Response | None:
        value = request.cookies.get(self.cookie, "")
        has_session = self.sessions.has_session(value, lambda: peer_of(request.scope))
        code = request.query_params.get(LINK)
        if code is not None and request.method == "GET":  # programs that preview a link send HEAD
            if has_session:
                return RedirectResponse("/", HTTPStatus.SEE_OTHER)
            if self.links.accept(code):
                return self._start_session(request)
            return await self._wrong(_USED_LINK)
        if has_session:
            return None
        sent = bearer_of(request.headers.get("authorization", ""))
        if sent is None:
            return _unauthorized_response(_NO_TOKEN)
        return None if is_same(sent, self.token) else await self._wrong(_NO_TOKEN)

    def _start_session(self, request: Request) -> Response:
        """Start a session. The browser is sent to the first page, never to a location from the address."""
        is_linked = request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}
        answer = HTMLResponse(_GO_ON) if is_linked else RedirectResponse("/", HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            self.cookie,
            self.sessions.begin(peer_of(request.scope)),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        answer.headers["Cache-Control"] = "no-store"
        return answer

    async def _wrong(self, said: str) -> Response:
        if await self.wrong.delay():
            return _unauthorized_response(said)
        return PlainTextResponse("too many wrong tokens\n", HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": "1"})


class Guarded:
    """An application behind a guard. Every response has the security headers for browsers."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_encode_headers(_HEADERS)]
            await send(message)

        refusal = await self._guard.refusal(Request(scope, receive))
        if refusal is not None and refusal.status_code >= HTTPStatus.BAD_REQUEST:
            refusal.headers["Connection"] = "close"  # rejected clients keep no connection
        answer: Callable[[Scope, Receive, Send], Awaitable[None]] = refusal or self._app
        await answer(scope, receive, send_with_headers)


def _unauthorized_response(said: str) -> Response:
    return PlainTextResponse(said, HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})


def _is_own(request: Request) -> bool:
    """Return whether the request comes from one of our pages, by its origin, which every browser sends with a POST."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site") == "same-origin"
    try:
        scheme, netloc = urlsplit(origin)[:2]
        return scheme in {"http", "https"} and netloc == request.headers.get("host", "") != ""
    except ValueError:
        return False


def _is_small(length: str) -> bool:
    return length.isascii() and length.isdecimal() and len(length) < 10 and int(length) <= MOST_BYTES


def _encode_headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]
