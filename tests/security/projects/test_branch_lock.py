"""The lock of a branch is a separate file: nothing is written to a file to which another user has linked it."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.dpl.config.branches import BRANCHES
from waterclock.engine.branching.branch_lock import lock_branch
from waterclock.errors import WaterclockError


@pytest.mark.parametrize("is_symbolic", [False, True])
def test_a_lock_that_is_a_link_to_another_file_is_refused(tmp_path: Path, is_symbolic: bool) -> None:
    precious, lock = tmp_path / "precious", tmp_path / BRANCHES / ".try.lock"
    precious.write_text("content")
    lock.parent.mkdir()
    if is_symbolic:
        lock.symlink_to(precious)
    else:
        lock.hardlink_to(precious)
    with pytest.raises(WaterclockError, match="E476 the branch try cannot be locked"), lock_branch(tmp_path, "try"):
        pass
    assert precious.read_text() == "content"
    lock.unlink()
    with lock_branch(tmp_path, "try"):
        pass
    assert precious.read_text() == "content"
