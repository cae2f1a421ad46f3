"""Into how many parts Spark shuffles follows what it reads."""

from __future__ import annotations

import pytest

from waterclock.storage.spark_settings import PARTITIONS, SESSION_CONFS, shuffle_partitions

MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("size", "parts"),
    [(0, 8), (128 * MIB, 8), (128 * MIB + 1, 9), (GIB, 64), (10 * GIB, 640), (1000 * GIB, 2000)],
)
def test_partitions_follow_the_bytes_that_are_read(size: int, parts: int) -> None:
    assert shuffle_partitions(size) == parts


def test_little_is_shuffled_as_the_session_is_set() -> None:
    assert SESSION_CONFS[PARTITIONS] == str(shuffle_partitions(0))
