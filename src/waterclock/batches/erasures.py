"""Defines an erasure of persons, as the ledger records it, and the keyed hash by which their rows are recognised."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

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
