"""Predicts which batches follow a revert, and which of these adopt earlier revisions without computing rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from waterclock.batches.earlier_revisions import EarlierRevision, input_identities
from waterclock.flow.declarations import Flow
from waterclock.ledger.ledger import Ledger
from waterclock.planner.adopted_contents import ContentChanges
from waterclock.planner.adopting import find_equal_revisions, has_repeatable_rows
from waterclock.planner.plan import Ripple
from waterclock.planner.reverting import usable_revisions

Labels = Mapping[str, tuple[datetime, ...]]


@dataclass(frozen=True, slots=True)
class FollowingBatches:
    """The batches that follow a revert by table, oldest first.

    `computed` make their rows, and `adopted` adopt an earlier revision. A batch that reads computed rows
    counts as computed, although its input may turn out to be unchanged.
    """

    computed: Labels = field(default_factory=dict)
    adopted: Labels = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of all batches that may follow."""
        return sum(map(len, self.computed.values())) + sum(map(len, self.adopted.values()))


def predict_following(flow: Flow, ledger: Ledger, ripple: Ripple, contents: ContentChanges) -> FollowingBatches:
    """Follow the changes of `contents` through the batches of a ripple, upstream first. Extends `contents`.

    No slice is read: the batch checks when it runs whether the earlier slice still exists. Cost: four ledger queries
    for each table, and some 60 µs for each revision.
    """
    computed: dict[str, tuple[datetime, ...]] = {}
    adopted: dict[str, tuple[datetime, ...]] = {}
    for name, windows in ripple.following.items():
        made = _read_revisions(ledger, name, [window.start for window in windows])
        now = _read_contents(ledger, made)
        mine: list[datetime] = []
        back: list[datetime] = []
        for label, of_label in sorted(made.items()):
            current = next(each for each in of_label if each.is_current)
            reads = contents.after(replace(it, content=now[it.table, it.low, it.high]) for it in current.inputs)
            if input_identities(reads) == input_identities(current.inputs):
                continue
            table = flow.tables[name]
            equal = (
                find_equal_revisions(of_label, reads, table.fingerprint.__eq__) if has_repeatable_rows(table) else ()
            )
            contents.add(name, current, equal[0] if equal else None)
            (back if equal else mine).append(label)
        computed |= {name: tuple(mine)} if mine else {}
        adopted |= {name: tuple(back)} if back else {}
    return FollowingBatches(computed, adopted)


def _read_revisions(
    ledger: Ledger, name: str, labels: Sequence[datetime]
) -> dict[datetime, tuple[EarlierRevision, ...]]:
    emptying_versions = ledger.maintenance.emptying_versions_of(name)
    found = ledger.reads.earlier_revisions(name, labels)
    return {label: usable_revisions(of_label, emptying_versions) for label, of_label in found.items()}


def _read_contents(
    ledger: Ledger, made: Mapping[datetime, Sequence[EarlierRevision]]
) -> dict[tuple[str, datetime, datetime], str]:
    """Return the content that the inputs of current revisions have now."""
    currents = (each for of_label in made.values() for each in of_label if each.is_current)
    wanted = {(it.table, it.low, it.high) for each in currents for it in each.inputs}
    return dict(ledger.reads.contents(wanted)) if wanted else {}
