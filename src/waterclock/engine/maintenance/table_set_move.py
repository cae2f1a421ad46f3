"""Replaces the live tables by a second set of tables: one commit per table, and one ledger transaction for all.

Expensive steps come first: the files are linked into the live folders, and a file lists the commits to make. From then
on any runner can finish the move: steps that are done already are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from waterclock.batches.records import BatchResult, Claim, ClaimRequest, Input
from waterclock.engine.batch.claim_record import read_claim_record, write_claim_record
from waterclock.engine.batch.other_engines import update_for_other_engines
from waterclock.engine.maintenance.ledger_rebuild import REBUILT
from waterclock.engine.maintenance.second_set import PLACE, Cut
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, file_exists, make_folder, put_if_absent, read_text, remove_folder
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind, Mode
from waterclock.ledger.read.signatures import signature_of
from waterclock.ledger.write.committed_claims import CommittedClaim
from waterclock.ledger.write.emptying import RECUT, REMADE
from waterclock.ledger.write.flow_declarations import location_of
from waterclock.ledger.write.rebuilt_tables import MovedTable
from waterclock.storage.commit.change import NeedsSpark
from waterclock.storage.commit.content_replacement import (
    Content,
    build_empty_content,
    commit_content,
    link_content,
    remove_linked_content,
)
from waterclock.storage.commit.rebuild import overwrite
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.identity import Identity
from waterclock.storage.slices.hard_links import seal_linked_slice
from waterclock.storage.slices.inventory import list_slice_folders
from waterclock.storage.slices.manifest import Manifest, read_manifest
from waterclock.timelabel.label import label_of

MOVING = "moving.json"


@dataclass(frozen=True, slots=True)
class Move:
    """The new content and revisions of one table, committed under one claim.

    `first` is the slice next to which the claim's record is stored, `made` the folder in which the table was made.
    Both are None if the table has nothing new. A publish has no table: only its declaration is recorded again.
    `dropped_before` is the instant before which windows of a recut table (with another declaration) stay dropped.
    `keeps_skipped` and `items_before`: which skipped labels and source items of a recut table stay known.
    """

    name: str
    signature: Mapping[str, str]
    location: str
    start: str | None
    claim: int
    first: str | None
    made: str | None
    is_recut: bool
    identity: Mapping[str, Any] | None = None
    content: Mapping[str, Any] | None = None
    dropped_before: str | None = None
    keeps_skipped: bool = False
    items_before: str | None = None


def prepare(live: RunContext, cut: Cut, work: RunContext, linked: list[tuple[str, int]]) -> list[Move]:
    """Link all new files into the live folders, where no reader sees them. Return the moves to make, upstream first.

    Appends the table and claim of each move with links to `linked`. Cost: a link per file.
    """
    moves = []
    for name in cut.flow.order:
        if name in cut.redeclared_collects or name in cut.transforms:
            move = _prepare_move(live, cut, work, cut.flow.tables[name], linked)
            moves += [move] if move is not None else []
            fault("rebuild.linked")
    return moves


def unlink(live: RunContext, linked: Iterable[tuple[str, int]]) -> None:
    """Remove the links of `prepare` if the tables are not moved."""
    for name, claim in linked:
        folder = live.lake.folder(name)
        remove_linked_content(folder, claim)
        for leaf in list_slice_folders(folder):
            if leaf.claim == claim:
                remove_folder(entry_path(folder, leaf.path))


def _prepare_move(
    live: RunContext, cut: Cut, work: RunContext, table: Table, linked: list[tuple[str, int]]
) -> Move | None:
    name, is_recut = table.name, cut.is_redeclared(table.name)
    made, folder = work.folder(table), live.folder(table)
    everything = work.ledger.maintenance.current_of(name)
    current = [each for each in everything if each.result.label not in cut.kept.get(name, frozenset())]
    if not current and not is_recut:
        return None
    claim = live.ledger.maintenance.take_claim_number()
    start = _format_instant(work.ledger.reads.table(name).start)
    move = Move(
        name,
        signature_of(table),
        location_of(table),
        start,
        claim,
        None,
        None,
        is_recut,
        dropped_before=_format_instant(cut.dropped.get(name)),
        keeps_skipped=not cut.has_other_windows(name),
        items_before=_format_instant(cut.find_kept_items_end(name)),
    )
    if not current:
        content = build_empty_content(folder, is_partitioned=table.is_partitioned) if table_exists(folder) else None
        identity = Identity(
            live.flow.project, name, REBUILT, (), "", claim, table.fingerprint, dropped_before=move.dropped_before
        )
        content_dict = None if content is None else content.to_dict()
        return replace(move, identity=asdict(identity), content=content_dict)
    linked.append((name, claim))
    manifests = [read_manifest(made, each.result.slice_path) for each in current]
    pairs = [(manifest, _link_manifest(live, table, manifest, made, claim)) for manifest in manifests]
    content = link_content(made, folder, pairs, claim)
    request = _build_request(
        live, table, [live.former.code(manifest.code, table.fingerprint) for manifest in manifests], is_recut=is_recut
    )
    # the second set does not know the rows for which a collect requested its own (FOR EACH)
    known = {each.result.label for each in current}
    read_in = live if table.each is not None and not cut.has_other_windows(name) else work
    request = replace(
        request,
        labels=tuple(each.result.label for each in current),
        inputs={
            label: _set_locations(live, reads)
            for label, reads in read_in.ledger.maintenance.inputs_by_label(name).items()
            if label in known
        },
    )
    results = [_build_result(each.result, new) for each, (_, new) in zip(current, pairs, strict=True)]
    write_claim_record(folder, Claim(claim, request, request.now), results)
    newest = max(each.result.label for each in everything)
    identity = Identity(
        project=live.flow.project,
        table=name,
        kind=REBUILT,
        labels=tuple(label_of(label) for label in request.labels),
        newest_label=label_of(newest),
        claim=claim,
        code=table.fingerprint,
        slices=tuple(result.slice_path for result in results),
        dropped_before=move.dropped_before,
    )
    return replace(move, first=results[0].slice_path, made=made, identity=asdict(identity), content=content.to_dict())


def _set_locations(live: RunContext, reads: Iterable[Input]) -> tuple[Input, ...]:
    """Set the location of each input to that of the live table, which differs for renamed tables."""
    return tuple(
        replace(read, location=live.lake.location(read.table)) if read.table in live.lake.folders else read
        for read in reads
    )


def _link_manifest(live: RunContext, table: Table, manifest: Manifest, made: str, claim: int) -> Manifest:
    return seal_linked_slice(
        manifest,
        made,
        folder=live.folder(table),
        lake=live.lake,
        claim=claim,
        label=manifest.label,
        code=manifest.code,
        name=table.name,
        source=manifest.source,
    )


def _build_request(live: RunContext, table: Table, codes: Sequence[str], *, is_recut: bool) -> ClaimRequest:
    known = live.ledger.reads.find_table(table.name)
    return ClaimRequest(
        table=table.name,
        labels=(),
        code=min(set(codes) - {table.fingerprint}, default=table.fingerprint),
        flow=live.flow.fingerprint,
        runner=live.settings.runner,
        who=live.settings.who,
        now=live.real_now(),
        lease_seconds=live.settings.lease,
        target_version=-1 if known is None else known.head_version,
        restates=RECUT if is_recut else REMADE,
        run=live.run,
        declared=signature_of(table),
    )


def _build_result(result: BatchResult, new: Manifest) -> BatchResult:
    measures = {**result.measures, "rebuilt": True}
    return replace(result, version=-1, slice_path=new.slice_path, measures=measures, source=new.source)


def list_changed_publishes(live: RunContext, names: Iterable[str]) -> list[Move]:
    """Return a move for each publish in `names`. A publish has no table, so only its ledger records change."""
    tables = [live.flow.tables[name] for name in names if live.flow.tables[name].kind is Kind.PUBLISH]
    return [
        Move(
            name=table.name,
            signature=signature_of(table),
            location=location_of(table),
            start=None,
            claim=0,
            first=None,
            made=None,
            is_recut=_is_of_other_windows(live, table),
        )
        for table in tables
    ]


def _is_of_other_windows(live: RunContext, table: Table) -> bool:
    known = live.ledger.reads.table(table.name)
    is_cut_so = (known.cadence, known.zone) == (str(table.cadence.period), table.cadence.zone)
    return table.mode is Mode.REPLACE and not is_cut_so


def write_moves(live: RunContext, token: str, moves: Sequence[Move], asked_again: Sequence[str]) -> None:
    """Write the moves to a file, from which any runner can finish them."""
    place = entry_path(live.lake.root, PLACE)
    make_folder(place)
    tables = [asdict(move) for move in moves]
    entry = {"token": token, "flow": live.flow.fingerprint, "asked_again": list(asked_again), "tables": tables}
    put_if_absent(place / MOVING, json.dumps(entry, default=str), is_flushed=True)


def finish_move(live: RunContext) -> tuple[str, ...]:
    """Replace live tables by the new ones that the file lists, upstream first, and record all at once in the ledger.

    Return the names of the tables. Raises E645 if the file or a new slice is missing.
    """
    place = entry_path(live.lake.root, PLACE)
    known = live.ledger.maintenance.current_rebuilding()
    if known is None or not known.is_moving:
        return ()
    entry = _read_moves(live, known.token)
    moved = []
    for parts in entry["tables"]:
        moved.append(_apply_move(live, Move(**parts)))
        fault("rebuild.moved")
    again = tuple(entry["asked_again"])
    live.ledger.maintenance.record_set(
        known.token, moved, who=live.settings.who, asked_again=again, flow=entry.get("flow")
    )
    fault("rebuild.recorded")
    for each in moved:
        if (table := live.flow.tables.get(each.name)) is not None:
            update_for_other_engines(live, table)
    now = live.ledger.maintenance.current_rebuilding()
    if now is not None and now.token == known.token:  # else the next rebuild has begun, and uses the folder
        remove_folder(place)
    return tuple(each.name for each in moved)


def _read_moves(live: RunContext, token: str) -> Mapping[str, Any]:
    path = entry_path(live.lake.root, PLACE) / MOVING
    entry: Mapping[str, Any] = json.loads(read_text(path)) if file_exists(path) else {}
    if entry.get("token") != token:
        raise WaterclockError(
            "E645",
            "`rebuild --all` cannot finish replacing the tables",
            where=str(path),
            why="the file belongs to another rebuild" if entry else "the file does not exist",
            fix="restore the file; or `waterclock ledger rebuild --force` makes the ledger again from the commits",
        )
    return entry


def _apply_move(live: RunContext, move: Move) -> MovedTable:
    folder = live.lake.folder(move.name)
    version = -1
    if move.identity is not None and move.content is not None:
        parts: dict[str, Any] = {key: tuple(of) if isinstance(of, list) else of for key, of in move.identity.items()}
        identity = Identity(**parts)
        version = _commit_content(live, move, folder, identity, Content.of_dict(move.content))
    found = None
    if move.first is not None:
        request, results = _read_claim(folder, move)
        found = CommittedClaim(
            move.claim, request, tuple(replace(result, version=version) for result in results), live.real_now()
        )
    instants = (move.start, move.dropped_before, move.items_before)
    start, dropped, items_before = (None if it is None else datetime.fromisoformat(it) for it in instants)
    return MovedTable(
        move.name,
        move.signature,
        move.location,
        start,
        move.claim,
        version,
        found,
        move.is_recut,
        dropped,
        keeps_skipped=move.keeps_skipped,
        items_before=items_before,
    )


def _commit_content(live: RunContext, move: Move, folder: str, identity: Identity, content: Content) -> int:
    try:
        return commit_content(folder, identity, content)
    except NeedsSpark:
        if move.made is None:
            raise
    # a layout that a commit of pointers cannot write: Spark writes the rows once more
    spark = live.sessions.own()
    try:
        rows = spark.read.format("delta").load(move.made)
        return overwrite(rows, folder, identity, is_partitioned=bool(content.partition_columns))
    finally:
        live.sessions.release(spark)


def _read_claim(folder: str, move: Move) -> tuple[ClaimRequest, tuple[BatchResult, ...]]:
    record = read_claim_record(folder, move.first or "")
    if record is None:
        raise WaterclockError(
            "E645",
            f"the new slices of {move.name} are gone",
            where=f"{folder}/{move.first}",
            why="the record of their claim cannot be read",
            fix="restore the files",
        )
    return record


def _fields(of: Any) -> dict[str, Any]:
    return asdict(of)


def _format_instant(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()
