"""Error codes of files that other users of the machine can change or read."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

TRUST: Mapping[str, Code] = {
    "E930": Code(
        "project writable by another user",
        "Another user can change files of the project, and the project runs code with your rights. Its folder, "
        "waterclock.toml and the files that it reads must belong to you or to root. No other user may have write "
        "access. `waterclock trust FOLDER` or the variable WATERCLOCK_TRUST makes an exception.",
    ),
    "E931": Code(
        "folder not private",
        "The path belongs to another user, or is a link or a file. Files that several processes of a user share must "
        "be in a folder that only this user can open.",
    ),
}
