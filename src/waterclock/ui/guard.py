"""Keeps out whom a page is not for: other hosts' names, other origins, callers without the token, bodies too large.

Rules: OWASP's cheat sheets on CSRF (source and target origin of what changes something), DNS rebinding (the Host that
was asked for is one of ours) and content security (nothing is loaded from elsewhere, nothing inline runs).
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "waterclock_token"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
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


@dataclass(frozen=True, slots=True)
class Guard:
    """What may come in: for which host names, and with which token; no token is asked for on loopback."""

    hosts: Collection[str] = field(default_factory=lambda: LOOPBACK)
    token: str | None = None

    def refusal(self, request: Request) -> Response | None:
        """Return the answer to what must not come in, None for what may."""
        if _host(request.headers.get("host", "")) not in self.hosts:
            said = "this name is not served here: ask by the address that `waterclock ui` told\n"
            return PlainTextResponse(said, HTTPStatus.MISDIRECTED_REQUEST)
        if request.method not in _SAFE:
            if request.method != "POST":
                return PlainTextResponse(
                    "there is GET and POST\n", HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, POST"}
                )
            if not _is_own(request):
                return PlainTextResponse("only pages of this address may ask for that\n", HTTPStatus.FORBIDDEN)
            is_chunked = "transfer-encoding" in request.headers  # then a length that is said as well does not count
            if is_chunked or not _is_small(request.headers.get("content-length", "")):
                return PlainTextResponse("that is more than a form holds\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return None if self.token is None else self._without_token(request, self.token)

    def _without_token(self, request: Request, token: str) -> Response | None:
        said = request.query_params.get("token")
        if said is not None and request.method in _SAFE and _is_same(said, token):
            kept = RedirectResponse(str(request.url.remove_query_params("token").replace(scheme="", netloc="")) or "/")
            kept.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=request.url.scheme == "https")
            return kept
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if _is_same(bearer, token) or _is_same(request.cookies.get(COOKIE, ""), token):
            return None
        said = "a token is needed: open the address that `waterclock ui` told, or send `Authorization: Bearer`\n"
        return PlainTextResponse(said, HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})


class Guarded:
    """An application behind a guard; every answer carries the headers that bind a browser."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def bound(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_encoded(_HEADERS)]
            await send(message)

        request = Request(scope, receive)
        answer: Callable[[Scope, Receive, Send], Awaitable[None]] = self._guard.refusal(request) or self._app
        await answer(scope, receive, bound)


def _host(said: str) -> str:
    try:
        return urlsplit(f"//{said}").hostname or ""
    except ValueError:
        return ""


def _is_own(request: Request) -> bool:
    """Tell whether a page of ours asks: by its origin, which every browser tells of a POST."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site") == "same-origin"
    try:
        return urlsplit(origin).netloc == request.headers.get("host", "") != ""
    except ValueError:
        return False


def _is_small(length: str) -> bool:
    return length.isascii() and length.isdecimal() and len(length) < 10 and int(length) <= MOST_BYTES


def _is_same(said: str, token: str) -> bool:
    return hmac.compare_digest(said.encode(), token.encode())


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]
