"""Plans a revert: finds the revision for each label, and the batches that follow, computed or adopted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from waterclock.batches.earlier_revisions import EarlierRevision
from waterclock.batches.ledger_snapshot import BEGINNING, FOLLOW, FOREVER, RECOMPUTE
from waterclock.batches.records import Input
from waterclock.engine.batch.reverting import RevertedLabel, bind_reverted_labels, check_revision, revert_error
from waterclock.engine.ledger_opening import lake_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.flow.graph import other_part
from waterclock.ledger.ledger import Ledger
from waterclock.operations.following_batches import FollowingBatches, predict_following
from waterclock.operations.formatting import local_label
from waterclock.operations.project_opening import OpenedProject, known_label_bounds, no_ledger_error, one_table
from waterclock.operations.restating import build_requests, require_not_dropped
from waterclock.planner.adopted_contents import ContentChanges
from waterclock.planner.plan import Batch, Ripple
from waterclock.planner.query_ticks import read_tick
from waterclock.planner.reverting import (
    PREVIOUS,
    Refusal,
    choose_paired_revision,
    choose_revision,
    find_table_refusal,
    usable_revisions,
)
from waterclock.timelabel.label import label_of
from waterclock.timelabel.zone import parse_instant

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class RevertRequest:
    """A table with labels, and the revision to revert them to: its claim, PREVIOUS, or the one known at an instant."""

    which: str
    to: int | str | None = None
    known_at: str | None = None


@dataclass(frozen=True, slots=True)
class RevertPlan:
    """The labels to revert, and the batches that follow.

    `unchanged` are selected labels that have the revision already, `without` those that have no such revision. `notes`
    are facts to know before confirming. `following` are the requests to record for older states. `ripple` has the
    batches that may follow, `predicted` those that follow according to their recorded inputs. `other` is the other
    table of APART, whose labels (`other_changes`) become the revisions that the same query made.
    """

    table: Table
    changes: tuple[RevertedLabel, ...]
    unchanged: tuple[datetime, ...] = ()
    without: tuple[datetime, ...] = ()
    other: Table | None = None
    other_changes: tuple[RevertedLabel, ...] = ()
    ripple: Ripple = field(default_factory=Ripple)
    notes: tuple[str, ...] = ()
    following: Mapping[str, frozenset[datetime]] = field(default_factory=dict)
    predicted: FollowingBatches = field(default_factory=FollowingBatches)

    @property
    def parts(self) -> tuple[tuple[Table, tuple[RevertedLabel, ...]], ...]:
        """The labels to revert, by table. Tables without any are left out."""
        both = ((self.table, self.changes), *([] if self.other is None else [(self.other, self.other_changes)]))
        return tuple((table, changes) for table, changes in both if changes)


def plan_revert(at: OpenedProject, request: RevertRequest) -> RevertPlan:
    """Find the labels and revisions of a revert, and the batches that follow. Changes nothing.

    Raises E412 before the first run, E510 to E515 for the selection, E516 if the table has no such revision, E518 for
    dropped labels, E605 for a damaged slice, E759 if a label cannot become the revision again.
    """
    name, labels = one_table(at.flow, request.which)
    table, ledger = at.flow.tables[name], at.ledger
    if ledger is None:
        raise no_ledger_error()
    if labels is None:
        fix = f"`waterclock audit {name}` shows its labels: revert {name}@LABEL or {name}@FIRST..LAST"
        raise WaterclockError("E513", f"a revert of {name} needs its labels", where=name, fix=fix)
    low, high = known_label_bounds(at, table, labels)
    if refusal := find_table_refusal(table):
        raise revert_error(table, low, refusal)
    require_not_dropped(table, low, at.snapshot.of(name).dropped_before)
    known_at = None if request.known_at is None else read_known_at(at, request.known_at)
    done = [label for label, _ in ledger.past.made_labels(name, low, high)]
    made = _read_usable_revisions(ledger, name, done)
    chosen = {
        label: found
        for label, of_label in made.items()
        if (found := choose_revision(of_label, to=request.to, known_at=known_at)) is not None
    }
    if not chosen:
        raise _no_revision_error(table, made, request, low)
    unchanged = tuple(label for label, target in sorted(chosen.items()) if target.is_current)
    without = tuple(sorted(made.keys() - chosen.keys()))
    plan = RevertPlan(table, _pair_with_current(made, chosen), unchanged, without)
    made_of = {name: made}
    if (other := other_part(at.flow, name)) is not None:
        made_of[other] = _read_usable_revisions(ledger, other, list(chosen))
        targets = _choose_paired_revisions(ledger, table, at.flow.tables[other], chosen, made_of[other])
        plan = replace(plan, other=at.flow.tables[other], other_changes=_pair_with_current(made_of[other], targets))
    if not plan.parts:
        return plan
    contents = ContentChanges({name: each.mode for name, each in at.flow.tables.items()})
    for of_table, changes in plan.parts:
        _check(at, ledger, of_table, changes, made_of[of_table.name], contents)
    asked = {of_table.name: tuple(each.label for each in changes) for of_table, changes in plan.parts}
    asking, snapshot = build_requests(at, ledger, RECOMPUTE, asked)
    ripple = at.planner.ripple(snapshot, at.now, asked)
    return replace(
        plan,
        ripple=ripple,
        notes=tuple(_notes(table, plan.changes)),
        following={of: labels for (verb, of), labels in asking.items() if verb == FOLLOW},
        predicted=predict_following(at.flow, ledger, ripple, contents),
    )


def _read_usable_revisions(
    ledger: Ledger, name: str, labels: Sequence[datetime]
) -> dict[datetime, tuple[EarlierRevision, ...]]:
    emptying_versions = ledger.maintenance.emptying_versions_of(name)
    found = ledger.reads.earlier_revisions(name, labels)
    return {label: usable_revisions(of_label, emptying_versions) for label, of_label in found.items()}


def _pair_with_current(
    made: Mapping[datetime, Sequence[EarlierRevision]], chosen: Mapping[datetime, EarlierRevision]
) -> tuple[RevertedLabel, ...]:
    """Return the labels whose chosen revision is not the current one, each with both."""
    currents = {label: next(each for each in made[label] if each.is_current) for label in chosen}
    return tuple(
        RevertedLabel(currents[label], target) for label, target in sorted(chosen.items()) if not target.is_current
    )


def _choose_paired_revisions(
    ledger: Ledger,
    table: Table,
    other: Table,
    chosen: Mapping[datetime, EarlierRevision],
    made: Mapping[datetime, Sequence[EarlierRevision]],
) -> dict[datetime, EarlierRevision]:
    """Map labels to the revisions of the other table of APART that the same query made as the chosen ones.

    Of several, `choose_paired_revision` chooses. Labels that the other table does not have are left out: they were
    skipped or dropped there. Raises E759 if a label has no such revision.
    """
    names = (table.name, other.name) if table.apart is not None else (other.name, table.name)
    pairs = ledger.reads.code_pairs(*names)
    kept = ledger.maintenance.drop_boundary(other.name, by=FOREVER) or BEGINNING
    found: dict[datetime, EarlierRevision] = {}
    for label, of_label in made.items():
        if label < kept or not any(each.is_current for each in of_label):
            continue
        code = chosen[label].code
        fitting = [
            each
            for each in of_label
            if (pairs.are_paired(code, each.code) if table.apart is not None else pairs.are_paired(each.code, code))
        ]
        if not fitting:
            why = f"no revision of it was made by the query of revision {chosen[label].claim} of {table.name}"
            fix = f"`waterclock recompute {table.name}@{label_of(label)}` makes both tables again"
            raise revert_error(other, label, Refusal(why, fix))
        found[label] = choose_paired_revision(fitting, chosen[label])
    return found


def read_known_at(at: OpenedProject, text: str) -> datetime:
    """Read an instant of the ledger's clock, or the end of the window of TABLE@LABEL."""
    found = read_tick(text, at.flow, at.zone) if "@" in text else None
    return parse_instant(text.strip(), at.zone) if found is None else found


