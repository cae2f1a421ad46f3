"""A branch with storage in a bucket is deleted with all its files there, so that it can be created again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.s3 import server
from tests.stores import fresh_bucket
from waterclock.dpl.branch_settings import read_branch_settings
from waterclock.dpl.config.branches import BRANCH_FILE
from waterclock.dpl.project import Project
from waterclock.engine.branching.branch_places import remove_contents, require_empty_storage
from waterclock.engine.storage_access import reach_storage
from waterclock.errors import WaterclockError
from waterclock.files.filesystem import entry_path, files_below, make_folder, remove_file, replace_text

TOML = """
[project]
name = "mine"
[env.prod]
storage = ".prod"
[env.try]
from = "prod"
storage = "{url}/try"
storage_options = {{ {options} }}
"""
WRITTEN = ("tables/a/b/x.parquet", "history/a.b/y", "publish/out/z", "ledger/20200101.jsonl")


def load(root: Path) -> Project:
    options = ", ".join(
        f'{name} = "{value}"' for name, value in server().options().items() if name != "secret_access_key"
    )
    secret = 'secret_access_key = { secret = "s3" }'
    (root / "secrets").mkdir()
    (root / "secrets" / "s3").write_text(server().options()["secret_access_key"])
    (root / "waterclock.toml").write_text(TOML.format(url=fresh_bucket(), options=f"{options}, {secret}"))
    return read_branch_settings(root, "try", "prod").project


def test_nothing_of_a_deleted_branch_remains_in_a_bucket(tmp_path: Path) -> None:
    project = load(tmp_path)
    reach_storage(project)
    for path in (BRANCH_FILE, *WRITTEN):
        place = entry_path(project.storage, *path.split("/"))
        make_folder(place.parent)
        replace_text(place, "x")
    remove_contents(project)
    assert [file.path for file in files_below(entry_path(project.storage))] == [BRANCH_FILE]
    remove_file(entry_path(project.storage, BRANCH_FILE))
    require_empty_storage(project)


def test_a_storage_with_foreign_files_is_not_empty_but_one_with_folder_markers_is(tmp_path: Path) -> None:
    project = load(tmp_path)
    reach_storage(project)
    replace_text(entry_path(project.storage, "marker"), "")
    require_empty_storage(project)
    replace_text(entry_path(project.storage, "theirs"), "x")
    with pytest.raises(WaterclockError, match="E476"):
        require_empty_storage(project)
