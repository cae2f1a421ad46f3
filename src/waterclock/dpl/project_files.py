"""Reads the files of a project, and refuses files that another user can change."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from waterclock.dpl.config.file_name import FILE
from waterclock.errors import WaterclockError
from waterclock.permissions.project_trust import read_trusted_file, require_trusted_folder


def read_project_file(root: Path) -> str:
    """Return the text of waterclock.toml. Raises E930 if another user can change it, UnicodeDecodeError and OSError."""
    require_trusted_folder(root)
    return read_trusted_file(root / FILE, root).decode("utf-8-sig")


def no_project_error(root: Path) -> WaterclockError:
    """Build the error for a folder without a project file. It names the nearest folder above that has one."""
    above = next((each for each in root.parents if os.path.isfile(each / FILE)), None)  # noqa: PTH113 - raises nothing
    return WaterclockError(
        "E244",
        "no project here",
        where=str(root),
        why=f"there is no {FILE}" if root.is_dir() else "there is no such folder",
        fix=f"run waterclock init, or give the project's folder{'' if above is None else f', {above}'}",
    )


def read_sources(root: Path, patterns: Iterable[str]) -> tuple[dict[str, str], list[WaterclockError]]:
    """Return a map from paths below `root` to the texts of the files that match `patterns`, and all errors."""
    errors: list[WaterclockError] = []
    files = sorted({path for pattern in patterns for path in _find_files(root, pattern, errors)})
    texts: dict[str, str] = {}
    trusted: set[Path] = set()
    for path in files:
        name = path.relative_to(root).as_posix()
        try:
            content = read_trusted_file(path, root, trusted)
        except WaterclockError as error:
            return {}, [error]  # one error of this kind is enough, and no further file is read
        if path.suffix == ".py":
            texts[name] = _lines(content.decode("utf-8", errors="replace"))
            continue
        try:
            texts[name] = _lines(content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            errors.append(not_utf8_error(name, error))
    return texts, errors


def _find_files(root: Path, pattern: str, errors: list[WaterclockError]) -> list[Path]:
    """Return the files that a pattern matches; add an error for an invalid pattern, or for a name of a missing file."""
    try:
        found = [path for path in root.glob(pattern) if path.is_file()]
    except (ValueError, NotImplementedError):
        what, why = f"{pattern!r} is not a valid file pattern", "it matches files below the project's folder"
        errors.append(WaterclockError("E242", what, where=FILE, why=why, fix='write one such as "flows/**/*.dpl"'))
        return []
    if not found and not any(sign in pattern for sign in "*?["):
        fix = "correct files below [project], or write the file"
        errors.append(WaterclockError("E244", f"there is no file {pattern}", where=FILE, fix=fix))
    return found


def not_utf8_error(name: str, error: UnicodeDecodeError) -> WaterclockError:
    """Build the error for a file that is not UTF-8, at its first invalid byte."""
    line = error.object[: error.start].count(b"\n") + 1
    column = error.start - (error.object.rfind(b"\n", 0, error.start) + 1) + 1
    return WaterclockError("E201", "this file is not UTF-8", where=f"{name}:{line}:{column}", fix="save it in UTF-8")


def _lines(text: str) -> str:
    """Return a text with its line ends normalized to a newline."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
