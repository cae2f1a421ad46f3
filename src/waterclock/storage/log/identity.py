"""Writes and reads the metadata that identifies our commits: the claim's id, and the identity in `userMetadata`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from waterclock.errors import WaterclockError

KEY = "waterclock"
_KILL = "kill"
_UNKNOWN = "unknown"
# empty commits by which a new log continues above the versions of one that was lost
RECREATED = "recreate"
# commits by which a table is reset: one removes all its content, the next adds columns
RESET = "reset"


@dataclass(frozen=True, slots=True)
class Identity:
    """Describes the origin of a commit, in values that JSON can store.

    Labels are texts, `inputs` are as the ledger recorded them, and `slices` are paths.

    `slices` are those of `labels`, in their order. `newest_label` is the table's newest label after the commit.
    `stands_from` is the start of the period that a snapshot stands for (ISO). `dropped_before` is the instant before
    which windows stay dropped in a table that `rebuild --all` cut anew (ISO). `known_version` is the version after
    which commits of other writers are refused; None accepts them. It is not written.
    """

    project: str
    table: str
    kind: str
    labels: tuple[str, ...]
    newest_label: str
    claim: int
    code: str
    inputs: tuple[Any, ...] = ()
    slices: tuple[Any, ...] = ()
    stands_from: str | None = None
    dropped_before: str | None = None
    known_version: int | None = field(default=None, compare=False)

    @classmethod
    def for_kill(cls, claim: int, *, project: str) -> Identity:
        """Return the identity of a commit that kills a claim."""
        return cls(project, "", _KILL, (), "", claim, "")

    @classmethod
    def unknown(cls, claim: int) -> Identity:
        """Return the identity of a commit that has only the claim's id. Such a commit is assumed to contain data."""
        return cls("", "", _UNKNOWN, (), "", claim, "")

    @property
    def outcome(self) -> str:
        """Return the outcome of the claim: 'killed' for a commit that kills its claim, 'data' for any other commit."""
        return "killed" if self.kind == _KILL else "data"

    def to_json(self) -> str:
        """Return the text of `userMetadata`."""
        unwritten = {"known_version"} if self.dropped_before else {"known_version", "dropped_before"}
        fields = {name: value for name, value in asdict(self).items() if name not in unwritten}
        return json.dumps({KEY: fields}, separators=(",", ":"), default=str)


class ClaimKilledError(WaterclockError):
    """Raised if the claim was killed before its data was committed. None of its data may be committed then."""

    def __init__(self, claim: int, *, where: str | None = None) -> None:
        super().__init__(
            "E630",
            f"claim {claim} was killed before its commit",
            where=where,
            why="another runner took the claim over and killed it first",
            fix="take a new claim for the batch",
        )
        self.claim = claim


def app_id(claim: int) -> str:
    """Return the `txnAppId` of a claim's commit; its version is always 1 (docs/decisions/first-commit-wins.md)."""
    return f"{KEY}:{claim}"


def identity_in(commit_info: Mapping[str, Any]) -> Identity | None:
    """Read the identity from a commit's info. Return None if it is not a commit of Waterclock."""
    try:
        fields = json.loads(commit_info.get("userMetadata") or "null")[KEY]
        parts: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
        }
        found = Identity(**parts)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None
    return found if _is_well_formed(found) else None


def _is_well_formed(found: Any) -> bool:
    """Return whether the fields that were read have their declared types. Other programs may write any value."""
    if not isinstance(found.labels, tuple):
        return False
    texts = (found.project, found.table, found.kind, found.newest_label, found.code, *found.labels)
    has_times = all(time is None or isinstance(time, str) for time in (found.stands_from, found.dropped_before))
    return type(found.claim) is int and has_times and all(isinstance(text, str) for text in texts)
