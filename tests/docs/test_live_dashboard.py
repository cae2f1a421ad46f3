"""The page on CONTINUOUS: its commands print the output that it shows, next to a watching run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, failures, session

PAGE = (ROOT / "docs" / "howto" / "live-dashboard.md").read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.slow
def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    with session(tmp_path) as shell:
        wrong = failures(
            commands_of(PAGE), shell, exact=("python dashboard.py 2", "python dashboard.py 3", "python database.py 3")
        )
    assert not wrong, "\n\n".join(wrong)
