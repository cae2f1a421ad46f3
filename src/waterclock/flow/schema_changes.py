"""What becomes of a collect when the columns of its source change, and what a change is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from waterclock.flow.column_types import is_same_type


class OnSchemaChange(StrEnum):
    """What ON SCHEMA CHANGE says. Where it says nothing, an open list ADDs, a closed one IGNOREs, and losses FAIL.

    ADD takes new columns, IGNORE leaves them out, TEXT takes all that have no declared type as STRING; each of them
    reads what is gone as NULL. HOLD does as ADD, and shows the batch to nobody until it is released. FAIL stops the
    batch at any change.
    """

    ADD = "ADD"
    IGNORE = "IGNORE"
    TEXT = "TEXT"
    HOLD = "HOLD"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """How two versions of columns differ: by names and types that came, that went, and that are others now."""

    new: Mapping[str, str]
    gone: Mapping[str, str]
    changed: Mapping[str, tuple[str, str]]

    def __bool__(self) -> bool:
        return bool(self.new or self.gone or self.changed)

    def words(self) -> list[str]:
        """Say each difference in a few words."""
        return [
            *(f"new: {name} {kind}" for name, kind in self.new.items()),
            *(f"gone: {name} {kind}" for name, kind in self.gone.items()),
            *(f"changed: {name} from {old} to {new}" for name, (old, new) in self.changed.items()),
        ]


def change_between(old: Mapping[str, str], new: Mapping[str, str], *, typed: Collection[str] = ()) -> SchemaChange:
    """Compare columns by name, whatever its case, and type; of `typed` names types do not count."""
    before = {name.lower(): (name, kind) for name, kind in old.items()}
    after = {name.lower(): (name, kind) for name, kind in new.items()}
    cast = {name.lower() for name in typed}
    both = [name for name in before if name in after and name not in cast]
    return SchemaChange(
        {name: kind for lower, (name, kind) in after.items() if lower not in before},
        {name: kind for lower, (name, kind) in before.items() if lower not in after},
        {
            after[name][0]: (before[name][1], after[name][1])
            for name in both
            if not is_same_type(before[name][1], after[name][1])
        },
    )
