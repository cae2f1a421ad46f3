"""The page on time zones: its commands print what it says, its queries to the second."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, differences, session

PAGE = (ROOT / "docs" / "howto" / "time-zones.md").read_text(encoding="utf-8")
EXACT = ("waterclock query", "waterclock audit")  # `differences` masks times, and times are what these are about


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_page_prints_what_it_says(tmp_path: Path) -> None:
    wrong = []
    with session(tmp_path, is_warm=True) as shell:
        for command in commands_of(PAGE):
            printed = shell.run(command.text)
            missing = differences(command.printed, printed)
            if command.text.startswith(EXACT):
                said = [line for line in command.printed if line != "..."]
                missing += [f"not printed to the second: {line}" for line in said if line not in printed]
            if missing:
                wrong.append("\n".join([f"$ {command.text}", *(f"- {line}" for line in missing), *printed]))
    assert not wrong, "\n\n".join(wrong)
