"""Plans a revert: finds the revision for each label, and the batches that follow, computed or adopted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from waterclock.batches.earlier_revisions import EarlierRevision
from waterclock.batches.ledger_snapshot import FOLLOW, RECOMPUTE
from waterclock.batches.records import Input
from waterclock.engine.batch.reverting import RevertedLabel, bind_reverted_labels, check_revision, revert_error
from waterclock.engine.ledger_opening import lake_of
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Table
from waterclock.ledger.ledger import Ledger
from waterclock.operations.following_batches import FollowingBatches, predict_following
from waterclock.operations.formatting import local_label
from waterclock.operations.project_opening import OpenedProject, known_label_bounds, no_ledger_error, one_table
from waterclock.operations.restating import build_requests, require_not_dropped
from waterclock.planner.adopted_contents import ContentChanges
from waterclock.planner.plan import Batch, Ripple
from waterclock.planner.query_ticks import read_tick
from waterclock.planner.reverting import PREVIOUS, choose_revision, find_table_refusal, usable_revisions
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
    batches that may follow, `predicted` those that follow according to their recorded inputs.
    """

    table: Table
    changes: tuple[RevertedLabel, ...]
    unchanged: tuple[datetime, ...] = ()
    without: tuple[datetime, ...] = ()
    ripple: Ripple = field(default_factory=Ripple)
    notes: tuple[str, ...] = ()
    following: Mapping[str, frozenset[datetime]] = field(default_factory=dict)
    predicted: FollowingBatches = field(default_factory=FollowingBatches)


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
    emptying_versions = ledger.maintenance.emptying_versions_of(name)
    made = {
        label: usable_revisions(of_label, emptying_versions)
        for label, of_label in ledger.reads.earlier_revisions(name, done).items()
    }
    chosen = {
        label: found
        for label, of_label in made.items()
        if (found := choose_revision(of_label, to=request.to, known_at=known_at)) is not None
    }
    if not chosen:
        raise _no_revision_error(table, made, request, low)
    currents = {label: next(each for each in of_label if each.is_current) for label, of_label in made.items()}
    changes = tuple(
        RevertedLabel(currents[label], target) for label, target in sorted(chosen.items()) if not target.is_current
    )
    unchanged = tuple(label for label, target in sorted(chosen.items()) if target.is_current)
    without = tuple(sorted(made.keys() - chosen.keys()))
    if not changes:
        return RevertPlan(table, (), unchanged, without)
    contents = _check(at, ledger, table, changes, made)
    asked = {name: tuple(each.label for each in changes)}
    asking, snapshot = build_requests(at, ledger, RECOMPUTE, asked)
    following = {of: labels for (verb, of), labels in asking.items() if verb == FOLLOW}
    ripple = at.planner.ripple(snapshot, at.now, asked)
    predicted = predict_following(at.flow, ledger, ripple, contents)
    notes = tuple(_notes(table, changes))
    return RevertPlan(table, changes, unchanged, without, ripple, notes, following, predicted)


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
) -> ContentChanges:
    """Raise the error of the first label that cannot become its revision again: E605 or E759. Return the changes."""
    folder = lake_of(at.project, ledger).folder(table.name)
    contents = ContentChanges({name: each.mode for name, each in at.flow.tables.items()})
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
    return contents


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
