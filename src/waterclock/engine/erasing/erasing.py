"""Erases persons: finds their rows, carries out the steps, and returns the results and the places that are left.

Each step may be repeated, and is recorded once it is done. A killed erasure repeats the steps without a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from waterclock.batches.erasures import Erasure
from waterclock.engine.erasing.held_slices import rewrite_held_slices
from waterclock.engine.erasing.left_places import LeftPlace, find_left_places, list_left_originals
from waterclock.engine.erasing.originals import ErasedOriginals, erase_originals
from waterclock.engine.erasing.proof import places_of_hits, search_project
from waterclock.engine.erasing.purge import purge_storage, purge_table
from waterclock.engine.erasing.request import ErasureRequest, hashes_under, require_no_value
from waterclock.engine.erasing.search import TableSearch, search_table, searched_places
from waterclock.engine.erasing.slices import rewrite_table, slices_step, wait_for_claims
from waterclock.engine.ledger_export import replace_exports
from waterclock.engine.maintenance.rebuild_lock import require_no_running_rebuild
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError, raise_all
from waterclock.faults import fault
from waterclock.flow.declarations import Table
from waterclock.flow.enums import Kind
from waterclock.ledger.ledger_errors import changed_declaration_error
from waterclock.storage.erasure_files import write_erasure
from waterclock.storage.lake import vault_folder
from waterclock.storage.search.byte_search import SearchResult
from waterclock.storage.token_vault import remove_values

STORAGE_STEP = "folders"
TOKENS_STEP = "tokens"
_CLOCKS_APART = timedelta(minutes=1)
PAUSE = "pause of "
"""The beginning of the name of a step that is no result: whether a table is paused while its past is removed."""


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """The places with rows of persons, and those that this erasure will leave. `unfinished` is the one it continues."""

    request: ErasureRequest
    tables: tuple[TableSearch, ...]
    originals: tuple[ErasedOriginals, ...]
    left: tuple[LeftPlace, ...]
    unfinished: Erasure | None = None


@dataclass(frozen=True, slots=True)
class ErasureResult:
    """The recorded erasure with its steps, the places that are left, and the search of all files."""

    erasure: Erasure
    left: tuple[LeftPlace, ...]
    search: SearchResult


def plan_erasure(work: RunContext, request: ErasureRequest, *, continues: bool) -> ErasurePlan:
    """Find all places with rows of persons. Changes nothing, and starts no JVM.

    Raises E463 for an unfinished erasure of the same persons, or without one that is to be continued, E405 for a table
    whose changed declaration must be rebuilt first, E644 during a rebuild of all tables.
    """
    require_no_running_rebuild(work, is_read_only=True)
    unfinished = _find_unfinished(work, request, continues=continues)
    places = searched_places(work, request)
    contexts = {id(of_table): of_table for of_table, _ in places}
    differing = {of: work.ledger.maintenance.differences(each.flow) for of, each in contexts.items()}
    raise_all(
        [
            changed_declaration_error(table.name, changed, str(table.place))
            for of_table, table in places
            if (changed := differing[id(of_table)].get(table.name)) is not None
        ]
    )
    found = tuple(search_table(of_table, request, table) for of_table, table in places)
    originals = tuple(erase_originals(work, request, is_dry_run=True))
    left = (*find_left_places(work, request, found, is_plan=True), *list_left_originals(originals))
    return ErasurePlan(request, found, originals, left, unfinished)


def erase(work: RunContext, plan: ErasurePlan, *, why: str) -> ErasureResult:
    """Carry out an erasure, or continue the unfinished one of the plan. Raises the first error; it may be continued."""
    require_no_running_rebuild(work)
    request, erasures, who = plan.request, work.ledger.erasures, work.settings.who
    require_no_value(request, why)
    number = (
        erasures.begin(request.subject, request.key, sorted(request.hashes), request.columns.columns, who=who, why=why)
        if plan.unfinished is None
        else plan.unfinished.number
    )
    fault("erase.begun")
    write_erasure(work.lake.root, _erasure(work, number))
    fault("erase.stored")
    places = searched_places(work, request)
    _wait_for_batches(work, places)
    for of_table, table in [each for each in places if each[1].kind is not Kind.PUBLISH]:
        found = rewrite_table(of_table, request, number, table)
        if not found.is_empty:
            erasures.record_step(number, _found_step(table), _counts(found))
        if work.ledger.reads.held_labels(table.name):  # also without rows: a killed erasure may have left files there
            counts = rewrite_held_slices(of_table, request, table)
            if counts["labels"]:
                _add_to_step(work, number, f"held batches of {table.name}", counts)
        fault("erase.rewritten")
    _wait_for_batches(work, places)  # they may read the former slices
    for of_table, table in places:
        _purge(of_table, request, number, table)
    _add_to_step(work, number, STORAGE_STEP, purge_storage(work))
    fault("erase.purged")
    originals = erase_originals(work, request)
    for of in originals:
        _add_to_step(work, number, f"originals of {of.table}", {"files": of.touched, "rows": of.rows})
    fault("erase.originals")
    texts = erasures.redact_texts(sorted(request.searched))
    _add_to_step(
        work, number, "texts of the ledger", {"texts": texts, "exports": replace_exports(work.ledger, work.lake.root)}
    )
    fault("erase.texts")
    after = [search_table(of_table, request, table) for of_table, table in places]
    left = (*find_left_places(work, request, after), *list_left_originals(originals))
    if not left:  # until then, `--continue` needs the tokens to find the rows
        _erase_tokens(work, request, number)
    fault("erase.searched")
    search = search_project(work, request)
    left += places_of_hits(work, request, search, left)
    if not left:
        erasures.finish(number, who=who)
    return ErasureResult(_erasure(work, number), left, search)


def _wait_for_batches(work: RunContext, places: Sequence[tuple[RunContext, Table]]) -> None:
    """Wait for all open claims. Those of tables that are not declared any more are taken over by their own flow."""
    names: dict[str, RunContext] = {table.name: of_table for of_table, table in places if of_table is not work}
    for claim in work.ledger.claims.open():
        if (of_table := names.get(claim.request.table)) is not None:
            wait_for_claims(of_table, [claim.number])
    wait_for_claims(work)


def _erase_tokens(work: RunContext, request: ErasureRequest, number: int) -> None:
    """Remove the persons' values and tokens from the vault, so that nothing connects the two any more."""
    if request.tokens:
        work.ledger.erasures.record_step(number, TOKENS_STEP, {"tokens": len(request.tokens)})
    # files of killed batches are removed; an open batch, whose number is the time of its claim, may commit its own
    numbers = [claim.number for claim in work.ledger.claims.open()]
    begun = min([work.real_now(), *(datetime.fromtimestamp(number / 1000, tz=UTC) for number in numbers)])
    remove_values(
        vault_folder(work.lake.root, request.subject), request.values, work.project.name, begun - _CLOCKS_APART
    )


