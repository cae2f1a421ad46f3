"""Rewrites the current slices of a table without rows of persons, in one commit for each code that made them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from waterclock.batches.records import QUARANTINED, BatchResult, Claim
from waterclock.engine.abandoned_claims import find_abandoned_claims
from waterclock.engine.batch.claim_record import write_claim_record
from waterclock.engine.batch.other_engines import update_for_other_engines
from waterclock.engine.batch.takeover import take_over
from waterclock.engine.erasing.measures import without_persons
from waterclock.engine.erasing.request import ErasureRequest
from waterclock.engine.erasing.sealing import seal_slices
from waterclock.engine.erasing.search import TableSearch, TouchedSlice, search_table
from waterclock.engine.maintenance.rebuild import build_rebuilt_claim, current_slices, identity_of_rebuild
from waterclock.engine.maintenance.rebuild_lock import require_no_running_rebuild
from waterclock.engine.maintenance.repair import kill_earlier_claim
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.ledger.write.committed_claims import CommittedClaim
from waterclock.storage.commit.rebuild import commit_whole_state, rebuild_table_content
from waterclock.storage.folds.older_states import state_from
from waterclock.storage.slices.manifest import Manifest, read_manifest

_POLL_SECONDS = 0.5
_MOST_TRIES = 20


def slices_step(table: str) -> str:
    """Return the name of the step that rewrites a table's current slices."""
    return f"slices of {table}"


def wait_for_claims(work: RunContext, numbers: Sequence[int] | None = None) -> None:
    """Wait until the claims with these numbers, by default all that are open now, have ended. Take abandoned ones over.

    Raises the error of a takeover that does not determine the outcome of a claim.
    """
    waited = {claim.number for claim in work.ledger.claims.open()} if numbers is None else set(numbers)
    while True:
        left = [claim for claim in find_abandoned_claims(work) if claim.number in waited]
        found = take_over(work, left) if left else None
        if found is not None and found.unsettled:
            raise found.unsettled[0]
        # of a table that is not declared, a claim with an unknown outcome stays open: its runner is gone
        unknown = {claim.number for claim in left if claim.request.table not in work.flow.tables}
        running = [claim for claim in work.ledger.claims.open() if claim.number in waited - unknown]
        if not running:
            return
        claim = running[0]
        work.report_once(f"waiting for {claim.request.runner}, which makes {claim.request.table}")
        threading.Event().wait(_POLL_SECONDS)


def rewrite_table(work: RunContext, request: ErasureRequest, erasure: int, table: Table) -> TableSearch:
    """Remove rows of persons from the current slices of a table, and from its rows in the Delta table.

    Return the search before. The table is paused meanwhile; if the process is killed, until `erase --continue` or
    `rebuild`. Each commit and its record contain all that is needed to repeat the rest.
    """
    first = found = search_table(work, request, table)
    while found.touched:
        code = _code_of(work, table, found.touched[0].manifest)
        group = [each for each in found.touched if _code_of(work, table, each.manifest) == code]
        _rewrite_group(work, request, erasure, table, group)
        found = search_table(work, request, table)
    return first


@contextmanager
def hold_table(work: RunContext, table: Table) -> Iterator[int]:
    """Pause a table while its files are removed or replaced, and yield the number of the claim that pauses it.

    After a kill, `erase --continue` or `rebuild` ends the pause.
    """
    claim, before = _hold(work, table)
    try:
        if table.kind is not Kind.PUBLISH:
            kill_earlier_claim(work, table, before)
        yield claim
    finally:
        _release(work, table, claim)


def _release(work: RunContext, table: Table, claim: int) -> None:
    work.ledger.maintenance.abandon_rebuild(table.name, claim, who=work.settings.who)


def _code_of(work: RunContext, table: Table, manifest: Manifest) -> str:
    return work.former.code(manifest.code, table.fingerprint)


