"""The vault of a life's tokens, read from the engine: a person has one token in all tables, until the erasure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.life.books import Unexpected
from tests.life.declarations import BEHIND, FOREIGN
from tests.life.rows import token_of
from waterclock.storage.lake import vault_folder
from waterclock.storage.token_vault import DIGITS, find_tokens

PERSONS = ("1", "2", "3", "4")


@dataclass
class Vault:
    """The tokens read from the engine: each value has one permanent token. `folder`: of the storage."""

    folder: Path
    persons: dict[str, int] = field(default_factory=dict)
    """The key of the oracle, by token."""
    values: dict[str, str] = field(default_factory=dict)
    """The token, by value."""
    erased: set[str] = field(default_factory=set)

    def key(self, text: str) -> int:
        """Return the key of the oracle that a text represents.

        Raises  Unexpected if it is neither a value nor a token of one, or if the tokens of the vault have changed
        """
        if text == BEHIND:
            return FOREIGN
        if len(text) != DIGITS:
            return int(text)
        if text not in self.persons:
            self.look()
        if text not in self.persons:
            raise Unexpected(f"{text} is not a token of {', '.join(PERSONS)}")
        return self.persons[text]

    def look(self) -> None:
        """Read the vault; verify that no value has a new token, and that no erased one has any."""
        found: Mapping[str, str] = find_tokens(vault_folder(str(self.folder), "person"), PERSONS)
        for value, token in found.items():
            if self.values.setdefault(value, token) != token:
                raise Unexpected(f"{value} has the token {token}, but had {self.values[value]}")
            if value in self.erased:
                raise Unexpected(f"{value} is erased, but has a token")
            if self.persons.setdefault(token, token_of(int(value))) != token_of(int(value)):
                raise Unexpected(f"{value} has the token of another person")
