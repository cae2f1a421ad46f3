"""`maintain` removes replaced files of vaults after the usual time; tokens do not change, and vaults stay private."""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.erasing.test_erasing import run
from tests.integration.engine.erasing.test_tokens import ADA, EVA, keys, project, tokens, vault
from tests.tiny import Tiny
from waterclock.engine.maintenance.maintain import TableMaintenance
from waterclock.engine.maintenance.token_vaults import find_vault_maintenance, maintain_vault
from waterclock.storage import token_vault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["keys"]  # a fixture of all tests

MONTHS = timedelta(days=40)


def maintain(tiny: Tiny, later: timedelta = timedelta()) -> TableMaintenance:
    with tiny.opened() as work:
        now = work.real_now() + later
        [found] = find_vault_maintenance(work, now)
        maintain_vault(work, found, now)
    assert not found.failed
    return found


def files_of(tiny: Tiny) -> set[Path]:
    return set((tiny.root / tiny.storage / "vault" / "customer" / "rows").rglob("*.parquet"))


def test_replaced_files_of_a_vault_are_removed_after_the_usual_time(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_vault, "_MOST_SMALL_FILES", 1)  # each commit joins the files before it
    tiny = project(tmp_path, spark)
    run(tiny, 2)
    run(tiny)
    killed = min(files_of(tiny)).parent.with_name("killed") / "part-0.parquet"  # of a batch that never committed
    killed.parent.mkdir()
    killed.write_bytes(b"PAR1")
    before, held = tokens(tiny), files_of(tiny)
    assert maintain(tiny).unneeded.count == 0, "files were removed that a kept version needs"
    assert files_of(tiny) == held
    found = maintain(tiny, MONTHS)
    assert found.table == "vault/customer"
    left = files_of(tiny)
    assert found.unneeded.count == len(held - left) > 1
    assert killed not in left
    assert len(left) == 1
    assert (tokens(tiny), vault(tiny)) == (before, before)
    tiny.shop("INSERT INTO visits VALUES (9, 'new.person', NULL, '/n', '2020-01-03 10:00:00')")
    run(tiny, 4)
    assert vault(tiny) == before
    assert {ADA, EVA} < before.keys()


def test_other_users_see_no_vault_in_an_open_storage(tmp_path: Path, spark: SparkSession) -> None:
    tiny = project(tmp_path, spark)
    storage = tiny.root / tiny.storage
    storage.mkdir()
    storage.chmod(0o755)
    mask = os.umask(0o022)
    try:
        run(tiny, 2)
    finally:
        os.umask(mask)
    for folder in (storage / "vault", storage / "vault" / "customer"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
