"""Run the console blocks of a page and compare their output with the output that the page shows.

A block is fenced as `console`. A line that starts with `$ ` is a command, which lines with `> ` continue. The lines
below it are its output; a line `...` matches any lines. All blocks of a page run in one shell session. Values that
differ between runs (times, sizes, claims, digests) are masked before the comparison.

Tests run the commands of Waterclock in their own process, where Spark is already started (`is_warm`), and all other
commands in bash.

    python tests/docs/console.py docs/tutorial.md    run the page and write the commands' output into it
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Self

from typer.testing import CliRunner

from waterclock.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
ELIDED = "..."
PATIENCE = 300
"""Seconds that a command of a page may take before its shell is killed."""
SCREEN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}

_END = "-- end --\n"
_QUOTED = re.compile(r'"[^"$`\\]*"|\'[^\']*\'')
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MASKS = tuple(
    (re.compile(pattern), mask)
    for pattern, mask in (
        (r"\d+(\.\d)? min( \d+ s)?|\d+(\.\d+)? s\b", "<time>"),
        (r"20[2-9]\d-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?Z?", "<now>"),
        (r"by \S+ on \S+", "by <who>"),
        (r"\bby: \S+,", "by: <who>,"),
        (r"\d{13}", "<claim>"),
        (r"\b[0-9a-f]{12}\b", "<code>"),
        (r"\d+(\.\d+)? [kM]?B\b", "<size>"),
        (r"\b\d+:\d+:\d+\b", "<digest>"),
        (r"took .*", "took <time>"),
    )
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page and the output that the page shows for it."""

    text: str
    printed: tuple[str, ...]


def commands_of(page: str) -> list[Command]:
    """Return the commands of a page's console blocks, in order."""
    return [command for block in _BLOCK.findall(page) for command in _commands(block)]


def differences(said: tuple[str, ...], printed: tuple[str, ...]) -> list[str]:
    """Return the lines that only the page or only the command's output contains.

    The order of lines is ignored, because parallel batches finish in any order. After `...`, additional output is
    allowed.
    """
    wanted = Counter(mask(line) for line in said if line != ELIDED)
    found = Counter(mask(line) for line in printed)
    missing = [f"not printed: {line}" for line in (wanted - found).elements()]
    unsaid = [] if ELIDED in said else [f"not said: {line}" for line in (found - wanted).elements()]
    return missing + unsaid


def failures(commands: Iterable[Command], shell: Shell, *, exact: tuple[str, ...] = ()) -> list[str]:
    """Run commands, and return a report for each one whose output differs from the page.

    For commands that start with one of `exact`, the lines of the page are not masked.
    """
    reports = []
    for command in commands:
        printed = shell.run(command.text)
        missing = differences(command.printed, printed)
        if command.text.startswith(exact):
            missing += [f"not printed exactly: {it}" for it in command.printed if it not in (ELIDED, *printed)]
        if missing:
            reports.append("\n".join([f"$ {command.text}", *(f"- {line}" for line in missing), *printed]))
    return reports


def mask(line: str) -> str:
    """Return the line with values that differ between runs masked, and with repeated blanks collapsed."""
    for pattern, shown in _MASKS:
        line = pattern.sub(shown, line)
    return " ".join(line.split())


class Shell:
    """A shell session that runs the commands of a page; with `is_warm`, Waterclock's run in this process."""

    def __init__(self, replaced: Mapping[str, str], *, is_warm: bool = False) -> None:
        self._replaced = replaced
        self._is_warm = is_warm
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            start_new_session=True,
            env=os.environ | SCREEN | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()

    def run(self, command: str) -> tuple[str, ...]:
        """Run one command and return its output, with paths as the page shows them."""
        for shown, real in self._replaced.items():
            command = command.replace(shown, real)
        words = plain_call(command) if self._is_warm else None
        printed = self._by_bash(command) if words is None else self._here(words)
        for shown, real in self._replaced.items():
            printed = printed.replace(real, shown)  # replace real paths with those of the page
        lines = [line.rstrip() for line in printed.splitlines()]
        while lines and not lines[-1]:
            lines.pop()
        while lines and not lines[0]:
            lines.pop(0)
        return tuple(lines)

    def _by_bash(self, command: str) -> str:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null\necho; echo '{_END.strip()}'\n")
        self._shell.stdin.flush()
        # kill the whole session: a waiting command keeps the shell's output open
        ended = Timer(PATIENCE, os.killpg, (self._shell.pid, signal.SIGKILL))
        ended.start()
        try:
            printed = list(self._lines())
        finally:
            ended.cancel()
        assert printed[-1:] == [_END], f"the shell ended, or had to be ended after {PATIENCE} s, at: {command}"
        return "".join(printed[:-1])

    def _lines(self) -> Iterator[str]:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            yield line
            if line == _END:
                return

    def _here(self, words: list[str]) -> str:
        with chdir(self._by_bash("pwd").strip()):
            done = CliRunner().invoke(app, words, env=SCREEN)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.output


def plain_call(command: str) -> list[str] | None:
    """Return the arguments of a `waterclock` command; None for other commands and those with shell syntax."""
    needs_shell = set(_QUOTED.sub("", command)) & set("|&;<>()$`*?[]{}~#\\'\"\n")
    return shlex.split(command)[1:] if command.startswith("waterclock ") and not needs_shell else None


@contextmanager
def session(folder: Path, *, is_warm: bool = False, port: str = "8877") -> Iterator[Shell]:
    """Open a shell for pages that work in /tmp/flights or /tmp/mine, which are replaced by folders below `folder`.

    The commands are those of the Python that runs the tests; nothing is installed.
    """
    here = {
        "/tmp/flights": str(folder / "flights"),
        "/tmp/mine": str(folder / "mine"),
        ".venv/bin/python": shlex.quote(sys.executable),
        "8877": port,
        '"$PWD/bin:$PATH"': f'"{Path(sys.executable).parent}:$PATH"',
    }
    with Shell(here, is_warm=is_warm) as shell:
        yield shell


def rewritten(page: str, shell: Shell) -> str:
    """Return the page with the current output of its commands.

    Blocks with `...` keep as many lines around it as before.
    """

    def block(match: re.Match[str]) -> str:
        return "```console\n" + "\n".join(_run(command, shell) for command in _commands(match[1])) + "\n```"

    return _BLOCK.sub(block, page)


def _run(command: Command, shell: Shell) -> str:
    lines = tuple(re.sub(r"by \S+ on [^:\s]+:", "by ada on laptop:", line) for line in shell.run(command.text))
    if ELIDED in command.printed:
        at = command.printed.index(ELIDED)
        after = len(command.printed) - at - 1
        lines = (*lines[:at], ELIDED, *(lines[-after:] if after else ()))
    head, *rest = command.text.split("\n")
    return "\n".join([f"$ {head}", *(f"> {line}".rstrip() for line in rest), *lines])


def _commands(block: str) -> Iterator[Command]:
    text: list[str] = []
    printed: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            if text:
                yield Command("\n".join(text), _trimmed(printed))
            text, printed = [line[2:]], []
        elif (line == ">" or line.startswith("> ")) and not printed:
            text.append(line[2:])
        else:
            printed.append(line.rstrip())
    if text:
        yield Command("\n".join(text), _trimmed(printed))


def _trimmed(lines: list[str]) -> tuple[str, ...]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return tuple(lines)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch, session(Path(scratch)) as bash:
        path.write_text(rewritten(path.read_text(encoding="utf-8"), bash), encoding="utf-8")
