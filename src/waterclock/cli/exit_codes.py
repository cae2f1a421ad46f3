"""Defines the exit codes of all commands, and describes them for `--help` and the reference."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of commands. Only `diff` exits with DIFFERENT, only `plan --detailed-exitcode` with 10 and 11."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    """An invalid command line. Typer uses this code."""
    DIFFERENT = 3
    """Compared rows differ."""
    DUE = 10
    IN_TROUBLE = 11
    """A batch is failed, held or blocked."""
    INTERRUPTED = 130
    """Ctrl-C. Typer uses this code as well."""

    @classmethod
    def of_failure(cls, failed: object) -> ExitCode:
        """Return FAILED for a true value, such as a list with errors, and DONE for a false one."""
        return cls.FAILED if failed else cls.DONE


OF_ALL_COMMANDS = (
    f"Exit codes: {ExitCode.DONE} done, {ExitCode.FAILED} errors, {ExitCode.USAGE} an invalid command line, "
    f"{ExitCode.INTERRUPTED} stopped by Ctrl-C (`run --watch`: {ExitCode.DONE}). "
    f"A command that runs batches also exits with {ExitCode.FAILED} if a requested batch stays failed or held. "
    f"`plan --detailed-exitcode` also exits with {ExitCode.DUE} or {ExitCode.IN_TROUBLE}. "
    f"`diff` exits with {ExitCode.DIFFERENT} if rows differ."
)
OF_PLAN = (
    f"Exit with {ExitCode.DONE} if nothing is due, {ExitCode.DUE} if batches are due, {ExitCode.IN_TROUBLE} if a batch "
    "is failed, held or blocked."
)
