"""Decides which projects may run: those that no other user can change, and those that the user trusts.

A project's Python files run with the permissions of the user who calls Waterclock, which uses the nearest project above
the working folder. So its folder, waterclock.toml and each file that is read or executed must belong to the current
user or root. None of them may be writable by others. Otherwise the folder must be listed in WATERCLOCK_TRUST or in the
user's own list, which `waterclock trust` writes. A listed folder is trusted with everything below it.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from waterclock.errors import WaterclockError
from waterclock.permissions.ownership import foreign_writer, make_private_folder

VARIABLE = "WATERCLOCK_TRUST"


def require_trusted_folder(root: Path) -> None:
    """Raise E930 if another user can change a project's folder, and the user does not trust it."""
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return  # the reader of its files reports the error
    try:
        _require_trusted(descriptor, root, root)
    finally:
        os.close(descriptor)


def read_trusted_file(path: Path, root: Path, trusted: set[Path] | None = None) -> bytes:
    """Return the content of a project's file. Owner and mode of the opened file are checked, not those of its name.

    Folders in `trusted` were checked for an earlier file; those that are checked now are added to it.

    Raises E930 if another user can change the file or a folder between it and `root`, or OSError.
    """
    trusted = set() if trusted is None else trusted
    if path.parent not in trusted:
        for folder in path.parents:
            if folder == root or not folder.is_relative_to(root):
                break
            require_trusted_subfolder(folder, root)
        trusted.add(path.parent)
    with path.open("rb") as file:
        _require_trusted(file.fileno(), path, root)
        return file.read()


def require_trusted_subfolder(folder: Path, root: Path) -> None:
    """Raise E930 if another user can change a folder within a project."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _require_trusted(descriptor, folder, root)
    finally:
        os.close(descriptor)


def trusted_folders() -> tuple[Path, ...]:
    """Return the folders that the user trusts: those in WATERCLOCK_TRUST first, then those in the user's list."""
    entries = os.environ.get(VARIABLE, "").split(os.pathsep)
    return tuple(
        dict.fromkeys(Path(each).resolve() for each in (*entries, *_read_list_lines()) if Path(each).is_absolute())
    )


def trust_folder(folder: Path) -> bool:
    """Add a folder to the user's list. Return False if it is listed already."""
    listed = [*_read_list_lines()]
    if str(folder) in listed:
        return False
    _write([*listed, str(folder)])
    return True


def distrust_folder(folder: Path) -> bool:
    """Remove a folder from the user's list. Return False if it is not listed."""
    listed = [*_read_list_lines()]
    if str(folder) not in listed:
        return False
    _write([each for each in listed if each != str(folder)])
    return True


def list_file() -> Path:
    """Return the path of the file with the folders that the user trusts, one per line."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "waterclock" / "trusted-folders"


def _read_list_lines() -> Iterator[str]:
    """Yield the lines of the user's list of trusted folders. Raises E930 if another user can change the list."""
    try:
        with list_file().open("rb") as file:
            status = os.fstat(file.fileno())
            if (why := foreign_writer(status, file.fileno())) is not None:
                raise WaterclockError(
                    "E930",
                    "the list of trusted folders can be changed by another user",
                    where=str(list_file()),
                    why=why,
                    fix=f"`chmod go-w {shlex.quote(str(list_file()))}` if it is yours; else remove it",
                )
            text = os.fsdecode(file.read())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    yield from filter(None, text.splitlines())


def _write(folders: list[str]) -> None:
    file = list_file()
    make_private_folder(file.parent)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_bytes(b"".join(os.fsencode(folder) + b"\n" for folder in folders))
    temporary.chmod(0o600)
    temporary.replace(file)


def _require_trusted(descriptor: int, path: Path, root: Path) -> None:
    status = os.fstat(descriptor)
    why = foreign_writer(status, descriptor)
    if why is None or _is_listed(_real_path(descriptor, path)):
        return
    is_own = not why.startswith("it belongs")
    recursive = "-R " if stat.S_ISDIR(status.st_mode) else ""
    trust = f"`waterclock trust {shlex.quote(str(root))}` if you trust every user who can change it"
    raise WaterclockError(
        "E930",
        "this project can be changed by another user, and is not trusted",
        where=str(path),
        why=f"{why}, and the code of a project runs as you",
        fix=f"`chmod {recursive}go-w {shlex.quote(str(path))}`, or {trust}" if is_own else trust,
    )


def _is_listed(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in trusted_folders())


def _real_path(descriptor: int, path: Path) -> Path:
    """Return the real path of the opened file, from the kernel if possible: links and renames do not affect it."""
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError:
        return path.resolve()
