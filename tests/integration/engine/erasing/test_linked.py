"""A person is erased in a linked project: its reader collects the labels again, and is erased separately."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.engine.erasing.test_erasing import ERASED, OTHER, erased, keys, places_with, run
from tests.integration.engine.test_linked_projects import LINKED
from tests.keys import DECLARED
from tests.tiny import Tiny

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
__all__ = ["keys"]  # a fixture of all tests

UPSTREAM = (
    DECLARED
    + """
COLLECT raw.orders PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer, at TIMESTAMP) FROM shop.orders EVERY DAY
  BY DATA TIME at;
TRANSFORM shop.orders PARTITIONED AS SELECT id, buyer FROM raw.orders;
"""
)
HERE = (
    DECLARED
    + """
CREATE CONNECTION upstream TYPE waterclock;
COLLECT here.orders PARTITIONED (id BIGINT, buyer BIGINT SUBJECT customer) FROM upstream.shop.orders EVERY DAY
  START '2020-01-01' BY DATA TIME timelabel;
"""
)
ROWS = [
    (1, ERASED, "2020-01-01 10:00:00"),
    (2, OTHER, "2020-01-01 11:00:00"),
    (3, OTHER, "2020-01-02 11:00:00"),
]


def test_a_linked_project_is_not_erased_and_reads_the_labels_again(tmp_path: Path, spark: SparkSession) -> None:
    upstream = Tiny(tmp_path / "upstream", spark, "upstream")
    here = Tiny(tmp_path / "here", spark, "here", toml=LINKED)
    upstream.source("orders", "id INT, buyer INT, at TEXT", ROWS)
    upstream.declare(UPSTREAM)
    here.declare(HERE)
    run(upstream)
    run(here)
    whole = [(number, who) for number, who, _ in ROWS]
    rows = "SELECT id, buyer FROM here.orders ORDER BY id"
    assert here.rows(rows) == whole
    result = erased(upstream, ERASED)
    assert result.left == ()
    assert result.erasure.finished_at is not None
    assert list(places_with(upstream, ERASED)) == []
    assert here.rows(rows) == whole, "the command reached another project"
    runs = here.runs_of("here.orders")
    run(here)
    assert here.rows(rows) == whole[1:]
    assert here.runs_of("here.orders") == runs + 1, "a label without the person was read again"
    assert list(places_with(here, ERASED)), "its older revisions are its own"
    assert erased(here, ERASED).left == ()
    assert list(places_with(here, ERASED)) == []
    assert here.rows(rows) == whole[1:]
    run(here, 4)
    assert here.rows(rows) == whole[1:]
