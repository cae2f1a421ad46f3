"""Defines an erasure of persons, as the ledger records it, and the keyed hash by which their rows are recognised."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

ERASED = "(erased)"
"""The text that replaces a person's value in a text."""
DISTINCTIVE = 6
"""The fewest characters of a value that is no other number or word by chance."""
SEPARATOR = "/"
"""Separates subject and value in a hashed text. A subject's name cannot contain it."""
COLUMNS = "columns of "
"""The beginning of the name of a step that records the searched columns of a table."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure. `key` names the secret key of `hashes`, as in `pii/2026`. `steps` maps finished steps to results.

    `finished_at` is None until nothing is left to erase.
    """

    number: int
    subject: str
    key: str
    who: str
    why: str
    at: datetime
    hashes: frozenset[str] = field(repr=False)
    finished_at: datetime | None = None
    steps: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Map each table to its columns of the subject as they were declared when the persons were erased."""
        found = {step: result for step, result in self.steps.items() if step.startswith(COLUMNS)}
        return {step.removeprefix(COLUMNS): tuple(result["columns"]) for step, result in found.items()}


def hash_of(key: bytes, subject: str, value: str) -> str:
    """Return the hash of a person's value: HMAC-SHA256 in hexadecimal digits, as `hash_keyed` computes it in Spark."""
    return hmac.new(key, f"{subject}{SEPARATOR}{value}".encode(), sha256).hexdigest()


def value_pattern(values: Iterable[str]) -> re.Pattern[str] | None:
    """Return the pattern that finds values of persons in a text as whole words. None without values."""
    longest_first = sorted(values, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)") if longest_first else None
