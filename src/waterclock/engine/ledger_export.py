"""Exports the ledger to the storage as chains of files, and finds the chain from which it can be rebuilt."""

from __future__ import annotations

from dataclasses import dataclass

from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.ledger_errors import unusable_export
from waterclock.ledger.store.export import ExportHead
from waterclock.storage.ledger_exports import export_name, export_names, first_line, remove_export, write_export

# The maximum number of exports in a chain, so that a rebuild reads few files. A chain is a full export and those that
# each add the changes since the one before. Only the newest two chains are kept.
MOST_IN_CHAIN = 30
_CHAINS_KEPT = 2


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of an export: its name below `ledger/`, its size, and the export whose changes it continues.

    `name` is None if nothing was written to the ledger since the newest export. `follows` is None for a full export.
    """

    name: str | None
    bytes: int = 0
    follows: str | None = None


def export_ledger(ledger: Ledger, root: str, *, is_whole: bool = False) -> ExportResult:
    """Write the ledger's changes since the newest export, or all of it if `is_whole`. Keep the newest two chains."""
    moment = ledger.maintenance.moment()
    known = list_exports(root)
    newest = next(((name, head) for name, head in known if moment.continues(head)), None)
    if newest is not None and newest[1].sequence == moment.sequence and not is_whole:
        return ExportResult(None)
    earlier = [newest] if newest is not None and not is_whole and _can_extend(root, newest[0]) else []
    lines = ledger.maintenance.export_lines(earlier)
    head_line = next(lines)
    head = ExportHead.of_line(head_line)
    name = export_name(ledger.now(), head.sequence)
    size = write_export(root, name, (line for part in ([head_line], lines) for line in part))
    _remove_old_exports(root)
    return ExportResult(name, size, head.follows)


def replace_exports(ledger: Ledger, root: str) -> int:
    """Export the whole ledger, then remove all earlier exports, which may quote erased values. Return their number."""
    newest = export_ledger(ledger, root, is_whole=True).name
    older = [name for name in export_names(root) if name != newest]
    for name in older:
        remove_export(root, name)
    return len(older)


def list_exports(root: str) -> list[tuple[str, ExportHead]]:
    """Return the exports of a storage with their headers, newest first. Unreadable exports are left out.

    Exports of one ledger are in the order of its sequence number: their names contain the time, and a clock may have
    been set back.
    """
    found = []
    for name in export_names(root):
        try:
            found.append((name, ExportHead.of_line(first_line(root, name))))
        except WaterclockError:
            continue
    return sorted(found, key=lambda each: (each[1].created_at, each[1].sequence, each[0]), reverse=True)


def chain_of(root: str, name: str) -> list[str]:
    """Return an export and all those that it continues, newest first. Raises E418 for a missing or damaged one."""
    by_name = dict(list_exports(root))
    chain = [name]
    while True:
        head = by_name.get(chain[-1])
        if head is None:
            raise unusable_export(f"{chain[-1]} is not there, or its first line cannot be read", f"{name} needs it")
        if head.follows is None:
            return chain
        chain.append(head.follows)


def _can_extend(root: str, name: str) -> bool:
    try:
        return len(chain_of(root, name)) < MOST_IN_CHAIN
    except WaterclockError:
        return False


def _remove_old_exports(root: str) -> None:
    """Remove the exports before the oldest full export that is still to be kept."""
    known = list_exports(root)
    whole = [name for name, head in known if head.follows is None]
    if len(whole) > _CHAINS_KEPT:
        order = [name for name, _ in known]
        kept = order[: order.index(whole[_CHAINS_KEPT - 1]) + 1]
        for name in export_names(root):
            if name not in kept and (name in order or name < min(kept)):
                remove_export(root, name)
