"""Checks the access tokens of clients that send events, and records accepted and refused accesses."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field

from anyio import to_thread

from waterclock.batches.access import Access
from waterclock.connectors.receiver.endpoint import SendPermission
from waterclock.dpl.project import Project
from waterclock.engine.ledger_opening import open_ledger
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.operations.access_records import AccessLog
from waterclock.operations.token_cache import AccessTokenCache
from waterclock.permissions.access_tokens import digest_of_token
from waterclock.permissions.users_and_roles import AccessRules, Right, SignIn

_TO_ALL = frozenset({SendPermission.HERE, SendPermission.EVERYWHERE})


def has_senders(rules: AccessRules) -> bool:
    """Return whether any declared user may send events."""
    return any(Right.SEND in user.rights for user in rules.users.values())


@dataclass(slots=True)
class Senders:
    """Checks which tokens may send events to a stream. Users are those declared when the receiver started."""

    project: Project
    log: AccessLog = field(init=False)
    tokens: AccessTokenCache = field(init=False)
    _ledger: Ledger | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.log, self.tokens = AccessLog(self._open), AccessTokenCache(self._open)

    async def check(self, sent: str, stream: str, address: str) -> SendPermission:
        """Return whether an access token may send to a stream, and record it."""
        return await to_thread.run_sync(self._check, sent, stream, address)

    def close(self) -> None:
        """Write the accesses that are counted but not recorded yet, and close the ledger."""
        with suppress(WaterclockError):
            self.log.flush()
        if self._ledger is not None:
            self._ledger.close()

    def _check(self, sent: str, stream: str, address: str) -> SendPermission:
        digest = digest_of_token(sent)
        try:
            token = None if digest is None else self.tokens.find(digest)
        except WaterclockError:
            return SendPermission.NOT_KNOWN
        if token is None:
            self._count(Access("", "", "send events", address=address, refusal="wrong token"))
            return SendPermission.WRONG
        user = self.project.access.person(token.user, SignIn.TOKEN, scope=token.rights, token=token.name)
        may = user is not None and user.may(Right.SEND) and token.may_send_to(stream)
        found = (
            SendPermission.ELSEWHERE if not may else SendPermission.HERE if token.streams else SendPermission.EVERYWHERE
        )
        refusal = None if found in _TO_ALL else f"the token {token.name} or its user may not send there"
        self._count(Access(token.user, SignIn.TOKEN, f"send to {stream}", address=address, refusal=refusal))
        return found

    def _count(self, access: Access) -> None:
        """Count an access. Equal ones within a minute are recorded as one. Errors of the ledger do not stop events."""
        with suppress(WaterclockError):
            self.log.write(self.log.count(access))

    def _open(self) -> Ledger | None:
        with self._lock:
            if self._ledger is None:
                self._ledger = open_ledger(self.project)
            return self._ledger
