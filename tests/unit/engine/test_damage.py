"""A table whose log was made anew is not read before its rows are back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.slices import PROJECT, SCHEMA, TABLE, new_table, schema_json
from waterclock.engine.damage import require_log, require_versions
from waterclock.errors import WaterclockError
from waterclock.storage.commit.pointers import kill
from waterclock.storage.commit.rebuild import recreate, set_log_aside
from waterclock.storage.lake import Lake

KNOWN = 3


def test_a_rebuild_that_was_broken_off_is_refused_and_its_claims_can_be_settled(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    set_log_aside(folder, "now")
    recreate(folder, schema_json(SCHEMA), is_partitioned=False, project=PROJECT, above=KNOWN)
    record: Any = SimpleNamespace(name=TABLE, head_version=KNOWN)
    reads = SimpleNamespace(tables=lambda: [record], table=lambda _: record, find_table=lambda _: record)
    work: Any = SimpleNamespace(lake=Lake(str(tmp_path)), ledger=SimpleNamespace(reads=reads))
    for _ in range(2):
        with pytest.raises(WaterclockError, match="E754") as refused:
            require_log(work, TABLE)
        assert refused.value.what == "the log of web.clicks was made anew, and its rows are not back"
        require_versions(work, TABLE)
        kill(folder, 7)
