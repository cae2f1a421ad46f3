"""The file of a branch is read by a process that has used no object store yet."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from waterclock.engine.branching import branch_state
from waterclock.engine.branching.branch_state import read_branch_state
from waterclock.files.object_stores import store_of

OPTIONS = {"access_key_id": "a", "secret_access_key": "b", "region": "us-east-1", "endpoint": "http://127.0.0.1:9"}


def test_the_object_store_of_a_branch_is_registered_before_its_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = "s3://a-bucket-of-no-other-test/branches/try"
    project = cast("Any", SimpleNamespace(storage=storage, storage_options=OPTIONS, secrets=(), root=tmp_path))
    registered = list[Any]()

    def read(_: object) -> None:
        registered.append(store_of(storage))

    monkeypatch.setattr(branch_state, "read_json", read)
    assert read_branch_state(project) is None
    assert [each.options for each in registered] == [OPTIONS]
