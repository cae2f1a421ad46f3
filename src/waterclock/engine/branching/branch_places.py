"""Checks that the storage and the ledger of a branch are its own alone, and removes what is in them.

Every path may be from the project file or from a file of a repository. Deleting a branch must never delete anything
else, so each other environment, created branch and recorded base is compared, with links followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from waterclock.dpl.config.branches import BRANCH_FILE, BRANCHES, is_branch_name
from waterclock.dpl.project import Project
from waterclock.engine.branching.branch_state import BranchState
from waterclock.engine.ledger_opening import ledger_url
from waterclock.errors import WaterclockError
from waterclock.faults import fault
from waterclock.files.filesystem import entry_path, file_exists, files_below, remove_file, remove_folder
from waterclock.files.object_stores import is_remote
from waterclock.storage.ledger_exports import FOLDER as LEDGER_EXPORTS

_SQLITE = "sqlite:///"
_MADE_BY_A_RUN = ("rebuilding",)


def places_of(projects: Iterable[Project]) -> tuple[str, ...]:
    """Return the storages and the ledger files of environments. Ledgers on servers are left out."""
    return tuple(dict.fromkeys(place for project in projects for place in _places(project)))


def require_empty_storage(project: Project) -> None:
    """Raise E476 if the ledger of a branch is on a server, or its storage contains files of others."""
    if ledger_file(project) is None:
        raise unusable_storage_error(project, "its ledger is on a server")
    if has_files_of_others(entry_path(project.storage)):
        raise unusable_storage_error(
            project, f"{project.storage} contains files, and deleting the branch would delete them"
        )


def require_own_storage(project: Project, others: Iterable[Project], state: BranchState | None) -> None:
    """Raise E476 if removing the contents of a branch would remove files of others.

    `others` are the other environments of the project; ledgers whose URL is a secret are not compared. Links are
    followed, so that another spelling of a folder is that folder. A branch whose base is unknown must have the default
    storage, or have recorded what it borrows from. Outside of the project, it must borrow from the recorded storages.
    """
    if not is_branch_name(project.env):
        raise unusable_storage_error(project, "a branch's name is also the name of a folder: letters, digits, _, -, .")
    bases = {base.env for base in project.bases}
    own, recorded = _real_folder(project.storage), () if state is None else state.places
    for other in (*project.base_projects, *others):
        folder = _real_folder(other.storage)
        if own.startswith(folder) or folder.startswith(own):
            raise unusable_storage_error(project, f"{project.storage} overlaps the storage of {other.env}")
        is_known = isinstance(other.ledger, str) or (not recorded and other.env in bases)
        if is_known and (file := ledger_file(other)) is not None and _real_folder(file).startswith(own):
            raise unusable_storage_error(project, f"{project.storage} contains the ledger of {other.env}")
    for place in recorded:
        folder = _real_folder(place)
        if own.startswith(folder) or folder.startswith(own):
            raise unusable_storage_error(project, f"{project.storage} overlaps {place}, which {project.env} borrows")
    _require_recorded_bases(project, recorded)
    if not is_remote(project.storage):
        if _real_folder(project.root).startswith(own):
            raise unusable_storage_error(project, f"{project.storage} contains the project")
        if link := _find_link(project):
            raise unusable_storage_error(project, f"{link} is a link")
    if not project.bases and not _is_default_storage(project) and not recorded:
        raise unusable_storage_error(project, "the environment that it borrows from is unknown, and may use it")
    file = ledger_file(project)
    if file is not None and not _real_folder(file).startswith(_real_folder(project.work_folder)):
        raise unusable_storage_error(project, f"its ledger {file} is not in {project.work_folder}")


def _require_recorded_bases(project: Project, recorded: Sequence[str]) -> None:
    """Raise E476 if a storage outside of the project is that of a branch that borrows from other storages."""
    if not project.bases or not recorded or _real_folder(project.storage).startswith(_real_folder(project.root)):
        return
    folders = {_real_folder(place) for place in recorded}
    if folders.isdisjoint(_real_folder(base.storage) for base in project.base_projects):
        raise unusable_storage_error(project, f"{project.storage} is that of a branch of {recorded[0]}")


def require_branch_name(name: str) -> None:
    """Raise E476 for a name that no folder of a branch can have."""
    if not is_branch_name(name):
        raise WaterclockError(
            "E476",
            f"{name!r} cannot be the name of a branch",
            why="it is also the name of a folder",
            fix="use letters, digits, _, - and .",
        )


def require_no_linked_folder(root: Path, name: str) -> None:
    """Raise E476 if the folder of a branch without a section is a link, or in one: it may be a folder of others."""
    for path in (root / BRANCHES, root / BRANCHES / name):
        if path.is_symlink():
            raise WaterclockError(
                "E476",
                f"{name} cannot use this storage as a branch",
                where=str(path),
                why=f"{path} is a link",
                fix=f"remove the link {path}",
            )


def has_files_of_others(folder: Path) -> bool:
    """Return whether a folder contains files, but not that of a branch: deleting the branch would delete them.

    A killed process may have left a version of the branch's file that was not in place yet: it does not count.
    """
    if file_exists(folder / BRANCH_FILE):
        return False
    # markers of folders remain in an object store where tables were deleted
    found = (file for file in files_below(folder) if file.size or not is_remote(folder))
    return any(not file.path.startswith(f".{BRANCH_FILE}.") for file in found)


def remove_contents(project: Project) -> None:
    """Remove the ledger and the files of a branch, except its own file. Links are removed, never their targets."""
    file = ledger_file(project)
    if file is not None:
        for suffix in ("", "-wal", "-shm"):
            for name in (file.name, *(f"{file.name}.{made}" for made in _MADE_BY_A_RUN)):
                remove_file(file.with_name(f"{name}{suffix}"))
    fault("branch ledger removed")
    if is_remote(project.storage):
        for folder in ("tables", "history", "publish", LEDGER_EXPORTS):
            remove_folder(entry_path(project.storage, folder))
        return
    root = entry_path(project.storage)
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            remove_folder(path)
        elif path.name != BRANCH_FILE:
            remove_file(path)


def ledger_file(project: Project) -> Path | None:
    """Return the path of a ledger in a file; None for one on a server. Raises E225 if its secret does not resolve."""
    url = ledger_url(project)
    return Path(url.removeprefix(_SQLITE).partition("?")[0]) if url.startswith(_SQLITE) else None


def unusable_storage_error(project: Project, why: str) -> WaterclockError:
    """Build the error for a storage that a branch cannot have."""
    where = f"[env.{project.env}]"
    return WaterclockError(
        "E476",
        f"{project.env} cannot use this storage as a branch",
        where=where,
        why=why,
        fix=f"leave storage and ledger out of {where}, or name an empty folder",
    )


def _places(project: Project) -> Iterator[str]:
    yield project.storage
    if (file := ledger_file(project)) is not None:
        yield str(file)


def _find_link(project: Project) -> Path | None:
    """Return the storage, or the folder around it in the project, that is a link; None if none is."""
    storage = Path(project.storage)
    if storage.is_symlink():
        return storage
    if not storage.is_relative_to(project.root):
        return None
    inside = storage.parents[: len(storage.parts) - len(project.root.parts) - 1]
    return next((path for path in inside if path.is_symlink()), None)


def _is_default_storage(project: Project) -> bool:
    return project.storage == str(project.root / BRANCHES / project.env)


def _real_folder(path: str | Path) -> str:
    """Return a location with a slash at its end; of a local one the path without links."""
    return f"{str(path).rstrip('/') if is_remote(path) else os.path.realpath(path).rstrip('/')}/"
