"""Finds the marker file by which a sender declares that the files of a window are complete."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from waterclock.connectors.files.landing import require_folder
from waterclock.files.filesystem import entry_path, stat_file
from waterclock.timelabel.window import Window
from waterclock.timelabel.zone import nominal_zone

_CODE = re.compile(r"%[YmdHMj%]")


def has_marker(folder: Path, name: str, window: Window, zone: str) -> bool:
    """Return whether the marker file of a window exists.

    `name` may contain %Y, %m, %d, %H, %M and %j, which stand for the window's start in `zone`. A marker without them is
    written again for each window: it counts for the windows that end before its last modification.
    Raises E804 if the landing folder does not exist.
    """
    of_window = format_marker_name(name, window.start, zone)
    try:
        found = stat_file(entry_path(require_folder(folder), *of_window.split("/")))
    except FileNotFoundError:
        return False
    return "%" in name.replace("%%", "") or found.changed >= window.end


def format_marker_name(name: str, start: datetime, zone: str) -> str:
    """Return the name of a window's marker, with the codes replaced by the window's start in `zone`."""
    local = start.astimezone(nominal_zone(zone))
    codes = {
        "%Y": f"{local.year:04}", "%m": f"{local.month:02}", "%d": f"{local.day:02}", "%H": f"{local.hour:02}",
        "%M": f"{local.minute:02}", "%j": f"{local:%j}", "%%": "%",
    }  # fmt: skip
    return _CODE.sub(lambda found: codes[found[0]], name)
