"""Defines access tokens and recorded accesses, as the ledger stores them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from waterclock.permissions.users_and_roles import Right, expand_rights


@dataclass(frozen=True, slots=True)
class AccessToken:
    """An access token without its value: its user, the most rights that it can grant, and its end.

    `digest` is a hash of the value, which is stored nowhere. `streams`: the only streams to which it may send events,
    if it is limited to some.
    """

    name: str
    digest: str
    user: str
    rights: frozenset[Right]
    created_at: datetime
    created_by: str
    until: datetime
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    streams: tuple[str, ...] = ()

    def may_send_to(self, stream: str) -> bool:
        """Return whether the token allows sending events to a stream. Its user needs that right too."""
        return Right.SEND in expand_rights(self.rights) and (not self.streams or stream in self.streams)

    def is_valid_at(self, now: datetime) -> bool:
        """Return whether the token is accepted at an instant: before its end, and not revoked."""
        return self.revoked_at is None and now < self.until


@dataclass(frozen=True, slots=True)
class Access:
    """An action of a person that was allowed or refused: who, what, when, from where.

    `who` and `sign_in` are "" for a request without a valid sign-in. `query` is the digest of a query's text. `refusal`
    is the reason of a refused access, None for an allowed one. Equal accesses within a minute are recorded once, with
    their number in `times`.
    """

    who: str
    sign_in: str
    action: str
    tables: tuple[str, ...] = ()
    query: str | None = None
    address: str = ""
    agent: str = ""
    refusal: str | None = None
    times: int = 1
    at: datetime | None = None
