"""Sends browsers to the provider to sign in, and identifies the person when a browser comes back with a code.

A refusal shows no reason to the browser. Administrators find the reason in the recorded accesses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from waterclock.errors import WaterclockError
from waterclock.http.access_tokens import WrongTokens
from waterclock.permissions.users_and_roles import SignIn
from waterclock.ui.browser_sessions import Credential
from waterclock.ui.oidc.attempts import SECONDS, Attempts
from waterclock.ui.oidc.provider import Provider
from waterclock.ui.peers import peer_of

if TYPE_CHECKING:
    from starlette.requests import Request

START, BACK, OUT = "/sign-in/start", "/sign-in/back", "/sign-in/out"
_MOST = 8  # sign-ins that wait for the provider at the same time
_LONGEST = 4096  # characters of a code
_REFUSED = (
    "the sign-in failed: start again at /sign-in. If it fails again, ask an administrator, who sees the reason with "
    "`waterclock access`\n"
)
_UNKNOWN = "you are signed in at the provider, but have no access here: ask an administrator for a role\n"
_ERRORS = frozenset({
    "access_denied", "invalid_request", "invalid_scope", "unauthorized_client", "unsupported_response_type",
    "server_error", "temporarily_unavailable", "interaction_required", "login_required", "consent_required",
    "account_selection_required",
})  # fmt: skip
T = TypeVar("T")


class RefusedSignIn(PlainTextResponse):
    """The response to a sign-in that failed; `reason` is for administrators and is not sent."""

    def __init__(self, reason: str, status: HTTPStatus = HTTPStatus.FORBIDDEN, message: str = _REFUSED) -> None:
        super().__init__(message, status, {"Cache-Control": "no-store"})
        self.reason = reason


class _TooManyWait(Exception):
    """As many requests as are allowed wait for the provider."""


@dataclass(slots=True)
class ProviderSignIn:
    """Answers the requests of a sign-in at a provider: its start, its end, and the sign-out.

    `place` is the server's port, which is part of the cookie's name, as for sessions.
    """

    place: str
    wrong: WrongTokens = field(default_factory=WrongTokens)
    attempts: Attempts = field(default_factory=Attempts)
    _threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_MOST))
    _waiting: int = 0

    @property
    def cookie(self) -> str:
        """The name of the cookie that binds an attempt to its browser."""
        return f"waterclock_sign_in_{self.place}" if self.place.isdecimal() else "waterclock_sign_in"

    async def answer(self, request: Request, provider: Provider | None) -> Response | Credential:
        """Return the response to a request of a sign-in, or the credential of a person who has signed in."""
        if provider is None or request.method != "GET":
            return RefusedSignIn("the project declares no provider", HTTPStatus.NOT_FOUND)
        try:
            if request.url.path == OUT:
                address = await self._ask(provider.address_to_sign_out)
                return RedirectResponse(address or "/sign-in", HTTPStatus.SEE_OTHER)
            return await (self._start if request.url.path == START else self._finish)(request, provider)
        except _TooManyWait:
            return RefusedSignIn("too many sign-ins wait for the provider", HTTPStatus.TOO_MANY_REQUESTS)
        except WaterclockError as error:
            await self.wrong.delay()
            reason = ". ".join(filter(None, (f"{error.code} {error.what}", error.why, error.fix)))
            return RefusedSignIn(reason)

    async def _start(self, request: Request, provider: Provider) -> Response:
        attempt = self.attempts.start(peer_of(request.scope))
        address = await self._ask(
            lambda: provider.address_to_sign_in(
                state=attempt.state, nonce=attempt.nonce, challenge=attempt.challenge, redirect=_redirect_of(request)
            )
        )
        answer = RedirectResponse(address, HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"})
        # Lax: the browser comes back by a link of the provider's site, with which a strict cookie is not sent
        answer.set_cookie(
            self.cookie, attempt.cookie, max_age=SECONDS, path="/sign-in", httponly=True, samesite="lax",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        return answer

    async def _finish(self, request: Request, provider: Provider) -> Response | Credential:
        sent = request.query_params
        cookie = request.cookies.get(self.cookie, "")
        attempt = self.attempts.accept(cookie, sent.get("state", ""), peer_of(request.scope))
        if attempt is None:
            await self.wrong.delay()
            return RefusedSignIn(
                "the answer is not for a sign-in that this browser started within ten minutes, or is old"
            )
        await self._ask(lambda: provider.require_issuer(sent.get("iss")))
        if "error" in sent:
            error = sent["error"] if sent["error"] in _ERRORS else "an unknown error"
            return RefusedSignIn(f"the provider answered {error}")
        code = sent.get("code", "")
        if not 0 < len(code) <= _LONGEST:
            return RefusedSignIn("the answer of the provider has no code")
        found = await self._ask(
            lambda: provider.identify(
                code, verifier=attempt.verifier, nonce=attempt.nonce, redirect=_redirect_of(request)
            )
        )
        return Credential(
            SignIn.OIDC, issuer=provider.settings.issuer, user=found.name, groups=found.groups, claims=found.claims
        )

    async def _ask(self, request: Callable[[], T]) -> T:
        """Call a function that waits for the provider in a separate thread, so that a slow provider stops no page.

        Only these calls are limited: a request that is delayed for its wrong answer takes no place of another one.
        """
        if self._waiting >= _MOST:
            raise _TooManyWait
        self._waiting += 1
        try:
            return await to_thread.run_sync(request, limiter=self._threads)
        finally:
            self._waiting -= 1


def refuse_unknown(credential: Credential) -> RefusedSignIn:
    """Return the response for a person who has signed in at the provider, but has no access here."""
    reason = f"{credential.user} is no declared user, and is in no group of group_roles"
    return RefusedSignIn(reason, message=_UNKNOWN)


def _redirect_of(request: Request) -> str:
    """Return the address to which the provider sends the browser: at the host that the guard has accepted."""
    return f"{request.url.scheme}://{request.headers['host']}{BACK}"
