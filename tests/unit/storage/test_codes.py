"""Every error of the storage is explained."""

from __future__ import annotations

import re
from pathlib import Path

import waterclock.storage
from waterclock.codes import STORAGE


def test_every_code_that_is_raised_is_explained_and_no_other() -> None:
    folder = Path(waterclock.storage.__file__).parent
    raised = {code for path in folder.rglob("*.py") for code in re.findall(r'"(E6\d\d)"', path.read_text())}
    assert raised == set(STORAGE)
