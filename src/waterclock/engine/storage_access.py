"""Makes a project's object storage known to this process: by which options its bucket is reached."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.dpl.project import Project
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Secret
from waterclock.object_stores import is_remote, reach_by
from waterclock.secrets import Secrets


def reach_storage(project: Project) -> None:
    """Have the storage be reached as the project's environment says; nothing is asked of it.

    Raises  E225 for a secret that does not resolve, E607 for a scheme that is not known, E608 for an option that is
            none, or options of a storage that is a folder
    """
    options = resolved(project.storage_options, Secrets.of(project.secrets))
    if is_remote(project.storage):
        reach_by(project.storage, options)
    elif options:
        raise WaterclockError(
            "E608",
            "a folder has no storage_options",
            where=f"[env.{project.env}] storage_options",
            why=f"the storage is {project.storage}",
            fix="leave them out, or name a bucket: storage = 's3://bucket/prefix'",
        )


def resolved(options: Mapping[str, str | Secret], secrets: Secrets) -> dict[str, str]:
    """Return options with their secrets read.

    Raises  E225 for a secret that does not resolve
    """
    return {name: secrets.read(value.name) if isinstance(value, Secret) else value for name, value in options.items()}
