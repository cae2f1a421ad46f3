"""Finds the ledger and the storage of another project by the options of a connection."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waterclock.connectors.interface import ProjectPlace, Setting
from waterclock.dpl.config.file_name import FILE
from waterclock.errors import WaterclockError
from waterclock.files.object_stores import is_remote
from waterclock.permissions.project_trust import read_trusted_file, require_trusted_folder

_SQLITE_FILE = "sqlite:///"


def leads_to(place: ProjectPlace, options: Mapping[str, Any], own: ProjectPlace) -> bool:
    """Return whether a connection that another project declares refers to this project.

    `place` is the other project, `options` are those of its connection, and `own` is this project.
    """
    texts = {key: value for key, value in options.items() if isinstance(value, str)}
    root = place.root or Path()
    is_path = "path" in texts and own.root is not None and real_path(root / texts["path"]) == real_path(own.root)
    is_storage = "storage" in texts and resolve_location(root, texts["storage"]) == resolve_location(root, own.storage)
    return is_path or is_storage or texts.get("ledger") == own.ledger


def locate_project(setting: Setting) -> ProjectPlace:
    """Return the location of the project to which a connection refers.

    Raises E833 if there is no such project, E838 for an unreadable file.
    """
    options = {name: str(value) for name, value in setting.options.items() if value is not None}
    if "path" in options:
        return _locate_in_folder(setting, real_path(setting.folder / options["path"]), options)
    if "storage" not in options:
        raise _missing_project_error(
            setting,
            f"connection {setting.name} has neither path nor storage",
            "set path to the folder of the other project",
        )
    storage = resolve_location(setting.folder, options["storage"])
    return ProjectPlace(_resolve_ledger(setting.folder, options, storage), storage)


def real_path(path: Path) -> Path:
    """Return a path with all links resolved. Circular links remain unresolved, so that opening the path is an error."""
    return Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for them


def resolve_location(folder: Path, location: str) -> str:
    """Return a URL unchanged, and a path resolved from a folder."""
    return location if is_remote(location) else str(real_path(folder / location))


def _locate_in_folder(setting: Setting, root: Path, options: Mapping[str, str]) -> ProjectPlace:
    from waterclock.dpl.config.model import read_config
    from waterclock.dpl.project import addresses

    file = root / FILE
    try:
        if file.exists() and not file.is_file():
            raise _missing_project_error(
                setting, f"{file} is not a file", "set path to the folder of the other project"
            )
        text = file.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        what = f"there is no {FILE}" if root.is_dir() else "there is no such folder"
        raise _missing_project_error(
            setting, f"{root}: {what}", "set path to the folder of the other project's waterclock.toml"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable_project_error(str(file), error) from error
    config, errors = read_config(text, env=options.get("env"))
    if config is None or any(error.code == "E243" for error in errors):
        why = errors[0] if errors else None
        raise _missing_project_error(
            setting,
            f"{file}: {why.what if why else 'it cannot be read'}",
            (why.fix if why and why.code == "E243" else None) or "correct that project's file, or set storage",
        )
    storage, ledger = addresses(root, config)
    storage = resolve_location(setting.folder, options["storage"]) if "storage" in options else storage
    if "ledger" in options:
        ledger = _resolve_ledger(setting.folder, options, storage)
    if not isinstance(ledger, str):
        raise _missing_project_error(
            setting,
            f"the ledger of {root} is given by a secret of that project",
            f'set ledger = {{ secret = "..." }} to a secret of this project in connection {setting.name}',
        )
    if "storage" not in options and not _is_within(storage, root):
        _require_trusted_file(setting, file, root, f"the storage {storage}", "storage")
    if "ledger" not in options and not _is_within(ledger.removeprefix(_SQLITE_FILE), root):
        where = "a ledger outside of its folder" if ledger.startswith(_SQLITE_FILE) else "a ledger at a server"
        _require_trusted_file(setting, file, root, where, "ledger")
    return ProjectPlace(ledger, storage, root, config.environment.connections)


def _is_within(location: str, root: Path) -> bool:
    """Return whether a path leads into a folder, with all links followed. A URL never does."""
    return "://" not in location and real_path(Path(location)).is_relative_to(root)


def _require_trusted_file(setting: Setting, file: Path, root: Path, what: str, option: str) -> None:
    """Raise E833 if another user of this machine can change the project file that names a location outside its folder.

    That user could make this process read a storage that only this user may read. If the location is a ledger's server,
    libpq would send it the passwords that it finds in the environment and in files, whatever host the URL names.
    """
    try:
        require_trusted_folder(root)
        read_trusted_file(file, root)
    except WaterclockError as error:
        raise _missing_project_error(
            setting,
            f"{file} names {what}, and another user can change the file: {error.why}",
            f"set {option} in connection {setting.name} of this project",
        ) from error


def _resolve_ledger(folder: Path, options: Mapping[str, str], storage: str) -> str:
    url = options.get("ledger")
    if url is None:
        return f"{_SQLITE_FILE}{storage}/ledger.db"
    if url.startswith(_SQLITE_FILE):
        return f"{_SQLITE_FILE}{folder / url.removeprefix(_SQLITE_FILE)}"
    return url


def _missing_project_error(setting: Setting, why: str, fix: str) -> WaterclockError:
    return WaterclockError(
        "E833", "the other project cannot be found", where=f"connection {setting.name}", why=why, fix=fix
    )


def unreadable_project_error(where: str, error: BaseException) -> WaterclockError:
    """Build the error for a file of the other project that cannot be read."""
    owner = "this user" if sys.platform != "win32" else "this account"
    return WaterclockError(
        "E838",
        "the other project cannot be read",
        where=where,
        why=f"{type(error).__name__}: {error}",
        fix=f"allow {owner} to read its ledger and its tables; nothing is written there",
        transient=isinstance(error, OSError) and not isinstance(error, PermissionError),
    )


def invalid_value_error(where: str, error: BaseException) -> WaterclockError:
    """Build the error for a value in the other project's ledger that Waterclock never writes."""
    return WaterclockError(
        "E838",
        "the other project cannot be read",
        where=where,
        why=f"its ledger has a value that cannot be read ({type(error).__name__}: {error})",
        fix="run `waterclock status` in the other project; if its ledger is damaged, `waterclock ledger rebuild` there",
    )
