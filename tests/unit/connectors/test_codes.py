"""Every error of the connectors is explained."""

from __future__ import annotations

import re
from pathlib import Path

import waterclock.connectors
from waterclock.codes import CONNECTORS


def test_every_code_that_is_raised_is_explained_and_no_other() -> None:
    folder = Path(waterclock.connectors.__file__).parent
    raised = {code for path in folder.glob("*.py") for code in re.findall(r'"(E8\d\d)"', path.read_text())}
    assert raised == set(CONNECTORS)