def _check(
    at: OpenedProject,
    ledger: Ledger,
    table: Table,
    changes: Sequence[RevertedLabel],
    made: Mapping[datetime, Sequence[EarlierRevision]],
    contents: ContentChanges,
) -> None:
    """Raise the error of the first label that cannot become its revision again: E605 or E759. Extends `contents`."""
    folder = lake_of(at.project, ledger).folder(table.name)
    labels = [each.label for each in changes]
    bound: dict[datetime, Batch] = {}
    for chunk in [[label] for label in labels] if table.reads_itself else [labels]:
        bound |= bind_reverted_labels(at.flow, ledger, table, chunk, at.now)
    for pair in changes:
        reads = contents.after(
            pinned_inputs(ledger, bound[pair.label])
        )  # a table that reads itself is reverted in label order
        check_revision(folder, table, pair, made[pair.label], reads)
        contents.add(table.name, pair.current, pair.target)


def pinned_inputs(ledger: Ledger, batch: Batch) -> tuple[Input, ...]:
    """Return the inputs that a batch would read now."""
    pins = ledger.reads.pins([(read.read.table, read.low, read.high) for read in batch.reads])
    return tuple(pin.input(str(read.read), read.scope.value) for pin, read in zip(pins, batch.reads, strict=True))


def _notes(table: Table, changes: Sequence[RevertedLabel]) -> list[str]:
    """Return facts that a user should know before confirming a revert."""
    notes = []
    if older := sum(each.target.code != table.fingerprint for each in changes):
        notes.append(
            f"{older} of {len(changes)} revisions were made by older code: `waterclock recompute` would make other rows"
        )
    if table.source is not None and table.source.lookback is not None:
        notes.append(
            f"LOOKBACK {table.source.lookback} of {table.name} reads recent windows again: rows that its source has "
            "replace reverted ones"
        )
    return notes


def _no_revision_error(
    table: Table, made: Mapping[datetime, Sequence[EarlierRevision]], request: RevertRequest, low: datetime
) -> WaterclockError:
    where = f"{table.name}@{label_of(low)}"
    if not made:
        return WaterclockError(
            "E516",
            f"no label of {request.which} was made yet",
            where=where,
            fix=f"`waterclock plan {table.name}` shows the due batches",
        )
    if request.to == PREVIOUS:
        return WaterclockError(
            "E516", f"no label of {request.which} has an earlier revision", where=where,
            why="each was made once, or its windows were changed since",
            fix=f"`waterclock audit {where}` shows its revisions",
        )  # fmt: skip
    if request.to is None:
        return WaterclockError(
            "E516", f"no label of {request.which} was made by {request.known_at}", where=where,
            why="a revert takes the revision that was current at that time, by the real clock",
            fix=f"`waterclock audit {where}` shows when its revisions were made",
        )  # fmt: skip
    first = min(made)
    known = ", ".join(str(each.claim) for each in made[first][-_MOST_NAMED:])
    return WaterclockError(
        "E516",
        f"claim {request.to} is not a revision of {request.which}",
        where=where,
        why=f"a revision is the claim that committed it; those of {local_label(first, table.cadence)} are {known}",
        fix=f"`waterclock audit {table.name}@{label_of(first)}` lists them",
    )
