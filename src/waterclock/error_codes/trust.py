"""Error codes of files that other users of the machine can change or read."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

TRUST: Mapping[str, Code] = {
    "E930": Code(
        "project writable by another user",
        "Another user can change files of the project, and the project's code runs as you. Its folder, "
        "waterclock.toml and the files that it reads must belong to you or to root. No other user may have write "
        "access. If you trust every user who can change the project, run `waterclock trust FOLDER` or set "
        "WATERCLOCK_TRUST.",
    ),
    "E931": Code(
        "folder not private",
        "Waterclock stores the times of API requests in this folder. It must be a folder of yours, or another user "
        "could replace its files. The path belongs to another user, or it is a link or a file. Remove it, or set "
        "XDG_CACHE_HOME to a folder of yours.",
    ),
}
