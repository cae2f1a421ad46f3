"""Finds the logs that sources keep for the tables of an opened project, and for removed tables."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from waterclock.operations.held_logs import HeldLog, held_logs

if TYPE_CHECKING:
    from waterclock.operations.opening import OpenedProject


def list_held_logs(at: OpenedProject, names: Collection[str]) -> list[HeldLog]:
    """Return the kept logs of some tables, as runs last saw them. If all tables are given, include removed tables."""
    if at.ledger is None:
        return []
    gone: list[str] = []
    if len(names) == len(at.flow.tables):
        gone = [record.name for record in at.ledger.reads.tables() if record.name not in at.flow.tables]
    return held_logs(at.flow, at.ledger.past, names, gone)
