"""Finds the person who sends a request, with the rights that they have now."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from waterclock.batches.access import Access
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.flow.table_visibility import is_restricted
from waterclock.ledger.ledger import Ledger
from waterclock.operations.access_records import AccessLog
from waterclock.operations.token_cache import AccessTokenCache
from waterclock.permissions.users_and_roles import AccessRules, Person, SignIn, owner
from waterclock.secrets.reader import Secrets
from waterclock.ui.browser_sessions import Credential
from waterclock.ui.live_project import LiveProject
from waterclock.ui.oidc.provider import Provider

_PAGES_WITH_GRANTS = {"/query", "/forms"}
"""Pages that show only granted rows. All other pages are closed to people who do not see all tables."""
_FORMS = "/forms/"
"""The beginning of the addresses of forms, which show only granted rows as well."""
_PAGES_WITHOUT_TABLES = {"/openapi"}


@dataclass(slots=True)
class People:
    """The people of a project: its owner, who started the server, and its declared users with their current rights."""

    live: LiveProject
    log: AccessLog = field(init=False)
    owner: Person = field(default_factory=lambda: owner(RunSettings().who))
    _flow: Flow | None = None
    _provider: Provider | None = None
    _tokens: AccessTokenCache = field(init=False)

    def __post_init__(self) -> None:
        self.log, self._tokens = AccessLog(self.live.ledger), AccessTokenCache(self._ledger)

    def _ledger(self) -> Ledger | None:
        return self.live.ledger()

    async def record(self, access: Access) -> None:
        """Record an access. Errors of the ledger are ignored."""
        with suppress(WaterclockError):
            await run_in_threadpool(self.log.record, access)

    async def count(self, access: Access) -> None:
        """Record an access, or only count it if there were equal ones within a minute."""
        if due := self.log.count(access):
            with suppress(WaterclockError):
                await run_in_threadpool(self.log.write, due)

    def rules(self) -> AccessRules:
        """Return the users that the project file declares now."""
        return self.live.access()[0]

    def find_requirement(self, path: str) -> Callable[[Person], None] | None:
        """Return the check that a person may see all that a page shows, or None if the page shows no tables."""
        page = path.partition(".")[0]
        if page in _PAGES_WITHOUT_TABLES:
            return None
        is_granted = page in _PAGES_WITH_GRANTS or path.startswith(_FORMS)
        return self.require_declarations if is_granted else self.require_all_tables

    def require_declarations(self, person: Person) -> None:
        """While the project has errors, raise E946 as `require_all_tables` does: errors quote the declarations."""
        if not self._has_errors():
            return
        self.require_all_tables(person)

    def _has_errors(self) -> bool:
        try:
            self._flow = self.live.project().flow
        except (WaterclockError, OSError):  # reported by the pages
            return True
        return False

    def require_all_tables(self, person: Person) -> None:
        """Raise E946 for a person who does not see all tables as a whole, and while the grants are not known."""
        self._has_errors()
        if self._flow is not None and not is_restricted(self._flow, person):
            return
        raise WaterclockError(
            "E946",
            f"this page is only for users who may read all tables, and {person.name} may not",
            why="it could show rows, statistics or error messages of tables that are not granted"
            if self._flow is not None
            else "the project has errors, so it is not known which tables are granted",
            fix="use the page of queries, /query, or the forms, /forms; "
            "or ask an administrator for a GRANT of all tables",
        )

    def provider(self) -> Provider | None:
        """Return the identity provider as it is declared now, or None if none is declared."""
        settings = self.rules().oidc
        if settings is None:
            return None
        found = self._provider
        if found is None or found.settings != settings:
            found = self._provider = Provider(settings, self._read_secret)
        return found

    def _read_secret(self, name: str) -> str:
        places = self.live.access()[1]
        if places is None:
            raise WaterclockError(
                "E225",
                f"secret {name} does not resolve",
                why="the project file cannot be read",
                fix="correct the errors that `waterclock check` lists, then sign in again",
            )
        return Secrets.from_places(places).read(name)

    async def find(self, credential: Credential) -> Person | None:
        """Return the person with a credential; None if the token is no longer valid or the user no longer declared.

        Raises E415 to E425 if the ledger does not answer, so that a token cannot be checked.
        """
        if credential.sign_in is SignIn.OWNER:
            return self.owner
        if credential.sign_in is SignIn.OIDC:
            rules = await run_in_threadpool(self.rules)
            return rules.person_of_provider(credential.issuer, credential.user, credential.groups, credential.claims)
        return await run_in_threadpool(self._find_by_token, credential.digest)

    def _find_by_token(self, digest: str) -> Person | None:
        token = self._tokens.find(digest)
        if token is None:
            return None
        return self.rules().person(token.user, SignIn.TOKEN, scope=token.rights, token=token.name)
