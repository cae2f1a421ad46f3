"""Writes and reads what a commit says of itself: the claim's id, and the identity in its `userMetadata`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from waterclock.errors import WaterclockError

KEY = "waterclock"
_KILL = "kill"
_UNKNOWN = "unknown"
# the commits of nothing by which a new log goes on above the versions of one that was lost
RECREATED = "recreate"
# the commits by which a table is started over: one takes all that it has, the next gives it columns
RESET = "reset"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who committed what: labels as text, `inputs` as the ledger pinned them, `slices` as paths; all JSON.

    `slices` are those of `labels`, in their order. `newest_label` is the label at which the commit leaves the table.
    `stands_from` says from when on a snapshot stands, in ISO.
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

    @classmethod
    def of_kill(cls, claim: int, *, project: str) -> Identity:
        """Return the identity of a commit that kills a claim."""
        return cls(project, "", _KILL, (), "", claim, "")

    @classmethod
    def unknown(cls, claim: int) -> Identity:
        """Return the identity of a commit that bears the claim's id and says nothing else: data, for all we know."""
        return cls("", "", _UNKNOWN, (), "", claim, "")

    @property
    def outcome(self) -> str:
        """'data' or 'killed'."""
        return "killed" if self.kind == _KILL else "data"

    def to_json(self) -> str:
        """Write the text of `userMetadata`."""
        return json.dumps({KEY: asdict(self)}, separators=(",", ":"), default=str)


class Killed(WaterclockError):
    """The claim was killed before its data came: nothing of it may be committed."""

    def __init__(self, claim: int, *, where: str | None = None) -> None:
        super().__init__(
            "E630",
            f"claim {claim} was killed before its data came",
            where=where,
            why="data or kill: the first commit under a claim's number wins",
            fix="take a new claim for the batch",
        )
        self.claim = claim


def app_id(claim: int) -> str:
    """Return the `txnAppId` of a claim's commit; its version is always 1 (docs/decisions/first-commit-wins.md)."""
    return f"{KEY}:{claim}"


def identity_in(commit_info: Mapping[str, Any]) -> Identity | None:
    """Read the identity from a commit's info; None where it is not ours."""
    try:
        said = json.loads(commit_info.get("userMetadata") or "null")[KEY]
        parts: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in said.items()}
        return Identity(**parts)
    except (TypeError, KeyError, ValueError):
        return None
