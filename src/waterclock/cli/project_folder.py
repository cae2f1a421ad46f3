"""Finds the folder of the project that a command means."""

from __future__ import annotations

from pathlib import Path

FILE = "waterclock.toml"


def project_above(folder: Path) -> Path:
    """Return the nearest folder that holds a project: this one, else one above it; this one where none does."""
    if (folder / FILE).is_file():
        return folder
    return next((above for above in folder.absolute().parents if (above / FILE).is_file()), folder)
