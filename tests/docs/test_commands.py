from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_made_from_the_code_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run: python docs/generate.py"


def test_every_command_has_its_heading() -> None:
    from waterclock.cli.app import COMMANDS

    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    for functions in COMMANDS.values():
        for function in functions:
            assert f"\n### {function.__name__}\n" in page
