"""Rebuilds a lost ledger from its newest export and from later commits.

Commits of tables are read from their Delta logs, and deliveries are queried at the destinations. A claim is read from
its record in the stage. Other facts since the export are lost: failures, skips, pauses, requests, runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from waterclock.batches.records import TableRecord
from waterclock.dpl.project import Project
from waterclock.engine.batch.claim_record import read_claim_record
from waterclock.engine.batch.publish import find_delivery, kill_delivery
from waterclock.engine.ledger_export import chain_of, list_exports
from waterclock.engine.ledger_opening import ledger_url
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import open_workplace
from waterclock.engine.run_settings import RunSettings
from waterclock.flow.enums import Kind
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.ledger_errors import existing_ledger_error, ledger_elsewhere
from waterclock.ledger.read.signatures import signature_of
from waterclock.ledger.store.locations import place_of
from waterclock.ledger.write.committed_claims import CommittedClaim
from waterclock.ledger.write.rebuilt_tables import STAYS_DROPPED
from waterclock.storage.commit.pointers import kill_claim
from waterclock.storage.erasure_files import read_erasures
from waterclock.storage.ledger_exports import read_export
from waterclock.storage.log.commit_history import Commit, read_new_commits
from waterclock.storage.log.delta_log import table_exists
from waterclock.storage.log.identity import RESET
from waterclock.storage.slices.inventory import SliceFolder, list_slice_folders
from waterclock.storage.slices.manifest import read_manifest

# values of `Identity.kind` for commits that belong to no batch: windows dropped by RETAIN, and a rebuild
RETAINED = "retain"
REBUILT = "rebuild"


@dataclass(slots=True)
class LedgerRebuildResult:
    """The result of a ledger rebuild.

    `export`: the export it started from. `adopted` counts claims found in commit records, by table; `missing` counts
    commits that were cleaned from a log before they were exported. `unknown` are claims whose record is missing.
    `killed` counts sealed claims that had not committed, and can no longer commit. `aside` is the location to which the
    old ledger was moved.
    """

    export: str | None = None
    adopted: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    unknown: list[int] = field(default_factory=list)
    killed: int = 0
    aside: str | None = None


def rebuild_ledger(
    project: Project, *, settings: RunSettings | None = None, force: bool = False, export: str | None = None
) -> LedgerRebuildResult:
    """Rebuild the ledger as a draft next to the lost one, and install it once it is complete. Starts no JVM.

    `export` is used instead of the newest one. With `force`, an existing ledger is moved aside. Raises E417 if a ledger
    exists, or is in another schema of its database, E418 if the export cannot be used.
    """
    place = place_of(ledger_url(project))
    if place.is_taken() and not force:
        raise existing_ledger_error(place.name)
    if not force and (others := place.others(project.name)):
        raise ledger_elsewhere(place.name, project.name, others)
    made = Ledger.open(place.empty_draft())
    with open_workplace(project, settings=settings, ledger=made) as work:
        rebuilt = _fill_ledger(work, export)
        clock = work.real_now()
    rebuilt.aside = place.install_draft(clock, replaces=True)
    return rebuilt


def _fill_ledger(work: RunContext, export: str | None) -> LedgerRebuildResult:
    root, maintenance = work.lake.root, work.ledger.maintenance
    newest = export or next((name for name, _ in list_exports(root)), None)
    if newest is not None:
        maintenance.load(read_export(root, name) for name in chain_of(root, newest))
        maintenance.forget_rebuilding(who=work.settings.who)
    work.ledger.erasures.restore(read_erasures(root))  # first: batches adopted below may contain rows of these persons
    known = {record.name for record in work.ledger.reads.tables()}
    if not known.issuperset(work.flow.tables):
        work.ledger.declared.apply(work.flow, who=work.settings.who, now=work.real_now(), runner=work.settings.runner)
    _find_renamed(work)
    rebuilt = LedgerRebuildResult(newest)
    steps = [step for record in work.ledger.reads.tables() for step in _list_steps(work, record, rebuilt)]
    for step in sorted(steps, key=lambda step: (step.at, step.version)):
        step.take(work, rebuilt)
    for record in work.ledger.reads.tables():
        _kill_unknown_claims(work, record, rebuilt)
    work.ledger.past.add_event(
        "ledger rebuilt", who=work.settings.who, data={"export": newest, "adopted": rebuilt.adopted}
    )
    return rebuilt


def _find_renamed(work: RunContext) -> None:
    """Find the folders of renamed tables: in the export, or else under the former name that WAS declares."""
    known = work.ledger.declared.former().folders
    for name, table in work.flow.tables.items():
        if table.was is None or name in known or table_exists(work.lake.folder(name)):
            continue
        if table_exists(work.lake.folder(table.was)):
            work.ledger.maintenance.record_former_name_and_folder(name, table.was, work.lake.location(table.was))
    work.former = work.ledger.declared.former()
    work.lake = replace(work.lake, folders=work.former.folders)


@dataclass(frozen=True, slots=True)
class _Step:
    """A fact from one commit: a claim's data, a later version of a state, a reset, or windows that were dropped.

    The commit of a claim that cut a table anew (`rebuild --all`) has both its data and the windows that stay dropped.
    """

    table: str
    at: datetime
    version: int
    found: CommittedClaim | None = None
    dropped_before: datetime | None = None
    reset_by: int = 0
    is_cut_anew: bool = False

    def take(self, work: RunContext, rebuilt: LedgerRebuildResult) -> None:
        maintenance = work.ledger.maintenance
        if self.found is not None:
            if maintenance.adopt(self.found):
                rebuilt.adopted[self.table] = rebuilt.adopted.get(self.table, 0) + 1
        elif self.reset_by:
            who = work.settings.who
            maintenance.adopt_reset(self.table, version=self.version, claim=self.reset_by, at=self.at, who=who)
        elif self.dropped_before is None:
            maintenance.move_head(self.table, self.version)
        if self.dropped_before is not None:
            who, why = work.settings.who, STAYS_DROPPED if self.is_cut_anew else ""
            maintenance.drop_windows(self.table, self.dropped_before, self.version, who=who, why=why)


def _list_steps(work: RunContext, record: TableRecord, rebuilt: LedgerRebuildResult) -> Iterator[_Step]:
    known = work.ledger.maintenance.known_claims(record.name)
    if record.kind == Kind.PUBLISH:
        yield from _list_deliveries(work, record, known)
        return
    folder = _folder(work, record)
    if not table_exists(folder):
        return
    targets = [
        claim.request.target_version for claim in work.ledger.claims.open() if claim.request.table == record.name
    ]
    commits = read_new_commits(folder, min([record.head_version, *targets]))
    if commits.missing:
        rebuilt.missing[record.name] = commits.missing
    last = datetime.fromtimestamp(0, tz=work.real_now().tzinfo)
    for commit in commits.found:
        last = max(last, commit.at)  # versions are in order, whatever the clocks of their writers were
        step = _build_step(work, folder, record, commit, known, rebuilt)
        if step is not None:
            yield replace(step, at=last)


def _build_step(
    work: RunContext,
    folder: str,
    record: TableRecord,
    commit: Commit,
    known: dict[int, str],
    rebuilt: LedgerRebuildResult,
) -> _Step | None:
    identity = commit.identity
    kind = None if identity is None else identity.kind
    before = None if identity is None or kind != REBUILT else identity.dropped_before
    dropped_before = None if before is None else datetime.fromisoformat(before)
    if commit.is_rewrite or kind == RESET or (identity is not None and kind == REBUILT and not identity.slices):
        reset_by = identity.claim if identity is not None and kind == RESET else 0  # 0: adds columns to a reset table
        is_new = commit.version > record.head_version
        step = _Step(record.name, commit.at, commit.version, None, dropped_before, reset_by, is_cut_anew=True)
        return step if is_new else None
    if identity is None:
        return None
    if identity.kind == RETAINED:
        return _Step(
            record.name, commit.at, commit.version, dropped_before=datetime.fromisoformat(identity.newest_label)
        )
    if identity.outcome != "data" or not identity.slices or known.get(identity.claim, "open") != "open":
        return None
    path = str(identity.slices[0])
    found = _read_commit_record(work, record, folder, identity.claim, path, commit.version, commit.at)
    if found is None:
        rebuilt.unknown.append(identity.claim)
        return None
    return _Step(record.name, commit.at, commit.version, found, dropped_before, is_cut_anew=True)


def _read_commit_record(
    work: RunContext, record: TableRecord, folder: str, claim: int, slice_path: str, version: int, at: datetime
) -> CommittedClaim | None:
    record_of_claim = read_claim_record(folder, slice_path)
    if record_of_claim is None:
        return None
    table = work.flow.tables.get(record.name)
    own = "" if table is None else table.fingerprint
    request, results = work.former.request(record_of_claim[0], record.name, own), record_of_claim[1]
    if table is None or request.declared != signature_of(table):  # a table is declared as it was or as it is now
        request = replace(request, declared={})
    return CommittedClaim(claim, request, tuple(replace(result, version=version) for result in results), at)


def _list_deliveries(work: RunContext, record: TableRecord, known: dict[int, str]) -> Iterator[_Step]:
    """Yield a publish's sealed claims that its destination has received. All if the project does not publish."""
    table = work.flow.tables.get(record.name)
    if table is None:
        return
    folder = _folder(work, record)
    for leaf in list_slice_folders(folder):
        if not leaf.is_sealed or known.get(leaf.claim, "open") != "open":
            continue
        found = _read_commit_record(work, record, folder, leaf.claim, leaf.path, -1, _read_sealing_time(folder, leaf))
        if found is None:
            continue  # the claim's record is in the slice of another label, or the delivery was never audited
        if find_delivery(work, table, leaf.claim):
            yield _Step(record.name, found.at, -1, found)


def _kill_unknown_claims(work: RunContext, record: TableRecord, rebuilt: LedgerRebuildResult) -> None:
    """Kill unknown claims with sealed slices, so that a runner that is only paused cannot commit them any more."""
    folder = _folder(work, record)
    known = work.ledger.maintenance.known_claims(record.name)
    strangers = {leaf.claim for leaf in list_slice_folders(folder)} - known.keys()
    table = work.flow.tables.get(record.name)
    for number in sorted(strangers - set(rebuilt.unknown)):
        if record.kind == Kind.PUBLISH:
            if table is not None:
                kill_delivery(work, table, number)
        elif table_exists(folder):
            kill_claim(folder, number, project=work.flow.project)
        rebuilt.killed += 1
    work.ledger.maintenance.raise_claims(max(strangers, default=0))


def _folder(work: RunContext, record: TableRecord) -> str:
    return work.lake.folder(f"publish/{record.name}" if record.kind == Kind.PUBLISH else record.name)


def _read_sealing_time(folder: str, leaf: SliceFolder) -> datetime:
    return read_manifest(folder, leaf.path).sealed_at
