"""Searches the bytes of all files of a project for values of erased persons, as the proof of an erasure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from waterclock.engine.erasing.left_places import LeftPlace
from waterclock.engine.erasing.originals import search_originals
from waterclock.engine.erasing.request import ErasureRequest
from waterclock.engine.ledger_opening import ledger_url
from waterclock.engine.run_context import RunContext
from waterclock.storage.search.byte_search import ByteHit, ByteSearch, SearchResult

_FILE = "sqlite:///"


def search_project(work: RunContext, request: ErasureRequest) -> SearchResult:
    """Search the storage, the work folder, the ledger's file, and forms. Cost: a read of all files."""
    roots = [work.lake.root, str(work.project.work_folder)]
    ledger = ledger_url(work.project)
    if ledger.startswith(_FILE):
        roots.append(ledger.removeprefix(_FILE))
    search = ByteSearch(
        sorted(request.searched), {name for table in request.columns.columns for name in request.columns_of(table)}
    )
    for root in roots:
        if "://" in root or Path(root).exists():
            search.search_below(root)
    search_originals(work, request, search)
    return search.result()


def places_of_hits(
    work: RunContext, request: ErasureRequest, found: SearchResult, known: tuple[LeftPlace, ...]
) -> tuple[LeftPlace, ...]:
    """Return tables and files with values, and files that cannot be searched.

    Files of deliveries and of undeclared tables in `known` places are left out.
    """
    former = {each.name: each.folder for each in request.former}
    explained = tuple(
        f"publish/{each.place.removeprefix('publish ')}/"
        if each.place.startswith("publish ")
        else f"{work.lake.location(each.place)}/"
        for each in known
        if each.place.startswith("publish ") or each.place in former
    )
    by_place: dict[str, list[ByteHit]] = {}
    for hit in found.hits:
        name = hit.path.removeprefix(work.lake.root).lstrip("/")
        if not name.startswith(explained):
            by_place.setdefault(_table_of(work, name, former) or name, []).append(hit)
    places = [
        LeftPlace(
            name,
            f"contains {sum(hit.count for hit in hits)} values: {hits[0].where}",
            f"remove {former[name]} if it is not needed"
            if name in former
            else _fix_of(name, is_table=name in work.flow.tables),
        )
        for name, hits in by_place.items()
    ]
    places += [LeftPlace(path, f"cannot be searched: {why}", "check it by hand") for path, why in found.unsearched]
    if not ledger_url(work.project).startswith(_FILE):
        places.append(
            LeftPlace("the ledger", "its server is not searched", "search its columns of texts, and its backups")
        )
    return tuple(places)


def _table_of(work: RunContext, name: str, former: Iterable[str]) -> str | None:
    """Return the table to which a file of the storage belongs, also an undeclared one, or None."""
    tables = (*work.flow.tables, *former)
    return next((table for table in tables if name.startswith(f"{work.lake.location(table)}/")), None)


def _fix_of(place: str, *, is_table: bool) -> str:
    if is_table:
        return "add SUBJECT to its column that identifies the person, then repeat the command with --continue"
    if place.startswith(("log/", "spark/", "queries/")):
        return "remove it while no command runs"
    return "repeat the command with --continue; if it stays, remove or rewrite it by hand"
