"""Reports received files that are not collected yet, for sources to which writers on this machine add continuously."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from waterclock.connectors.interface import PendingData, SealingCollector, Setting
from waterclock.connectors.registry import connector
from waterclock.flow.declarations import Secret
from waterclock.operations.formatting import bytes_words, count_words

if TYPE_CHECKING:
    from waterclock.operations.project_opening import OpenedProject


def find_waiting_files(at: OpenedProject, names: Collection[str]) -> dict[str, PendingData]:
    """Map each table with received, uncollected files to their number and size. Cost: a listing for each table."""
    found: dict[str, PendingData] = {}
    for name in names:
        source = at.flow.tables[name].source
        if source is None:
            continue
        connection = at.flow.connections[source.unit.connection]
        kind = connector(connection.type)
        if not kind.capabilities.seals:
            continue
        plain = {key: value for key, value in connection.options.items() if not isinstance(value, Secret)}
        collector = kind.collector(Setting(connection.name, plain, at.project.root, at.project.root))
        if isinstance(collector, SealingCollector):
            waiting = collector.find_pending(source.unit)
            if waiting.files:
                found[name] = waiting
    return found


def received_lines(found: Mapping[str, PendingData]) -> list[str]:
    """Format the waiting files of each table in a line."""
    return [
        f"{name}: {count_words(it.files, 'file')} of {bytes_words(it.size)} received since {it.since:%Y-%m-%d %H:%MZ}"
        f"{', and still written' if it.is_open else ''}"
        for name, it in found.items()
    ]
