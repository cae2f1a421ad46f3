"""Rejects requests for other host names, from other origins, without a token or session, or with large bodies.

The rules follow OWASP's cheat sheets:

- CSRF: check the source and target origin of changing requests.
- DNS rebinding: accept only our own names in Host.
- Content security: load nothing from elsewhere, run no inline code.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from waterclock.batches.access import Access
from waterclock.errors import WaterclockError
from waterclock.http.access_tokens import WrongTokens, bearer_of, is_same
from waterclock.http.served_hosts import ServedHosts
from waterclock.permissions.access_tokens import digest_of_token
from waterclock.permissions.users_and_roles import Person, SignIn
from waterclock.printable import printable_line
from waterclock.ui.browser_sessions import BrowserSessions, Credential
from waterclock.ui.guarded_routes import PERSON
from waterclock.ui.oidc.sign_in import BACK, OUT, START, ProviderSignIn, RefusedSignIn, refuse_unknown
from waterclock.ui.one_time_links import OneTimeLinks
from waterclock.ui.peers import peer_of
from waterclock.ui.people import People
from waterclock.ui.posted_forms import MULTIPART

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LINK = "link"
SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
MOST_BYTES = 64 * 1024
MOST_BYTES_OF_ROWS = 8 << 20  # pasted into a form, or edited in its list
MOST_BYTES_OF_FILE = 50 << 20  # uploaded to a form, or rows that were uploaded and are reviewed
MOST_AGENT = 200
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
_UNAUTHORIZED = (
    "open a link that `waterclock ui --link` prints, sign in with a token at /sign-in, or send `Authorization: Bearer` "
    "with the token\n"
)
_NO_LEDGER = "the ledger does not answer now, so that no token can be checked\n"
_USED_LINK = "this link was used, or is older than an hour: `waterclock ui --link` prints another\n"
_FORM = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Sign in · Waterclock</title>
<h1>Sign in</h1>{provider}<form method="post"><label for="token">Access token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Sign in</button></form></html>
"""
_PROVIDER = """<p><a href="/sign-in/start">Sign in at {host}</a></p>
"""
_SIGNED_OUT = """<p>You are signed out here. <a href="/sign-in/out">Sign out at {host}, too</a></p>
"""
# on a redirect from another site's link, the browser would not send the strict cookie: this page reloads by itself
_CONTINUE_PAGE = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><a href="/">Continue</a>\n'
)


def new_token() -> str:
    """Return a random token that cannot be guessed."""
    return secrets.token_urlsafe(24)


