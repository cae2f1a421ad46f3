"""Registers object stores in this process: that of a project's storage, and those of its tables' connections."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from waterclock.dpl.project import Project
from waterclock.engine.connections import connections_of
from waterclock.files.object_stores import Store, is_remote, register_bucket, store_of
from waterclock.flow.declarations import Flow, Secret
from waterclock.secrets.reader import Secrets


def reach_storage(project: Project) -> None:
    """Register the access options of the storage's object store, without connecting to it. Raises E225, E609."""
    if is_remote(project.storage):
        register_bucket(project.storage, resolve_options(project.storage_options, Secrets.from_places(project.secrets)))


def reach_all(project: Project, tables: Collection[str] | None = None) -> tuple[Store, ...]:
    """Register the access options of the object stores that tables use, and return them, the storage's first.

    `tables` are those of the connections, by default all. The secrets of other connections are not read.
    Raises E225, E609.
    """
    reach_storage(project)
    connections, urls = connections_of(project), [project.storage]
    used = connections_used(project.flow, tables)
    for name, connection in project.flow.connections.items():
        if name not in used:
            continue
        named = [str(connection.options.get(key) or "") for key in ("path", "archive")]
        if connection.type == "files" and any(map(is_remote, named)):
            connections.collector(name)
            urls += named
    return tuple(dict.fromkeys(store for store in map(store_of, urls) if store is not None))


def connections_used(flow: Flow, tables: Collection[str] | None) -> frozenset[str]:
    """Return the names of the connections that tables collect from or publish to; those of all tables for None."""
    units = (
        unit
        for name, table in flow.tables.items()
        if tables is None or name in tables
        for unit in (table.source.unit if table.source is not None else None, table.destination)
    )
    return frozenset(unit.connection for unit in units if unit is not None)


def resolve_options(options: Mapping[str, str | Secret], secrets: Secrets) -> dict[str, str]:
    """Return options with their secrets resolved. Raises E225 for a secret that does not resolve."""
    return {name: secrets.read(value.name) if isinstance(value, Secret) else value for name, value in options.items()}
