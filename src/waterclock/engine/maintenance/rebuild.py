"""Rebuilds tables from their sealed slices. This also applies changes of a declaration that a run refuses.

A table's rows are rebuilt from its current slices: all of them (APPEND), the newest (REPLACE), or their merged state
(MERGE), and become visible in one commit. The slices, their digests and their past are unchanged. If the same slices
now mean other rows (another mode, other keys, another ORDER BY), they are sealed once more, by links. This is a new
revision of each label, so that queries of the past still see the earlier rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from waterclock.batches.ledger_snapshot import BEGINNING, FOREVER
from waterclock.batches.records import BatchResult, Claim, ClaimRequest, Slice
from waterclock.engine.abandoned_claims import find_abandoned_claims
from waterclock.engine.batch.claim_record import write_claim_record
from waterclock.engine.batch.other_engines import update_for_other_engines
from waterclock.engine.damage import reporting_damage
from waterclock.engine.maintenance.ledger_rebuild import REBUILT
from waterclock.engine.maintenance.rebuild_lock import require_no_running_rebuild
from waterclock.engine.maintenance.repair import (
    find_slices,
    has_usable_log,
    kill_earlier_claim,
    missing_column_error,
    renew_log,
    request_lost_labels,
    require_recoverable_slices,
)
from waterclock.engine.maintenance.resealing import seal_linked_slices
from waterclock.engine.run_context import RunContext
from waterclock.engine.spark.user_functions import register_functions
from waterclock.errors import WaterclockError, raise_all
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.ledger.read.signatures import Difference, signature_of
from waterclock.ledger.rebuild_errors import changed_windows_error
from waterclock.ledger.write.committed_claims import CommittedClaim
from waterclock.storage.commit.rebuild import commit_whole_state, rebuild_table_content
from waterclock.storage.folds.older_states import state_from
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.identity import Identity
from waterclock.storage.slices.manifest import Manifest, quarantine_measure
from waterclock.storage.slices.order_bounds import is_measured_for
from waterclock.timelabel.label import label_of

# parts of a declaration on which the content of a slice does not depend
_CHANGEABLE_PARTS = frozenset({"type", "mode", "keys"})


@dataclass(frozen=True, slots=True)
class TableRebuildResult:
    """The result of rebuilding a table: the number of its slices and rows, and the changes of its declaration.

    `resealed` are labels whose manifest was written again. `lost` are the slices that are missing or damaged: their
    labels are requested again, if that is possible, and the table is without their rows until then.
    """

    table: str
    slices: int
    rows: int
    version: int
    changed: tuple[Difference, ...]
    resealed: tuple[datetime, ...] = ()
    lost: tuple[Slice, ...] = ()


def plan_rebuild(work: RunContext, names: Sequence[str]) -> Mapping[str, tuple[Difference, ...]]:
    """Map each table to the changes of its declaration that a rebuild would apply. Changes nothing.

    Raises E407 if a batch is running, E420 or E432 for changes that cannot be applied, E644 during a rebuild of all.
    """
    require_no_running_rebuild(work, is_read_only=True)
    differing = work.ledger.maintenance.differences(work.flow)
    tables = work.flow.tables
    errors = [
        error for name in names if (error := _find_refusal(work, tables[name], differing.get(name, ()))) is not None
    ]
    raise_all(errors)
    for name in names:
        if not _are_claims_resolvable(work, tables[name]):
            work.ledger.maintenance.require_idle_table(name)
    return {name: tuple(differing.get(name, ())) for name in names}


@reporting_damage
def rebuild_table(work: RunContext, name: str, changed: tuple[Difference, ...]) -> TableRebuildResult:
    """Rebuild one table from its sealed slices, in one commit. A log that is lost, damaged or too old is replaced.

    Slices that lost only their manifest are sealed again; the labels of other damaged ones are requested again. The
    table is paused meanwhile; if the rebuild is killed, until the next one. Raises E407 if a batch is running, E644 if
    a rebuild of all tables has started, E752 if a damaged slice cannot be made again.
    """
    require_no_running_rebuild(work)
    left = _find_resolvable_claims(work, work.flow.tables[name])
    claim, before = work.ledger.maintenance.begin_rebuild(name, left=left, who=work.settings.who)
    try:
        return _rebuild(work, name, changed, claim, before)
    except BaseException:
        _end_hold(work, name, claim)
        raise


def _end_hold(work: RunContext, name: str, claim: int) -> None:
    with suppress(WaterclockError):  # the error of the rebuild is reported; the next rebuild ends the pause
        work.ledger.maintenance.abandon_rebuild(name, claim, who=work.settings.who)


def _rebuild(
    work: RunContext, name: str, changed: tuple[Difference, ...], claim: int, before: int | None
) -> TableRebuildResult:
    table, folder = work.flow.tables[name], work.lake.folder(name)
    kill_earlier_claim(work, table, before)
    slices = current_slices(work, table)
    # the deliveries of a publish are kept, and the next follows the current declaration
    if table.kind is Kind.PUBLISH or not (slices or _has_unusable_log(work, table)):
        version = work.ledger.reads.table(name).head_version
        work.ledger.maintenance.redeclare(table, version=version, claim=claim, who=work.settings.who)
        return TableRebuildResult(name, 0, 0, version, changed)
    spark = work.sessions.own()
    register_functions(spark, work.root, work.flow, table.expressions, work.keys)
    stage = find_slices(work, spark, table, slices)
    require_recoverable_slices(work, table, stage.lost)
    slices, manifests = list(stage.whole), list(stage.manifests)
    is_new_log = not has_usable_log(work, table)
    if is_new_log:
        renew_log(work, spark, table, manifests, former=before)
    found: CommittedClaim | None = None
    if _means_other_rows(table, changed, manifests):
        manifests = seal_linked_slices(spark, table, manifests, claim, folder, work.lake)
        found = build_rebuilt_claim(work, table, slices, manifests, claim)
        write_claim_record(folder, Claim(claim, found.request, found.at), found.results)
    identity = identity_of_rebuild(work, table, claim, manifests if found else ())
    if table.is_fold and manifests:
        state = state_from(spark, folder, manifests, table)
        version = commit_whole_state(folder, identity, state, sort_by=table.file_order)
    else:
        shown = manifests[-1:] if table.mode is Mode.REPLACE else manifests
        version = rebuild_table_content(spark, folder, identity, shown, is_partitioned=table.is_partitioned)
    if found is not None:
        found = replace(found, results=tuple(replace(result, version=version) for result in found.results))
    who = work.settings.who
    work.ledger.maintenance.redeclare(table, version=version, claim=claim, who=who, found=found, is_new_log=is_new_log)
    request_lost_labels(work, table, stage.lost)
    update_for_other_engines(work, table)
    resealed = tuple(piece.label for piece in stage.resealed)
    return TableRebuildResult(
        name, len(slices), sum(piece.rows for piece in slices), version, changed, resealed, stage.lost
    )


def _has_unusable_log(work: RunContext, table: Table) -> bool:
    return table_exists(work.folder(table)) and not has_usable_log(work, table)


def _are_claims_resolvable(work: RunContext, table: Table) -> bool:
    """Return whether all open claims of the table are abandoned, and are resolved once it has a log again."""
    left = _find_resolvable_claims(work, table)
    return all(claim.number in left for claim in work.ledger.claims.open() if claim.request.table == table.name)


def _find_resolvable_claims(work: RunContext, table: Table) -> frozenset[int]:
    """Return the abandoned claims to resolve once the table has a log again. Empty if its log is usable."""
    if table.kind is Kind.PUBLISH or has_usable_log(work, table):
        return frozenset()
    return frozenset(claim.number for claim in find_abandoned_claims(work))


def _find_refusal(work: RunContext, table: Table, differs: Sequence[Difference]) -> WaterclockError | None:
    cut = [difference for difference in differs if difference[0] not in _CHANGEABLE_PARTS]
    if cut:
        return changed_windows_error(table.name, cut, str(table.place))
    return missing_column_error(work, table, current_slices(work, table), differs)


def current_slices(work: RunContext, table: Table) -> list[Slice]:
    """Return the current slices of the table, oldest first, without windows that RETAIN has dropped."""
    dropped = work.ledger.maintenance.drop_boundary(table.name, by=FOREVER)
    return work.ledger.reads.slices(table.name, dropped or BEGINNING, FOREVER)


def _means_other_rows(table: Table, changed: Sequence[Difference], manifests: Sequence[Manifest]) -> bool:
    parts = {what for what, _, _ in changed}
    if "mode" in parts or (table.is_fold and "keys" in parts):
        return True
    # with another ORDER BY or DELETE WHEN other rows win, and with other HIDDEN columns there are other versions
    return table.fold is not None and any(not is_measured_for(each, table.fold) for each in manifests)


def build_rebuilt_claim(
    work: RunContext, table: Table, slices: Sequence[Slice], manifests: Sequence[Manifest], claim: int
) -> CommittedClaim:
    """Build the claim that makes slices current which were sealed again. It has the recorded inputs of each label."""
    ledger, now = work.ledger, work.real_now()
    codes = {work.former.code(manifest.code, table.fingerprint) for manifest in manifests}
    request = ClaimRequest(
        table=table.name,
        labels=tuple(piece.label for piece in slices),
        code=min(codes - {table.fingerprint}, default=table.fingerprint),  # rows of older code stay recognisable
        flow=work.flow.fingerprint,
        runner=work.settings.runner,
        who=work.settings.who,
        now=now,
        lease_seconds=work.settings.lease,
        target_version=ledger.reads.table(table.name).head_version,
        inputs={piece.label: ledger.reads.inputs(table.name, piece.label) for piece in slices},
        restates=REBUILT,
        run=work.run,
        declared=signature_of(table),
    )
    results = [_build_result(piece, manifest) for piece, manifest in zip(slices, manifests, strict=True)]
    return CommittedClaim(claim, request, tuple(results), now)


def _build_result(piece: Slice, manifest: Manifest) -> BatchResult:
    return BatchResult(
        label=piece.label,
        end=piece.end,
        version=-1,
        rows=piece.rows,
        bytes=piece.bytes,
        digest=piece.digest,
        slice_path=manifest.slice_path,
        stands_from=piece.stands_from,
        measures={"rebuilt": True} | quarantine_measure(manifest),
        source=manifest.source,
    )


def identity_of_rebuild(work: RunContext, table: Table, claim: int, manifests: Sequence[Manifest]) -> Identity:
    """Return the identity of a commit that makes slices current which were sealed again."""
    return Identity(
        project=work.flow.project,
        table=table.name,
        kind=REBUILT,
        labels=tuple(label_of(manifest.label) for manifest in manifests),
        newest_label=_newest_label(manifests),
        claim=claim,
        code=table.fingerprint,
        slices=tuple(manifest.slice_path for manifest in manifests),
    )


def _newest_label(manifests: Sequence[Manifest]) -> str:
    newest: datetime | None = max((manifest.label for manifest in manifests), default=None)
    return "" if newest is None else label_of(newest)
