"""Ctrl-C at a confirmation ends the command as elsewhere."""

from __future__ import annotations

import pytest
import typer

from waterclock.cli.actions.confirm import confirm
from waterclock.cli.exit_codes import ExitCode


@pytest.mark.parametrize(
    ("answer", "code"), [("n", ExitCode.FAILED), ("", ExitCode.FAILED), (KeyboardInterrupt(), ExitCode.INTERRUPTED)]
)
def test_an_answer_other_than_yes_has_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, answer: str | KeyboardInterrupt, code: ExitCode
) -> None:
    _answer(monkeypatch, answer)
    with pytest.raises(typer.Exit) as stopped:
        confirm("Delete the branch?", yes=False)
    assert stopped.value.exit_code == code


def test_the_end_of_the_input_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(monkeypatch, EOFError())
    with pytest.raises(typer.Abort):
        confirm("Delete the branch?", yes=False)


def test_answering_yes_continues_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(monkeypatch, "y")
    confirm("Delete the branch?", yes=False)


def _answer(monkeypatch: pytest.MonkeyPatch, answer: str | BaseException) -> None:
    def ask(_: str) -> str:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer._click.termui.visible_prompt_func", ask)
