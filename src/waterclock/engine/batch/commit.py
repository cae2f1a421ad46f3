"""Makes sealed slices visible in one commit, and verifies in the log that this claim's commit won."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from waterclock.batches.ledger_snapshot import FOREVER
from waterclock.batches.records import Claim
from waterclock.engine.batch.open_windows import end_ticks
from waterclock.engine.batch.other_engines import update_for_other_engines
from waterclock.engine.batch.publish import deliver
from waterclock.engine.damage import current_slice, damaged_file, require_log
from waterclock.engine.reads.as_of import list_state_steps
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.storage.commit.change import NeedsSpark
from waterclock.storage.commit.creation import require_owner
from waterclock.storage.commit.foreign_changes import foreign_change
from waterclock.storage.commit.pointers import commit_older, commit_slices
from waterclock.storage.commit.spark_commit import commit_by_spark
from waterclock.storage.folds.fold import can_lose_to_deletes
from waterclock.storage.folds.merge import merge_slice, restate_slices
from waterclock.storage.folds.temporal_commit import place_slices
from waterclock.storage.log.content_as_of import LogStep
from waterclock.storage.log.delta_log import outcome
from waterclock.storage.log.identity import ClaimKilledError, Identity
from waterclock.storage.slices.manifest import Manifest
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")


def commit_group(
    work: RunContext, spark: Callable[[], SparkSession], table: Table, claim: Claim, manifests: Sequence[Manifest]
) -> int:
    """Commit the sealed slices of a claim and verify the commit. Return the Delta version (-1 for a publish).

    `spark` is called only if Spark must write rows; otherwise the commit just adds the slices' files.

    Raises:
        WaterclockError: E750 if the claim was taken over and killed before its data was committed.
    """
    fault("before_commit")
    if table.kind is Kind.PUBLISH:
        deliver(work, table, claim, manifests)
        return -1
    end_ticks(work, table, [manifest.label for manifest in manifests])
    folder = work.folder(table)
    # no other claim of a regular table is open, so the ledger's head label is current
    at = work.ledger.reads.table(table.name).head_label
    identity = identity_of(work, table, claim, manifests, at)
    try:
        if table.is_fold:
            _fold(work, spark(), table, identity, manifests, at)
        elif table.mode is Mode.REPLACE and at is not None and manifests[0].label < at:
            commit_older(folder, identity, manifests[0])
        else:
            mode = "replace" if table.mode is Mode.REPLACE else "append"
            try:
                commit_slices(folder, identity, manifests, mode=mode)
            except NeedsSpark:
                commit_by_spark(spark(), folder, identity, manifests, mode=mode)
    except ClaimKilledError as killed:
        raise claim_takeover_error(table, claim) from killed
    fault("after_commit")
    found = outcome(folder, claim.number, after_version=claim.request.target_version)
    if found.kind != "data":
        raise claim_takeover_error(table, claim)
    update_for_other_engines(work, table)
    return found.version


def refuse_foreign(work: RunContext, table: Table) -> None:
    """Raise an error if another writer changed the table's data since the newest commit of this project.

    Raises:
        WaterclockError: E754 if the log is older than the ledger, E601 if the table is another project's, E751 with the
            commit otherwise. OPTIMIZE, VACUUM, changes of metadata alone and undone changes are accepted.
    """
    require_log(work, table.name)
    known = work.ledger.reads.table(table.name).head_version
    folder, project = work.folder(table), work.flow.project
    error = foreign_change(folder, table.name, project=project, after_version=known)
    if error is not None:
        require_owner(folder, project)
        raise error


def identity_of(
    work: RunContext, table: Table, claim: Claim, manifests: Sequence[Manifest], at: datetime | None
) -> Identity:
    """Build the identity that a commit writes into the Delta log. `at`: the table's newest label before the commit."""
    request = claim.request
    newest = max(manifest.label for manifest in manifests)
    stands_from = manifests[0].source.get("stands_from")
    return Identity(
        project=work.flow.project,
        table=table.name,
        kind=table.kind.value,
        labels=tuple(label_of(manifest.label) for manifest in manifests),
        newest_label=label_of(newest if at is None else max(at, newest)),
        claim=claim.number,
        code=request.code,
        inputs=tuple(
            (label_of(label), item.table, label_or_bound(item.low), label_or_bound(item.high), item.version)
            for label, items in request.inputs.items()
            for item in items
        ),
        slices=tuple(manifest.slice_path for manifest in manifests),
        stands_from=None if stands_from is None else str(stands_from),
        known_version=request.target_version,
    )


