"""The first commit with a claim's number wins, with rows or as a kill: raced by threads and by processes."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.slices import actions, commit, hour, ids, new_table, race, rows_of, sealed, version
from waterclock.storage.log.delta_log import outcome


@pytest.mark.slow
def test_threads_race_data_against_kills_and_each_claim_has_one_commit(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        _race(pool, tmp_path, seconds_to_start=0.1)


@pytest.mark.slow
def test_processes_race_data_against_kills_and_each_claim_has_one_commit(tmp_path: Path) -> None:
    # delta-rs does not survive a fork
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")) as pool:
        _race(pool, tmp_path, seconds_to_start=4)


def test_threads_commit_labels_of_one_table_side_by_side_and_all_land(tmp_path: Path) -> None:
    folder = new_table(tmp_path, is_partitioned=True)
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(commit, folder, n + 1, {hour(n): rows_of(n)}) for n in range(40)]
        versions = [future.result() for future in done]
    assert sorted(versions) == list(range(1, 41))
    assert ids(folder) == list(range(40))


def _race(pool: Executor, root: Path, *, seconds_to_start: float) -> None:
    """Four runners take the same claims in different orders: two write rows, two kill the claim."""
    folder = new_table(root, is_partitioned=True)
    claims = list(range(1, 61))
    for claim in claims:
        sealed(folder, hour(claim), claim, rows_of(claim))
    start = time.time() + seconds_to_start
    futures = [pool.submit(race, folder, _jobs(runner, claims), start) for runner in range(4)]
    said = [word for future in futures for word in future.result()]
    ends = {claim: outcome(folder, claim, after_version=-1).kind for claim in claims}
    assert set(ends.values()) == {"data", "killed"}
    assert _txns(folder) == {f"waterclock:{claim}": 1 for claim in claims}
    assert ids(folder) == [claim for claim in claims if ends[claim] == "data"]
    assert all(ends[claim] == word for claim, word in said)
    assert len(said) == 2 * len(claims)


def _jobs(runner: int, claims: Sequence[int]) -> list[tuple[str, int]]:
    mixed = random.Random(runner).sample(claims, len(claims))
    return [("data" if (claim + runner) % 2 else "kill", claim) for claim in mixed]


def _txns(folder: str) -> Counter[str]:
    commits = (actions(folder, number) for number in range(1, version(folder) + 1))
    return Counter(action["txn"]["appId"] for commit_ in commits for action in commit_ if "txn" in action)
