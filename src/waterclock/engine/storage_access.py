"""Makes a project's object stores known to this process: the storage's, and those that connections read and write."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.dpl.project import Project
from waterclock.engine.connections import connections_of
from waterclock.flow.declarations import Secret
from waterclock.object_stores import is_remote, reach_by
from waterclock.secrets import Secrets


def reach_storage(project: Project) -> None:
    """Have the storage be reached as the project's environment says; nothing is asked of it.

    Raises  E225 for a secret that does not resolve, E609 for an endpoint that is no address
    """
    if is_remote(project.storage):
        reach_by(project.storage, resolved(project.storage_options, Secrets.of(project.secrets)))


def reach_all(project: Project) -> None:
    """Have each store that the project names be reached as its environment says; nothing is asked of any.

    Raises  as `reach_storage`
    """
    reach_storage(project)
    connections = connections_of(project)
    for name, said in project.flow.connections.items():
        if said.type == "files" and any(is_remote(str(said.options.get(key) or "")) for key in ("path", "archive")):
            connections.collector(name)


def resolved(options: Mapping[str, str | Secret], secrets: Secrets) -> dict[str, str]:
    """Return options with their secrets read.

    Raises  E225 for a secret that does not resolve
    """
    return {name: secrets.read(value.name) if isinstance(value, Secret) else value for name, value in options.items()}
