"""Asks before a command changes something, unless --yes was given. Fails if stdin is not a terminal."""

from __future__ import annotations

import sys

import typer

from waterclock.errors import WaterclockError


def confirm(question: str, *, yes: bool) -> None:
    """Ask a question. Continue if the answer is yes, or exit with code 1 if it is no.

    Raises  E902 where stdin is not a terminal
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
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
