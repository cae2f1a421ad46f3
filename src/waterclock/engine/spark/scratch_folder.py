"""Gives each JVM a scratch folder of its own, and removes those that killed processes left behind."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from waterclock.engine.runner_name import has_ended, runner_name
from waterclock.permissions.ownership import make_private_folder


def make_scratch_folder(work_folder: Path) -> Path:
    """Create and return the folder for a JVM's temporary files, below the `tmp` of a work folder.

    Its name is that of a runner: host, pid and letters. Folders of processes that have certainly ended are removed.
    """
    parent = work_folder / "tmp"
    # Spark parses the name as a list of folders, separated by commas
    if "," in str(parent):
        return Path(tempfile.gettempdir())
    make_private_folder(parent)
    for left in parent.iterdir():
        if has_ended(":".join(left.name.rsplit("_", 2))):
            shutil.rmtree(left, ignore_errors=True)
    folder = parent / runner_name().replace(":", "_")  # Hadoop reads a colon as the end of a URI's scheme
    make_private_folder(folder)
    return folder
