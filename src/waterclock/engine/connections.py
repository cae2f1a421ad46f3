"""The open connections of a project."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from pathlib import Path

from waterclock.connectors.interface import Collector, Deliverer, Setting
from waterclock.connectors.registry import connector
from waterclock.dpl.project import Project
from waterclock.filesystem import at
from waterclock.flow.declarations import Connection, Options, Unit, Value
from waterclock.secrets import Secrets


class Connections:
    """The open collectors and deliverers of a project; secrets are resolved when a connection is opened, not before."""

    def __init__(self, root: Path, archive: Path, connections: Mapping[str, Connection], secrets: Secrets) -> None:
        self._root = root
        self._archive = archive
        self._connections = connections
        self._secrets = secrets
        self._collectors: dict[str, Collector] = {}
        self._deliverers: dict[str, Deliverer] = {}
        self._lock = threading.Lock()

    def collector(self, name: str) -> Collector:
        """Return the source behind a connection."""
        with self._lock:
            if name not in self._collectors:
                self._collectors[name] = connector(self._connections[name].type).collector(self._setting(name))
            return self._collectors[name]

    def deliverer(self, name: str) -> Deliverer:
        """Return the destination behind a connection."""
        with self._lock:
            if name not in self._deliverers:
                self._deliverers[name] = connector(self._connections[name].type).deliverer(self._setting(name))
            return self._deliverers[name]

    def opened(self, unit: Unit) -> Unit:
        """Return the unit with its secrets resolved."""
        return dataclasses.replace(unit, options=self._resolved(unit.options))

    def _setting(self, name: str) -> Setting:
        return Setting(
            name=name,
            options=self._resolved(self._connections[name].options),
            folder=self._root,
            archive=self._archive,
        )

    def _resolved(self, options: Options) -> dict[str, Value]:
        return {key: self._secrets.value_of(value) for key, value in options.items()}


def connections_of(project: Project) -> Connections:
    """Return a project's connections, each opened when it is asked for; originals go below the storage."""
    return Connections(
        project.root, at(project.storage, "archive"), project.flow.connections, Secrets.of(project.secrets)
    )
