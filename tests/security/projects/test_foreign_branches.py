"""A project cannot delete the branch of another project by naming its storage."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from waterclock.dpl.branch_settings import read_branch_settings
from waterclock.dpl.config.branches import BRANCH_FILE
from waterclock.engine.branching.branch_places import places_of
from waterclock.engine.branching.branch_state import BranchState, write_branch_state
from waterclock.engine.branching.deletion import delete_branch
from waterclock.engine.branching.known_branches import find_branch
from waterclock.errors import WaterclockError

TOML = '[project]\nname = "{name}"\n[env.prod]\nstorage = ".prod"\n[env.try]\nfrom = "prod"\nstorage = "{storage}"\n'


def write_project(root: Path, storage: Path) -> Path:
    root.mkdir()
    (root / "waterclock.toml").write_text(TOML.format(name=root.name, storage=storage))
    return root


@pytest.mark.parametrize("is_complete", [True, False])
def test_the_branch_of_another_project_is_not_deleted(tmp_path: Path, is_complete: bool) -> None:
    storage = tmp_path / "outside"
    storage.mkdir()
    own, other = write_project(tmp_path / "own", storage), write_project(tmp_path / "other", storage)
    project, now = read_branch_settings(own, "try", "prod").project, datetime.now(UTC)
    places = places_of(project.base_projects)
    write_branch_state(project, BranchState("try", "prod", now, now, now, places=places, is_complete=is_complete))
    (storage / "ledger.db").write_text("x")
    with pytest.raises(WaterclockError, match=r"(?s)E476.*is that of a branch of .*/own/\.prod"):
        delete_branch(find_branch(other, "try"))
    assert sorted(path.name for path in storage.iterdir()) == [BRANCH_FILE, "ledger.db"]
    delete_branch(find_branch(own, "try"))
    assert not storage.exists()
