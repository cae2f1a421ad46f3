"""Reports an unexpected error: writes its traceback to a file, and prints the path of the file."""

from __future__ import annotations

import os
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

from waterclock import __version__
from waterclock.cli.views.error_card import fail
from waterclock.cli.views.json import command_project_folder
from waterclock.errors import WaterclockError
from waterclock.permissions.ownership import create_private_file, make_private_folder

_LOG = Path(".waterclock") / "log"


def report_defect(error: Exception) -> int:
    """Write the traceback to a file, print an error with its path, and return the exit code."""
    text = "".join(traceback.format_exception(error))
    summary = traceback.format_exception_only(error)[-1].strip()
    return fail(
        WaterclockError(
            "E999",
            "this is a defect of Waterclock",
            where=str(_write_traceback(text)),
            why=summary,
            fix="run `waterclock --traceback …` to see where, and report the file with what you did",
        )
    )


def _write_traceback(text: str) -> Path:
    """Write the traceback to the project's log folder, or else to the temporary folder. Return the path."""
    name = f"defect-{datetime.now(UTC):%Y%m%dT%H%M%S}.txt"
    content = f"waterclock {__version__}\n\n{text}"
    project = command_project_folder()
    folders = [Path(tempfile.gettempdir())]
    if (project / "waterclock.toml").exists():
        folders.insert(0, project / _LOG)
    for folder in folders:
        try:
            make_private_folder(folder)
            with os.fdopen(create_private_file(folder / name), "w", encoding="utf-8") as file:
                file.write(content)
        except OSError:
            continue
        return folder / name
    return Path(name)
