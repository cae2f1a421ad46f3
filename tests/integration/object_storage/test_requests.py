"""The number of requests that a batch sends to a bucket; each takes some 20 to 50 ms in a real one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.test_runners import at_bucket
from tests.s3 import server
from tests.tiny import day, described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT raw.visits PARTITIONED (id BIGINT, person STRING, at TIMESTAMP) FROM shop.visits EVERY DAY BY DATA TIME at;
TRANSFORM clean.visits PARTITIONED AS SELECT id, upper(person) AS person FROM raw.visits;
"""
MOST_OF_A_LOG = 30  # with the lookups of its reader, and without a checkpoint yet; 50 before most lookups were shared


def test_a_batch_sends_a_bounded_number_of_requests_for_its_delta_log(tmp_path: Path, spark: SparkSession) -> None:
    tiny = at_bucket(tmp_path, spark).tiny
    tiny.declare(FLOW)
    rows = [(number, "ann", f"2020-01-{1 + number // 5:02d} 10:00:00") for number in range(20)]
    tiny.source("visits", "id INT, person TEXT, at TEXT", rows)
    counts = []
    for number in (3, 4, 5):
        before = len(server().requests())
        outcome = tiny.run(day(number))
        assert not outcome.failed, described(outcome)
        sent = server().requests()[before:]
        counts.append([sum(f"/{name}/visits/_delta_log/" in one for one in sent) for name in ("raw", "clean")])
    assert counts[1] == counts[2], "it grows with the labels"
    assert max(counts[-1]) <= MOST_OF_A_LOG
