"""The answers of `token`, `session` and `access`: who may do what, and who did."""

from __future__ import annotations

from waterclock.json_models.page_parts import PageAnswer, PagePart
from waterclock.json_models.parts import Answer, AnswerPart, Instant, SortedTexts, TextOrNull


class TokenPart(AnswerPart):
    """An access token, without its value."""

    name: str
    user: str
    """The user whose rights it gives. A right that the user loses is lost for the token, too."""
    rights: SortedTexts
    streams: list[str]
    """The streams of the receiver to which `send` is limited; empty if it is not limited."""
    created_at: Instant
    created_by: str
    until: Instant
    """When it ends."""
    revoked_at: Instant | None
    revoked_by: TextOrNull


class NewTokenAnswer(Answer):
    """JSON output of `token create`: the created token."""

    token: str
    """Its value, which is stored nowhere and is not shown again."""
    created: TokenPart
    """Its other properties."""


class TokensAnswer(Answer):
    """JSON output of `token list`: all tokens, oldest first, also those that have ended."""

    tokens: list[TokenPart]
    """The tokens, without their values."""


class RevokedTokenAnswer(Answer):
    """JSON output of `token revoke`: the revoked token."""

    revoked: str
    """The name of the token."""


class SessionPart(PagePart):
    """A session of a browser."""

    number: int
    who: str
    sign_in: str
    """`owner` for a one-time link or the token of the pages, `token` for an access token, `oidc` for the provider."""
    began_at: Instant
    idle_seconds: float
    """The time since its last request."""
    address: str
    agent: str


class AccessPart(PagePart):
    """A recorded access: what a person did or was refused."""

    at: Instant
    who: str
    """The person, or empty for requests without a valid sign-in."""
    sign_in: str
    action: str
    tables: list[str]
    """The tables that were read or changed, if they are known."""
    query: str | None
    """The SHA-256 of a query's text."""
    address: str
    agent: str
    refusal: str | None
    """Why it was refused; null if it was allowed."""
    times: int
    """The number of equal accesses within a minute."""


class AccessPage(PageAnswer):
    """The sessions of browsers, and the newest accesses."""

    sessions: list[SessionPart]
    accesses: list[AccessPart]


class AccessesAnswer(Answer):
    """JSON output of `access`: the recorded accesses."""

    accesses: list[AccessPart]
    """The accesses, newest first."""


class SessionsAnswer(Answer):
    """JSON output of `session list`: the sessions of the running pages."""

    sessions: list[SessionPart]
    """The sessions, the least recently used first."""


class RevokedSessionsAnswer(Answer):
    """JSON output of `session revoke`: the sessions that were ended."""

    ended: int
    """The number of sessions."""