@dataclass(slots=True)
class Guard:
    """Accepts requests with a token, or with the session of a browser that has signed in.

    `place` is the server's port or the path of a Unix socket. The cookie's name contains the port, because browsers
    send cookies to all ports of a host. For the same reason, a session is only for the peer that began it.
    """

    token: str = field(default_factory=new_token, repr=False)
    hosts: ServedHosts = field(default_factory=ServedHosts)
    place: str = ""
    wrong: WrongTokens = field(default_factory=WrongTokens)
    sessions: BrowserSessions = field(default_factory=BrowserSessions)
    links: OneTimeLinks = field(init=False, repr=False)
    provider: ProviderSignIn = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.provider = ProviderSignIn(self.place, self.wrong)
        self.links = OneTimeLinks(self.token, self.place)

    @property
    def cookie(self) -> str:
        """The name of the session's cookie."""
        return f"waterclock_session_{self.place}" if self.place.isdecimal() else "waterclock_session"

    async def admit(self, request: Request, people: People) -> Response | Person:
        """Return the person who sends a request, or the response to a sign-in or to a request that is refused."""
        if not self.hosts.allows(request.headers.get("host", "")):
            message = "this host name is not served here: use the address that `waterclock ui` printed\n"
            return PlainTextResponse(message, HTTPStatus.MISDIRECTED_REQUEST)
        if request.method not in _SAFE and (refusal := _refuse_change(request)) is not None:
            return refusal
        try:
            return await self._identify(request, people)
        except WaterclockError:  # the session remains, and the next request looks it up again
            return PlainTextResponse(_NO_LEDGER, HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "5"})

    async def _identify(self, request: Request, people: People) -> Response | Person:
        cookie = request.cookies.get(self.cookie, "")
        session = self.sessions.find(cookie, lambda: peer_of(request.scope))
        person = None if session is None else await people.find(session.credential)
        if session is not None and person is None:  # the user or the token is no longer valid
            self.sessions.end(cookie)
        if request.method == "GET" and LINK in request.query_params:  # programs that preview a link send HEAD
            return await self._open_link(request, people, is_signed_in=person is not None)
        if request.url.path == SIGN_IN:
            return await self._sign_in(request, people)
        if request.url.path in {START, BACK, OUT}:
            return await self._sign_in_at_provider(request, people)
        if request.url.path == SIGN_OUT and request.method == "POST":
            if session is not None:
                self.sessions.end(cookie)
            return await self._sign_out(request, people, person)
        return person or await self._identify_bearer(request, people)

    async def _open_link(self, request: Request, people: People, *, is_signed_in: bool) -> Response:
        if is_signed_in:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        if self.links.accept(request.query_params[LINK]):
            await people.record(access_of(request, people.owner, "sign in with a link"))
            return self._start_session(request, Credential(), people.owner.name)
        return await self._refuse_token(_USED_LINK)

    async def _identify_bearer(self, request: Request, people: People) -> Response | Person:
        sent = bearer_of(request.headers.get("authorization", ""))
        if sent is None:
            is_browser = request.method == "GET" and "text/html" in request.headers.get("accept", "")
            if is_browser and await run_in_threadpool(people.provider) is not None:
                return RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
            return _unauthorized_response(_UNAUTHORIZED)
        found = self._credential_of(sent)
        return (found and await people.find(found)) or await self._refuse_token(_UNAUTHORIZED)

    async def _sign_out(self, request: Request, people: People, person: Person | None) -> Response:
        if person is not None:
            await people.record(access_of(request, person, "sign out"))
        is_of_provider = person is not None and person.sign_in is SignIn.OIDC
        answer = RedirectResponse(f"{SIGN_IN}?out" if is_of_provider else SIGN_IN, HTTPStatus.SEE_OTHER)
        answer.delete_cookie(self.cookie)
        return answer

    async def _sign_in(self, request: Request, people: People) -> Response:
        """Show the form for a token, or start a session for the token that was sent with it."""
        if request.method != "POST":
            provider = await run_in_threadpool(people.provider)
            shown = "" if provider is None else _PROVIDER + (_SIGNED_OUT if "out" in request.query_params else "")
            shown = shown.format(host="" if provider is None else escape(provider.host))
            return HTMLResponse(_FORM.format(provider=shown), headers={"Cache-Control": "no-store"})
        try:
            sent = dict(parse_qsl((await request.body()).decode(), max_num_fields=5)).get("token", "").strip()
        except (ClientDisconnect, ValueError):
            return PlainTextResponse("the form cannot be read\n", HTTPStatus.BAD_REQUEST)
        found = self._credential_of(sent)
        person = None if found is None else await people.find(found)
        if found is None or person is None:
            return await self._refuse_token(_UNAUTHORIZED)
        await people.record(access_of(request, person, "sign in with a token"))
        return self._start_session(request, found, person.name)

    async def _sign_in_at_provider(self, request: Request, people: People) -> Response:
        """Redirect a browser to the provider, or start a session for the person whom the provider has identified."""
        found = await self.provider.answer(request, await run_in_threadpool(people.provider))
        if isinstance(found, Response):
            return found
        person = await people.find(found)
        if person is None:
            return refuse_unknown(found)
        await people.record(access_of(request, person, "sign in at the provider"))
        answer = self._start_session(request, found, person.name)
        answer.delete_cookie(self.provider.cookie, path=SIGN_IN)
        return answer

    def _credential_of(self, sent: str) -> Credential | None:
        """Return the credential of a token, or None if the text cannot be a token."""
        if is_same(sent, self.token):
            return Credential()
        digest = digest_of_token(sent)
        return None if digest is None else Credential(SignIn.TOKEN, digest)

    def _start_session(self, request: Request, credential: Credential, who: str) -> Response:
        """Start a session and redirect the browser to the first page, never to a location from the request."""
        is_linked = request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}
        answer = HTMLResponse(_CONTINUE_PAGE) if is_linked else RedirectResponse("/", HTTPStatus.SEE_OTHER)
        peer = peer_of(request.scope)
        value = self.sessions.begin(
            credential, who=who, address=address_of(request), agent=agent_of(request), peer=peer
        )
        answer.set_cookie(self.cookie, value, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        answer.headers["Cache-Control"] = "no-store"
        return answer

    async def _refuse_token(self, message: str) -> Response:
        if await self.wrong.delay():
            return _unauthorized_response(message)
        return PlainTextResponse("too many wrong tokens\n", HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": "1"})


class GuardedApplication:
    """An ASGI application that passes only admitted requests on, and adds security headers to every response."""

    def __init__(self, app: ASGIApp, guard: Guard, people: People) -> None:
        self._app = app
        self._guard = guard
        self._people = people

    def close(self) -> None:
        """Write the counted accesses that are not recorded yet. Call it before the server ends."""
        with suppress(WaterclockError):
            self._people.log.flush()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_encode_headers(_HEADERS)]
            await send(message)

        admitted = await self._guard.admit(Request(scope, receive), self._people)
        if isinstance(admitted, Response):
            if admitted.status_code >= HTTPStatus.BAD_REQUEST:
                admitted.headers["Connection"] = "close"  # rejected clients keep no connection
                # without the address and the path, so that a flood of requests becomes one record
                why = bytes(admitted.body).decode().strip()
                refused = Access("", "", f"a {scope['method'][:10]} request", refusal=why)
                if isinstance(admitted, RefusedSignIn):
                    where = address_of(Request(scope))
                    refused = Access("", SignIn.OIDC, "sign in at the provider", address=where, refusal=admitted.reason)
                await self._people.count(refused)
            await admitted(scope, receive, send_with_headers)
            return
        scope["state"] = {**scope.get("state", {}), PERSON: admitted}
        await self._app(scope, receive, send_with_headers)


def access_of(request: Request, person: Person, action: str) -> Access:
    """Build the access record for a person's request."""
    return Access(person.name, person.sign_in, action, address=address_of(request), agent=agent_of(request))


def address_of(request: Request) -> str:
    """Return the address of the client, or "" for one at a Unix socket.

    A proxy can pass on any text that its client sent. If it is not an IP address, `not an address` is recorded.
    """
    host = request.client.host if request.client is not None else ""
    try:
        return str(ip_address(host)) if host else ""
    except ValueError:
        return "not an address"


def agent_of(request: Request) -> str:
    """Return the User-Agent of the client, cut to MOST_AGENT characters."""
    return printable_line(request.headers.get("user-agent", ""))[:MOST_AGENT]


def _refuse_change(request: Request) -> Response | None:
    """Return None for an acceptable change, or the response that rejects it.

    A change must be a POST from one of our pages, with a small body.
    """
    if request.method != "POST":
        return PlainTextResponse(
            "the methods are GET and POST\n", HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, POST"}
        )
    if not _is_from_own_page(request):
        return PlainTextResponse("only pages of this address may send this request\n", HTTPStatus.FORBIDDEN)
    is_chunked = "transfer-encoding" in request.headers  # a length header does not count then
    if is_chunked or not _is_small_length(request.headers.get("content-length", ""), _most_bytes_of(request)):
        return PlainTextResponse("the form is too large\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return None


def _most_bytes_of(request: Request) -> int:
    """Return the maximum size of a posted body. Only a form of rows that a page sends may have a file."""
    path = request.url.path
    if not path.startswith("/forms/") or not path.endswith(("/paste", "/cells")):
        return MOST_BYTES
    has_file = path.endswith("/paste") and request.headers.get("content-type", "").lower().startswith(MULTIPART)
    return MOST_BYTES_OF_FILE if has_file else MOST_BYTES_OF_ROWS


def _unauthorized_response(message: str) -> Response:
    return PlainTextResponse(message, HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})


def _is_from_own_page(request: Request) -> bool:
    """Return whether the request comes from one of our pages, by its origin, which every browser sends with a POST."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site") == "same-origin"
    try:
        scheme, netloc = urlsplit(origin)[:2]
        # an attacker on the network can change a page that is served by HTTP, but none that is served by HTTPS
        is_as_safe = scheme == "https" or (scheme == "http" and request.url.scheme != "https")
        return is_as_safe and netloc == request.headers.get("host", "") != ""
    except ValueError:
        return False


def _is_small_length(length: str, most: int) -> bool:
    return length.isascii() and length.isdecimal() and len(length) < 10 and int(length) <= most


def _encode_headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]
