from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.docs import console
from tests.docs.console import ROOT, Command, Shell, commands_of, differences, failures, plain_call, session
from tests.receiving import free_port


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "page",
    [
        "tutorial.md",
        "howto/your-own-data.md",
        "howto/dirty-csv.md",
        "howto/receive-events.md",
        "howto/rename-a-table.md",
        "howto/coming-from-airflow.md",
    ],
)
def test_the_commands_of_a_page_print_its_documented_output(page: str, tmp_path: Path) -> None:
    commands = commands_of((ROOT / "docs" / page).read_text(encoding="utf-8"))
    if shutil.which("curl") is None and any("curl " in command.text for command in commands):
        pytest.skip("curl is not installed: bin/_servers says what to install")
    with session(tmp_path, is_warm=True, port=str(free_port())) as shell:
        wrong = failures(commands, shell)
    assert commands
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
def test_a_command_that_never_ends_is_ended_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "PATIENCE", 0.5)
    with Shell({}) as shell, pytest.raises(AssertionError, match=r"at: until no-such-command; do sleep 0\.2; done"):
        shell.run("until no-such-command; do sleep 0.2; done")


def test_a_command_has_the_lines_below_it() -> None:
    page = "text\n```console\n$ one\na\nb\n$ two \\\n> more\n```\n```sql\n$ none\n```\n"

    assert commands_of(page) == [Command("one", ("a", "b")), Command("two \\\nmore", ())]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("waterclock check", ["check"]),
        (
            'waterclock query "SELECT count(*) AS n\n  FROM a" --json',
            ["query", "SELECT count(*) AS n\n  FROM a", "--json"],
        ),
        ("waterclock lineage a.b | head", None),
        ("waterclock plan > plan.txt", None),
        ('waterclock query "$QUERY"', None),
        ("waterclock check\nls", None),
        ("ls", None),
        ("cat > it <<'END'\nit isn't\nEND", None),
    ],
)
def test_commands_with_shell_syntax_are_left_to_the_shell(command: str, words: list[str] | None) -> None:
    assert plain_call(command) == words


@pytest.mark.parametrize(
    ("said", "printed", "missing"),
    [
        (("a", "b"), ("a", "b"), []),
        (("took 1.2 s",), ("took 35 s",), []),
        (("a", "...", "c"), ("a", "b", "b", "c"), []),
        (("a", "..."), ("a", "b"), []),
        (("a", "b"), ("b", "a"), []),
        (("a", "x", "..."), ("a", "b"), ["not printed: x"]),
        (("a", "a"), ("a",), ["not printed: a"]),
        (("a",), ("a", "b"), ["not said: b"]),
        (("3 rows",), ("4 rows",), ["not printed: 3 rows", "not said: 4 rows"]),
    ],
)
def test_output_lines_are_compared_except_for_parts_that_vary_between_runs(
    said: tuple[str, ...], printed: tuple[str, ...], missing: list[str]
) -> None:
    assert differences(said, printed) == missing
