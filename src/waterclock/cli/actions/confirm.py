"""Asks before a command changes something, unless --yes was given or nobody can answer."""

from __future__ import annotations

import sys

import typer

from waterclock.errors import WaterclockError


def confirm(question: str, *, yes: bool) -> None:
    """Go on where the answer is yes; leave with exit code 1 where it is no.

    Raises  E902 where nobody is there to answer
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise WaterclockError(
            "E902",
            "nobody is there to answer",
            why=f"asked: {question}",
            fix="give --yes to go on without being asked",
        )
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
