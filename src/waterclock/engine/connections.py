"""Opens and caches the connections of a project."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.drivers import require_driver
from waterclock.connectors.interface import Collector, Connector, Setting
from waterclock.connectors.registry import connector
from waterclock.dpl.project import Project
from waterclock.files.filesystem import entry_path
from waterclock.flow.declarations import Connection, Options, Unit, Value
from waterclock.secrets.reader import Secrets

T = TypeVar("T")


class Connections:
    """The open collectors and deliverers of a project.

    Secrets are resolved each time a connection is requested. If a secret has changed, the open connection is replaced,
    so that a runner survives the rotation of secrets.
    """

    def __init__(self, root: Path, archive: Path, connections: Mapping[str, Connection], secrets: Secrets) -> None:
        self._root = root
        self._archive = archive
        self._connections = connections
        self._secrets = secrets
        self._collectors: dict[str, tuple[Setting, Collector]] = {}
        self._deliverers: dict[str, tuple[Setting, Deliverer]] = {}
        self._lock = threading.Lock()

    def collector(self, name: str) -> Collector:
        """Return the collector of a connection. Raises E825 if its driver is not installed."""
        return self._open(self._collectors, name, lambda setting: self._connector(name).collector(setting))

    def deliverer(self, name: str) -> Deliverer:
        """Return the deliverer of a connection. Raises E825 if its driver is not installed."""
        return self._open(self._deliverers, name, lambda setting: self._connector(name).deliverer(setting))

    def _open(self, opened: dict[str, tuple[Setting, T]], name: str, build: Callable[[Setting], T]) -> T:
        """Return the opened object of a connection. It is built again if the setting has changed."""
        setting = self._setting(name)
        with self._lock:
            found = opened.get(name)
            if found is None or found[0] != setting:
                found = opened[name] = setting, build(setting)
            return found[1]

    def resolve_unit(self, unit: Unit) -> Unit:
        """Return a copy of the unit (an object of a connection, such as a table or a path) with secrets resolved."""
        return dataclasses.replace(unit, options=self._resolve_options(unit.options))

    def _connector(self, name: str) -> Connector:
        found = connector(self._connections[name].type)
        require_driver(found.capabilities, name)
        return found

    def _setting(self, name: str) -> Setting:
        return Setting(
            name=name,
            options=self._resolve_options(self._connections[name].options),
            folder=self._root,
            archive=self._archive,
        )

    def _resolve_options(self, options: Options) -> dict[str, Value]:
        return {key: self._secrets.value_of(value) for key, value in options.items()}


def connections_of(project: Project) -> Connections:
    """Build a project's `Connections`, each opened on first use. Original files are archived below the storage."""
    return Connections(
        project.root,
        entry_path(project.storage, "archive"),
        project.flow.connections,
        Secrets.from_places(project.secrets),
    )