def _add_to_step(work: RunContext, number: int, step: str, counts: Mapping[str, int]) -> None:
    """Record a step that is repeated when the erasure continues: its counts add up."""
    before: Mapping[str, int] = _erasure(work, number).steps.get(step, {})
    total = {name: count + before.get(name, 0) for name, count in counts.items()}
    work.ledger.erasures.record_step(number, step, total)


def _purge(work: RunContext, request: ErasureRequest, number: int, table: Table) -> None:
    """Remove older slices and versions of a table in which rows were found, now or before a kill."""
    found = search_table(work, request, table)
    steps = _erasure(work, number).steps
    is_pending = (slices_step(table.name) in steps or _found_step(table) in steps) and _purge_step(table) not in steps
    was_killed = bool(steps.get(_pause_step(table), {}).get("open"))
    if not (found.older or is_pending or was_killed):
        return
    if _found_step(table) not in steps:
        work.ledger.erasures.record_step(number, _found_step(table), _counts(found))
    # recorded before the table is paused: after a kill, the erasure ends the pause even if no rows are left there
    work.ledger.erasures.record_step(number, _pause_step(table), {"open": 1})
    removed = purge_table(work, table, found)
    _add_to_step(work, number, _purge_step(table), removed)
    work.ledger.erasures.record_step(number, _pause_step(table), {"open": 0})


def _find_unfinished(work: RunContext, request: ErasureRequest, *, continues: bool) -> Erasure | None:
    recorded = [
        each
        for each in work.ledger.erasures.list()
        if each.finished_at is None
        and each.subject == request.subject
        and each.hashes & hashes_under(work, request, each)
    ]
    same = next((each for each in recorded if _is_same(each, hashes_under(work, request, each))), None)
    if continues:
        if same is None:
            raise _unfinished_error(
                "there is no unfinished erasure of exactly these persons",
                why=f"{len(recorded)} unfinished ones contain some of them" if recorded else "",
                fix="name the same persons as before, or leave out --continue",
            )
        return same
    if recorded:
        raise _unfinished_error(
            f"erasure {recorded[0].number} of these persons is not finished",
            why=f"{recorded[0].who} began it; its rows are not erased everywhere yet",
            fix="repeat the command with --continue, with the persons of that erasure",
        )
    return None


def _is_same(erasure: Erasure, hashes: frozenset[str]) -> bool:
    """Return whether an erasure has exactly these persons. Those whose tokens it has removed have no hashes of them."""
    tokens = erasure.steps.get(TOKENS_STEP, {}).get("tokens", 0)
    return erasure.hashes == hashes or (hashes <= erasure.hashes and len(erasure.hashes - hashes) == tokens)


def _unfinished_error(what: str, *, why: str, fix: str) -> WaterclockError:
    return WaterclockError("E463", what, why=why or None, fix=fix)


def _erasure(work: RunContext, number: int) -> Erasure:
    return next(each for each in work.ledger.erasures.list() if each.number == number)


def _found_step(table: Table) -> str:
    return f"search of {table.name}"


def _pause_step(table: Table) -> str:
    return f"{PAUSE}{table.name}"


def _purge_step(table: Table) -> str:
    return f"past of {table.name}"


def _counts(found: TableSearch) -> dict[str, int]:
    return {
        "rows": found.rows,
        "quarantined": found.aside_rows,
        "labels": len(found.touched),
        "older slices": len(found.older),
    }
