"""Every error of the connectors is explained."""

from __future__ import annotations

import re
from pathlib import Path

import waterclock.connectors
from waterclock.error_codes.catalog import CONNECTORS


def test_every_code_that_is_raised_is_explained_and_no_other() -> None:
    root = Path(waterclock.connectors.__file__).parents[1]
    files = [
        *root.glob("connectors/**/*.py"),
        *root.glob("engine/**/*.py"),
        root / "cli/actions/receive.py",
    ]  # the engine asks sources for their earlier content
    raised = {code for path in files for code in re.findall(r'"(E8\d\d)"', path.read_text())}
    assert raised == set(CONNECTORS)
