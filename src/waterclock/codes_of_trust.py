"""Error codes of files that other users of the machine can change or read."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

TRUST: Mapping[str, Code] = {
    "E930": Code(
        "a project that another user can change",
        "What a project declares runs with your rights. Its folder, waterclock.toml and the files that it reads must "
        "belong to you or to root, and no other user may write to them. `waterclock trust FOLDER` makes an exception, "
        "as does the variable WATERCLOCK_TRUST.",
    ),
    "E931": Code(
        "a folder that is not this user's alone",
        "Files that several processes of a user share are in a folder that no other user can open. Another user owns "
        "this path, or it is a link or a file.",
    ),
}