def label_or_bound(instant: object) -> str:
    """Format a bound of an interval as an ISO instant if it is one, or else as text."""
    return instant.isoformat() if hasattr(instant, "isoformat") else str(instant)


def claim_takeover_error(table: Table, claim: Claim) -> WaterclockError:
    """Build the error for a runner whose claim another runner has killed before its commit."""
    label = label_of(claim.request.labels[0])
    return WaterclockError(
        "E750",
        f"claim {claim.number} was taken over before its commit",
        where=f"{table.name}@{label}",
        why="its lease expired and another runner killed it first",
        fix="nothing to fix: the other runner makes the batch",
    )


def call_without_damaged_slices(
    work: RunContext, table: Table, labels: Collection[datetime], do: Callable[[tuple[LogStep, ...], bool], Result]
) -> Result:
    """Call `do` with the current slices of a MERGE or TEMPORAL table, except damaged slices that will be made again.

    A damaged slice is left out if its label is one of `labels`, which are replaced, or is requested to be made again.
    The table has no rows of such a label until it is made. `do` also gets whether a slice of `labels` was left out.
    Any other damaged slice stops the batch. Cost: see `call_without_damage`.
    """

    def call(lost: Mapping[str, datetime]) -> Result:
        steps = list_state_steps(work.ledger, table.name, FOREVER)
        is_whole = any(step.label in labels and step.slice_path in lost for step in steps)
        return do(tuple(step for step in steps if step.slice_path not in lost), is_whole)

    return call_without_damage(work, table, labels, call)


def call_without_damage(
    work: RunContext, table: Table, labels: Collection[datetime], do: Callable[[Mapping[str, datetime]], Result]
) -> Result:
    """Call `do` with the damaged slices to leave out, as paths with their labels. The first call gets none.

    Only slices that `call_without_damaged_slices` may leave out are passed. Damage is found when slices are read, so
    `do` is called again for each damaged slice that is found. It is also called again if the slice is no longer
    current, because another claim has just made its label again.
    """
    lost: dict[str, datetime] = {}
    seen: set[str] = set()
    while True:
        try:
            return do(lost)
        except ClaimKilledError:
            raise
        except Exception as raised:
            place = damaged_file(work.lake, raised)
            if place is None or place.table != table.name or place.label is None or place.slice_path is None:
                raise
            if place.slice_path in seen:
                raise
            seen.add(place.slice_path)
            if place.label in labels or place.label in _list_requested(work, table):
                lost[place.slice_path] = place.label
            elif (now := current_slice(work, table.name, place.label)) is None or now.slice_path == place.slice_path:
                raise


def _list_requested(work: RunContext, table: Table) -> Collection[datetime]:
    return work.ledger.reads.snapshot(work.flow, tables=[table.name]).of(table.name).requested


def _fold(
    work: RunContext,
    spark: SparkSession,
    table: Table,
    identity: Identity,
    manifests: Sequence[Manifest],
    at: datetime | None,
) -> None:
    """Commit slices to a MERGE or TEMPORAL table.

    A slice of a new label is applied to the newest state. A slice of an older label takes its place among the older
    slices.
    """
    placed = sorted(manifests, key=lambda each: each.label)
    is_new = len(placed) == 1 and (at is None or placed[0].label > at)
    merge = table.merge
    if merge is not None and is_new and not can_lose_to_deletes(merge):
        merge_slice(spark, work.folder(table), placed[0], merge, identity)
        return

    def put(steps: Sequence[LogStep], is_whole: bool) -> None:  # noqa: FBT001 - called by `call_without_damaged_slices` alone
        if merge is None:
            place_slices(spark, work.lake, table, placed, identity, steps, is_whole=is_whole)
        elif is_new:
            earlier = [step.slice_path for step in steps]
            merge_slice(spark, work.folder(table), placed[0], merge, identity, earlier)
        else:
            restate_slices(spark, work.lake, placed, merge, identity, steps, is_whole=is_whole)

    call_without_damaged_slices(work, table, {each.label for each in placed}, put)