def _rewrite_group(
    work: RunContext, request: ErasureRequest, erasure: int, table: Table, group: Sequence[TouchedSlice]
) -> None:
    require_no_running_rebuild(work)
    claim, before = _hold(work, table)
    fault("erase.held")
    try:
        kill_earlier_claim(work, table, before)
        found = _commit(work, request, table, group, claim)
        fault("erase.committed")
        work.ledger.erasures.record_table(
            erasure,
            found,
            who=work.settings.who,
            step=slices_step(table.name),
            result=_result(work, erasure, table, group),
        )
    except BaseException:
        with suppress(WaterclockError):  # the first error is reported
            _release(work, table, claim)
        raise
    fault("erase.recorded")
    work.forget_schemas(table.name)
    update_for_other_engines(work, table)


def _hold(work: RunContext, table: Table) -> tuple[int, int | None]:
    """Pause the table once none of its batches is running."""
    for _ in range(_MOST_TRIES):
        try:
            return work.ledger.maintenance.begin_rebuild(table.name, who=work.settings.who)
        except WaterclockError as error:
            if error.code != "E407":
                raise
            wait_for_claims(
                work, [each.number for each in work.ledger.claims.open() if each.request.table == table.name]
            )
    return work.ledger.maintenance.begin_rebuild(table.name, who=work.settings.who)


def _commit(
    work: RunContext, request: ErasureRequest, table: Table, group: Sequence[TouchedSlice], claim: int
) -> CommittedClaim:
    """Seal the slices again without the rows, and make them the table's content. Return the claim to record."""
    folder = work.folder(table)
    spark = work.sessions.own()
    sealed = seal_slices(work, request, table, [(each.manifest, each.found) for each in group], claim)
    fault("erase.sealed")
    built = build_rebuilt_claim(work, table, [each.piece for each in group], sealed, claim)
    results = [_build_result(work, request, each, made) for each, made in zip(group, sealed, strict=True)]
    built = replace(built, results=tuple(results))
    write_claim_record(folder, Claim(claim, built.request, built.at), built.results)
    new = {made.label: made for made in sealed}
    pieces = current_slices(work, table)
    shown = pieces[-1:] if table.mode is Mode.REPLACE else pieces  # older states exist as slices only
    manifests = [new.get(piece.label) or read_manifest(folder, piece.slice_path) for piece in shown]
    identity = identity_of_rebuild(work, table, claim, sealed)
    if table.is_fold:
        version = commit_whole_state(
            folder, identity, state_from(spark, folder, manifests, table), sort_by=table.file_order
        )
    else:
        version = rebuild_table_content(spark, folder, identity, manifests, is_partitioned=table.is_partitioned)
    return replace(built, results=tuple(replace(result, version=version) for result in built.results))


def _build_result(work: RunContext, request: ErasureRequest, touched: TouchedSlice, made: Manifest) -> BatchResult:
    """Return the result of a label: its former measures without values of persons, and the new rows."""
    piece, table = touched.piece, work.flow.tables[touched.piece.table]
    attempt = work.ledger.past.audit(piece.table, piece.label).current
    revision = None if attempt is None else attempt.revision
    measures = (
        {}
        if revision is None
        else without_persons(revision.measures, request.persons(table.name).of_code(touched.manifest.code))
    )
    kept = int(measures.pop(QUARANTINED, 0) or 0) - touched.found.aside_rows
    if made.aside and kept > 0:
        measures[QUARANTINED] = kept
    return BatchResult(
        label=piece.label,
        end=piece.end,
        version=-1,
        rows=made.rows,
        bytes=made.bytes,
        digest=made.digest,
        slice_path=made.slice_path,
        stands_from=piece.stands_from,
        measures=measures,
        source=made.source if revision is None else revision.source,
    )


def _result(work: RunContext, erasure: int, table: Table, group: Sequence[TouchedSlice]) -> dict[str, int]:
    """Return the rows removed from a table so far, for the certificate."""
    known = next(each for each in work.ledger.erasures.list() if each.number == erasure)
    before = known.steps.get(slices_step(table.name), {})
    return {
        "rows": before.get("rows", 0) + sum(each.found.rows for each in group),
        "quarantined": before.get("quarantined", 0) + sum(each.found.aside_rows for each in group),
        "labels": before.get("labels", 0) + len(group),
    }
