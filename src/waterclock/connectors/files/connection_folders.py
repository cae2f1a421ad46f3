"""Resolves the locations of a connection's files: local folders, or URLs of object stores."""

from __future__ import annotations

from pathlib import Path

from waterclock.connectors.files.landing import Landing
from waterclock.connectors.interface import Setting
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path
from waterclock.files.object_stores import OPTIONS, is_remote, register_bucket, store_of
from waterclock.flow.declarations import Unit
from waterclock.spark_sql import option_text


def folder_of(setting: Setting) -> Path:
    """Return the connection's folder; a relative path is below the project's folder.

    Raises E803 without a path; E607 for the URL of an unknown store.
    """
    path = str(setting.options.get("path") or "")
    if not path:
        raise WaterclockError(
            "E803",
            f"the connection {setting.name} has no path",
            where=setting.name,
            why="files are read from and written to a folder or a URL such as s3://bucket/folder",
            fix=f"add connections.{setting.name} = {{ path = 'data/new' }} to waterclock.toml",
        )
    return _resolve_folder(setting, path)


def resolve_landing(setting: Setting, unit: Unit) -> Landing:
    """Return the landing folder and the archive of a connection, with the options of a COLLECT from them."""
    archive = setting.options.get("archive")
    return Landing(
        folder=folder_of(setting),
        archive=_resolve_folder(setting, str(archive)) if archive else setting.archive / setting.name,
        stamp_zone=str(unit.options.get("stamp_zone", "UTC")),
        settle_seconds=float(str(unit.options.get("settle", 0))),
    )


def register_buckets(setting: Setting) -> None:
    """Register the buckets of a connection with its options. No request is sent.

    Raises E607 for an invalid URL, E608 for an unknown option, E609 for an invalid endpoint or a missing library.
    """
    store_options = {
        name: option_text(setting.options[name]) for name in OPTIONS if setting.options.get(name) is not None
    }
    for url in (str(setting.options.get(name) or "") for name in ("path", "archive")):
        if is_remote(url) and store_options:
            register_bucket(url, store_options)
        else:
            store_of(url)  # with options that were registered before, or with those of the environment


def _resolve_folder(setting: Setting, path: str) -> Path:
    """Resolve a path to a folder, including `..`, which Spark would otherwise resolve in the names that it returns."""
    if is_remote(path):
        return entry_path(path)
    folder = setting.folder / path
    return folder.resolve() if ".." in folder.parts else folder
