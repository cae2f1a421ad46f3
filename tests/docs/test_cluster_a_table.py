"""The page on CLUSTER BY: its commands print the output that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console import ROOT, commands_of, failures, session

PAGE = (ROOT / "docs" / "howto" / "cluster-a-table.md").read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_commands_of_the_page_print_its_documented_output(tmp_path: Path) -> None:
    with session(tmp_path, is_warm=True) as shell:
        wrong = failures(commands_of(PAGE), shell, exact=("python print_files.py",))
    assert not wrong, "\n\n".join(wrong)
