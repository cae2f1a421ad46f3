"""Asks for confirmation before a command changes data. The option --yes confirms in advance."""

from __future__ import annotations

import sys

import typer

from waterclock.cli.exit_codes import ExitCode
from waterclock.errors import WaterclockError


def confirm(question: str, *, yes: bool) -> None:
    """Ask a question. Exit with code 1 if the answer is not yes, and with 130 after Ctrl-C.

    Raises E902 if stdin is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise WaterclockError(
            "E902",
            "the command needs a confirmation",
            why=f"there is no terminal to ask: {question}",
            fix="add --yes to confirm",
        )
    try:
        is_confirmed = typer.confirm(question, err=True)
    except typer.Abort as stopped:
        if isinstance(stopped.__context__, KeyboardInterrupt):
            typer.echo(err=True)
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        raise
    if not is_confirmed:
        raise typer.Exit(ExitCode.FAILED)
