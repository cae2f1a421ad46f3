"""Converts an exception raised while a project's Python file is loaded to an error with a position in that file."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from pathlib import Path

from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError

_MOST_FRAMES = 4
_PROPOSAL = re.compile(r"[.,;] (?P<hint>(?:Perhaps|Did you|Maybe) .*)$", re.DOTALL)


def loading_error(raised: BaseException, path: Path, root: Path) -> WaterclockError:
    """Build the error for an exception, with its message, its position in the project's files, and the callers."""
    if isinstance(raised, WaterclockError) and raised.code == "E930":
        return raised
    what = f"{type(raised).__name__}: {raised}" if str(raised) else type(raised).__name__
    if isinstance(raised, SyntaxError) and raised.filename and Path(raised.filename).is_relative_to(root):
        return _unreadable(raised, Path(raised.filename), root)
    frames = list_project_frames(raised, root)
    if not frames:
        return WaterclockError(
            "E250",
            f"this file cannot be loaded: {what}",
            where=_name(path, root),
            fix=f"first make `import` of {_name(path, root)} work in Python",
        )
    last = frames[-1]
    line = last.lineno or 1
    text = linecache.getline(last.filename, line).rstrip("\n")
    start = (last.colno or 0) if last.colno is not None else len(text) - len(text.lstrip())
    end = last.end_colno if last.end_colno is not None and last.end_lineno == line else len(text)
    source = SourceText(_name(Path(last.filename), root), text, line)
    callers = [f"{_name(Path(one.filename), root)}:{one.lineno} in {one.name}" for one in frames[-_MOST_FRAMES:-1]]
    return source.span(start, max(end, start + 1)).refuse(
        "E250",
        f"this file cannot be loaded: {what}",
        why=f"called from {', '.join(reversed(callers))}" if callers else None,
        fix=_fix_of(raised, Path(last.filename), root),
    )


def _unreadable(raised: SyntaxError, path: Path, root: Path) -> WaterclockError:
    line, column = raised.lineno or 1, max((raised.offset or 1) - 1, 0)
    text = (raised.text or linecache.getline(str(path), line)).rstrip("\n")
    end = (raised.end_offset or 0) - 1 if raised.end_lineno == line else 0
    source = SourceText(_name(path, root), text, line)
    message, hint = _hint_of(raised.msg)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return source.span(column, max(end, column + 1)).refuse(
        "E250",
        f"this file is not valid Python: {message}",
        fix=hint or f"correct this line, or the one before it; Waterclock runs in Python {python}",
    )


def _hint_of(message: str) -> tuple[str, str | None]:
    """Split Python's message for a syntax error into the problem and the fix that it proposes, or None."""
    found = _PROPOSAL.search(message)
    if found is None:
        return message, None
    hint = message[found.start("hint") :]
    return message[: found.start()], hint[:1].lower() + hint[1:]


def _fix_of(raised: BaseException, path: Path, root: Path) -> str:
    if isinstance(raised, SystemExit):
        return "remove the exit, or put it below `if __name__ == '__main__':`; each command loads the whole file"
    if not isinstance(raised, ModuleNotFoundError) or not raised.name:
        return "correct this line; waterclock check shows the output of print(...)"
    sibling = path.parent / f"{raised.name}.py"
    if sibling.is_file() and path.parent != root:
        package = ".".join(path.parent.relative_to(root).parts)
        return f"modules are found from the project's folder: from {package} import {raised.name}"
    return "install it, or check its spelling; the project's own modules are found from the project's folder"


def list_project_frames(raised: BaseException, root: Path) -> list[traceback.FrameSummary]:
    """Return the frames of an exception that are in files of the project at `root`, outermost first."""
    return [
        frame
        for frame in traceback.extract_tb(raised.__traceback__)
        if Path(frame.filename).is_relative_to(root) and "site-packages" not in Path(frame.filename).parts
    ]


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
