"""Refuses tables of another project whose links or paths lead out of its storage.

Links are followed with the permissions of this user, who may be able to read files that the project's owner may not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from waterclock.connectors.waterclock.project_location import real_path, unreadable_project_error
from waterclock.files.object_stores import is_remote
from waterclock.permissions.ownership import foreign_writer


def require_folder_within(storage: str, folder: str) -> None:
    """Raise E838 if the folder of a table is not in its storage, unless no other user can change the storage."""
    if is_remote(storage):
        is_within = ".." not in folder.split("/")
    else:
        is_within = not _can_others_change(storage) or real_path(Path(folder)).is_relative_to(real_path(Path(storage)))
    if not is_within:
        raise unreadable_project_error(folder, ValueError(f"it leads out of the storage {storage}"))


def require_no_links(storage: str, folder: str, paths: Iterable[str]) -> None:
    """Raise E838 if a file of a table, or a folder on its path, is a link, unless no other user can change the storage.

    Cost: some microseconds for each file. A link that is created after this check is followed.
    """
    if is_remote(storage) or not _can_others_change(storage):
        return
    checked: set[str] = set()
    for path in paths:
        parts = path.split("/")
        for step in ("/".join(parts[:end]) for end in range(1, len(parts) + 1)):
            if step not in checked and os.path.islink(f"{folder}/{step}"):  # noqa: PTH114 - thousands of Paths
                raise unreadable_project_error(f"{folder}/{step}", ValueError("it is a link"))
            checked.add(step)


def _can_others_change(storage: str) -> bool:
    try:
        return foreign_writer(Path(storage).stat(), storage) is not None
    except FileNotFoundError:
        return False  # there is nothing to read
    except OSError as error:
        raise unreadable_project_error(storage, error) from error
