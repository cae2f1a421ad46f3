"""ON SCHEMA CHANGE: the reaction of a collect to changed columns of its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from waterclock.flow.column_types import is_same_type


class OnSchemaChange(StrEnum):
    """The ON SCHEMA CHANGE clause. The default is ADD for an open column list, and IGNORE for a closed one.

    By default, removed columns FAIL the batch.
    ADD includes new columns, IGNORE leaves them out, and TEXT includes all columns without a declared type as STRING.
    These three read removed columns as NULL. HOLD does the same as ADD, and hides the batch until it is released. FAIL
    fails the batch at any change.
    """

    ADD = "ADD"
    IGNORE = "IGNORE"
    TEXT = "TEXT"
    HOLD = "HOLD"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The difference between two sets of columns: new, removed (`gone`) and changed ones by name, with their types."""

    new: Mapping[str, str]
    gone: Mapping[str, str]
    changed: Mapping[str, tuple[str, str]]

    def __bool__(self) -> bool:
        return bool(self.new or self.gone or self.changed)

    def words(self) -> list[str]:
        """Return a short description of each difference, such as "new: price int"."""
        return [
            *(f"new: {name} {kind}" for name, kind in self.new.items()),
            *(f"gone: {name} {kind}" for name, kind in self.gone.items()),
            *(f"changed: {name} from {old} to {new}" for name, (old, new) in self.changed.items()),
        ]


def change_between(old: Mapping[str, str], new: Mapping[str, str]) -> SchemaChange:
    """Return the difference between old and new columns, which map names to types; names are compared ignoring case."""
    before = {name.lower(): (name, kind) for name, kind in old.items()}
    after = {name.lower(): (name, kind) for name, kind in new.items()}
    return SchemaChange(
        {name: kind for lower, (name, kind) in after.items() if lower not in before},
        {name: kind for lower, (name, kind) in before.items() if lower not in after},
        {
            after[name][0]: (before[name][1], after[name][1])
            for name in before
            if name in after and not is_same_type(before[name][1], after[name][1])
        },
    )
