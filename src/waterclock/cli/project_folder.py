"""Finds the project folder for a command."""

from __future__ import annotations

from pathlib import Path

FILE = "waterclock.toml"


def project_folder(option: str | Path | None) -> Path:
    """Return the given folder, or else the nearest one with a project file, from the current folder upward."""
    return project_above(Path()) if option is None else Path(option)


def project_above(folder: Path) -> Path:
    """Return the nearest folder with a project file, from this one upward, or this folder if there is none."""
    if (folder / FILE).is_file():
        return folder
    return next((above for above in folder.absolute().parents if (above / FILE).is_file()), folder)
