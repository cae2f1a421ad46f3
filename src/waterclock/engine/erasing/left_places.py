"""Lists the places that an erasure does not erase, or cannot search, with the reason and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from waterclock.engine.branching.known_branches import KnownBranch, find_branches
from waterclock.engine.erasing.originals import ErasedOriginals
from waterclock.engine.erasing.request import ErasureRequest
from waterclock.engine.erasing.search import TableSearch
from waterclock.engine.run_context import RunContext
from waterclock.files.filesystem import entry_path, files_below, is_folder
from waterclock.flow.enums import Kind
from waterclock.storage.lake import STAGE
from waterclock.timelabel.label import label_of

DELIVERY = "publish "
"""The beginning of the name of a place that is a delivery."""
_NO_DELETIONS = frozenset({"kafka"})


@dataclass(frozen=True, slots=True)
class LeftPlace:
    """A place that may still contain rows or values of persons: the reason, and what to do."""

    place: str
    why: str
    fix: str


def find_left_places(
    work: RunContext, request: ErasureRequest, tables: Sequence[TableSearch], *, is_plan: bool = False
) -> tuple[LeftPlace, ...]:
    """Return the places that stay, apart from originals. `tables` are the searched tables of the subject.

    `is_plan`: they were searched before the erasure, which rewrites held batches of tables, and no held deliveries.
    """
    return (
        *_list_held([found for found in tables if found.kind is Kind.PUBLISH or not is_plan]),
        *_list_deliveries(work, tables),
        *_list_unsearchable(work, request),
        *_list_undeclared(request),
        *_list_earlier(request),
        *_list_folders(work),
        *_list_branches(work),
    )


def _list_held(tables: Sequence[TableSearch]) -> Iterator[LeftPlace]:
    for found in tables:
        what = "delivery" if found.kind is Kind.PUBLISH else "batch"
        for label in found.held:
            which = f"{found.table}@{label_of(label)}"
            yield LeftPlace(which, f"a held {what} contains rows", f"`waterclock retry {which}` or `skip`")


def _list_deliveries(work: RunContext, tables: Sequence[TableSearch]) -> Iterator[LeftPlace]:
    for found in tables:
        if found.kind is not Kind.PUBLISH:
            continue
        destination = work.flow.tables[found.table].destination
        kind = "" if destination is None else work.flow.connections[destination.connection].type
        if found.touched:
            why = f"{found.rows} rows are delivered; the destination keeps them until the next delivery"
            yield LeftPlace(f"{DELIVERY}{found.table}", why, "`waterclock run` delivers without them")
        elif kind in _NO_DELETIONS and is_folder(entry_path(work.lake.folder(f"publish/{found.table}"))):
            why = f"rows that were delivered to {kind} cannot be removed there"
            yield LeftPlace(f"{DELIVERY}{found.table}", why, "let them expire there")


def list_left_originals(originals: Sequence[ErasedOriginals]) -> Iterator[LeftPlace]:
    """Yield the originals that were not rewritten, or have rows that cannot be parsed."""
    for of in originals:
        if of.error:
            yield LeftPlace(f"originals of {of.table}", of.error, "solve it, then repeat the command with --continue")
        for each in of.files:
            if each.problem:
                yield LeftPlace(each.path, f"the original is not rewritten: {each.problem}", "rewrite it by hand")
            elif each.unread:
                why = f"{each.unread} rows cannot be parsed, so they cannot be searched"
                yield LeftPlace(each.path, why, "check these rows by hand")


def _list_unsearchable(work: RunContext, request: ErasureRequest) -> Iterator[LeftPlace]:
    for name, why in request.columns.unsearchable.items():
        table = work.flow.tables[name]
        if is_folder(entry_path(work.folder(table), STAGE)):
            fix = "add SUBJECT to a column that identifies the person, or recompute the table"
            yield LeftPlace(name, f"cannot be searched: {why}", fix)


def _list_undeclared(request: ErasureRequest) -> Iterator[LeftPlace]:
    for each in request.former:
        if each.reason:
            why = f"the flow does not declare it any more, and {each.reason}"
            yield LeftPlace(each.name, why, f"declare it again, or remove {each.folder} if it is not needed")


def _list_earlier(request: ErasureRequest) -> Iterator[LeftPlace]:
    for name, of in request.earlier.items():
        if of.reason:
            fix = f"`waterclock backfill {name} --changed`, and `maintain` once older slices are not kept any more"
            yield LeftPlace(name, f"an earlier declaration of it made some of its slices, and {of.reason}", fix)


def _list_folders(work: RunContext) -> Iterator[LeftPlace]:
    root = entry_path(work.lake.root)
    for name in ("views", "rebuild"):
        # Spark leaves objects without content in a bucket, which stand for folders
        if any(file.size for file in files_below(root / name)):
            why = "a running command uses it" if name == "views" else "an unfinished rebuild left it"
            yield LeftPlace(f"{name}/", why, "repeat the command with --continue later")


def _list_branches(work: RunContext) -> Iterator[LeftPlace]:
    """Yield the branches of this environment: tables that they computed contain copies of its rows."""
    for branch in find_branches(work.project.root):
        if _may_borrow(branch, work):
            why = "it may have computed rows from those of the person, and its ledger is a copy"
            yield LeftPlace(f"branch {branch.name}", why, f"`waterclock branch delete {branch.name}`")


def _may_borrow(branch: KnownBranch, work: RunContext) -> bool:
    bases = branch.project.bases
    return not bases or any(base.env == work.project.env or base.storage == work.project.storage for base in bases)
