"""The content of a snapshot table before the first snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiny import TOML, Tiny, day, described
from waterclock.engine.query.query import query
from waterclock.engine.query.ticks import RequestedTick
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """
COLLECT shop.prices (id BIGINT) FROM shop.prices EVERY DAY;
TRANSFORM made.now REPLACE AS SELECT id FROM shop.prices;
TRANSFORM made.before REPLACE AS SELECT id FROM PREVIOUS(shop.prices);
"""


def test_nothing_was_known_before_the_first_snapshot(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Tiny(tmp_path, spark, toml=TOML.replace('start = "2020-01-01"', ""))
    tiny.declare(FLOW)
    for number in (5, 6):
        tiny.source("prices", "id INTEGER", [(number,)])
        outcome = tiny.run(day(number, 1))
        assert not outcome.failed, described(outcome)

    def held(table: str, tick: str) -> list[tuple[Any, ...]]:
        with tiny.opened() as work:
            return list(query(work, f"SELECT id FROM {table}", limit=10, as_of=RequestedTick(tick)).rows)

    assert [held(name, "2020-01-05") for name in ("shop.prices", "made.now", "made.before")] == [[(5,)], [(5,)], []]
    assert [held(name, "2020-01-06") for name in ("shop.prices", "made.now", "made.before")] == [[(6,)], [(6,)], [(5,)]]
    for tick in ("2020-01-02", "2020-01-04"):
        with pytest.raises(WaterclockError) as refused:
            held("shop.prices", tick)
        assert (refused.value.code, refused.value.fix) == ("E521", "query as of 20200105000000 or later")
