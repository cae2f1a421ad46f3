"""Every error of the storage is explained."""

from __future__ import annotations

import re
from pathlib import Path

import waterclock.files.object_stores
import waterclock.storage
from waterclock.error_codes.catalog import STORAGE


def test_every_code_that_is_raised_is_explained_and_no_other() -> None:
    stores = Path(waterclock.files.object_stores.__file__)
    source = stores.parents[1]
    rebuilding = [source / "ledger/write/rebuild_all_lock.py", source / "engine/maintenance/rebuild_all.py"]
    files = [stores, source / "dpl/project.py", *(source / "storage").rglob("*.py"), *rebuilding]
    raised = {code for path in files for code in re.findall(r'"(E6\d\d)"', path.read_text())}
    assert raised == set(STORAGE)
