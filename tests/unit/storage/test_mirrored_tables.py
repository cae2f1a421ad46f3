"""The table of a branch starts with the commits in its ledger, whatever its base has committed since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.slices import PROJECT, TABLE, commit, hour, identity, ids, new_table, rows_of, version
from waterclock.storage.commit.pointers import commit_nothing, kill_claim
from waterclock.storage.lake import Lake
from waterclock.storage.log.delta_log import read_claims
from waterclock.storage.mirrored_tables import mirror_table

KNOWN = frozenset({1, 2, 3})


def mirrored(source: str, root: Path, number: int) -> str:
    target = Lake(str(root / "branch")).folder(TABLE)
    assert mirror_table(source, target, number, lambda claims: claims - KNOWN)
    return target


def make_empty_batch(folder: str) -> None:
    commit_nothing(folder, identity(7, hour(2)))


def kill(folder: str) -> None:
    kill_claim(folder, 7)


def add_rows(folder: str) -> None:
    commit(folder, 7, {hour(2): rows_of(7)})


@pytest.mark.parametrize("act", [make_empty_batch, kill, add_rows])
def test_later_claims_of_the_base_are_left_out_also_without_rows(tmp_path: Path, act: Callable[[str], None]) -> None:
    """The ledger of the branch does not know their claims, which would be reported as an older copy (E758)."""
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    newest = commit(folder, 2, {hour(1): rows_of(2)})
    act(folder)
    target = mirrored(folder, tmp_path, newest)
    assert version(target) == newest
    assert read_claims(target, newest, project=PROJECT) == frozenset()
    assert ids(target) == [1, 2]
    commit(target, 7, {hour(3): rows_of(3)})  # of the branch, with the same number
    assert ids(target) == [1, 2, 3]


def test_later_commits_that_move_rows_and_those_of_known_claims_are_kept(tmp_path: Path) -> None:
    folder = new_table(tmp_path)
    commit(folder, 1, {hour(0): rows_of(1)})
    newest = commit(folder, 2, {hour(1): rows_of(2)})
    DeltaTable(folder).optimize.compact()
    commit_nothing(folder, identity(3, hour(2)))
    make_empty_batch(folder)
    target = mirrored(folder, tmp_path, newest)
    assert version(target) == newest + 2
    assert ids(target) == [1, 2]
