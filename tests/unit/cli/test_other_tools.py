from __future__ import annotations

import pytest

from waterclock.cli.app import COMMANDS, main
from waterclock.cli.other_tools import COMMANDS as FOREIGN
from waterclock.cli.other_tools import OPTIONS


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("test", "waterclock spec"),
        ("ls", "waterclock status"),
        ("serve", "waterclock ui"),
        ("run --select marts.x", "waterclock run +marts.delays"),
        ("plan -s marts.x", "waterclock plan +marts.delays"),
        ("run --full-refresh", "waterclock recompute"),
        ("run --exclude=marts.x", "except"),
        ("plan --branch try", "waterclock plan --env NAME"),
        ("branch create try --env prod", "--from ENV"),
        ("promote try --env prod", "waterclock promote NAME"),
        ("init --example", "--empty"),
        ("init --examle mine", "init writes an example project"),
    ],
)
def test_words_of_other_tools_are_answered_in_ours(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    shown = capsys.readouterr()
    assert said in " ".join(shown.err.split())
    assert not shown.out


def test_a_word_that_no_tool_has_gets_the_nearest_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["statsu"]) == 2
    assert "status" in capsys.readouterr().err


def test_no_answer_hides_a_command_or_an_option_of_ours() -> None:
    ours = {function.__name__ for functions in COMMANDS.values() for function in functions}
    assert not ours & FOREIGN.keys()
    assert not {"--project", "-p", "--env", "-e", "--now", "--until", "--labels", "-l", "--json"} & OPTIONS.keys()
