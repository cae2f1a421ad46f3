"""A runner makes batches while another process erases a person: all rows of the person are removed, and no others."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.test_kill import said_by, started
from tests.faults.waiting import PATIENCE, wait_for
from tests.integration.engine.erasing.test_erasing import (
    ERASED,
    OTHER,
    SMALL,
    SMALL_TABLES,
    content,
    erased,
    found,
    keys,
    places_with,
    project,
    run,
)
from tests.tiny import Tiny, day
from waterclock.engine.erasing.erasing import ErasureResult
from waterclock.faults import inject_faults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
__all__ = ["keys"]  # a fixture of all tests

MODULE = "tests.faults.waiting"
NOT_KILLED = 3
NEW = [(90, ERASED, "2020-01-03 10:00:00", 5), (91, OTHER, "2020-01-03 11:00:00", 6)]


def prepared(root: Path, spark: SparkSession) -> tuple[Tiny, dict[str, Any]]:
    """Return a project with two done days and rows of a third, and its expected content without the person."""
    tiny, clean = (project(root / name, spark, flow=SMALL, without=who) for name, who in (("a", ()), ("b", (ERASED,))))
    run(tiny)
    for number, who, at, amount in NEW:
        for each in (tiny, clean):
            if each is tiny or who != ERASED:
                each.shop(f"INSERT INTO orders VALUES ({number}, {who}, '{at}', {amount})")
    run(clean, 4)
    return tiny, content(clean, SMALL_TABLES)


def hold(tiny: Tiny, result: ErasureResult, expected: dict[str, Any]) -> None:
    """Assert that the erasure is complete, and that no batch is left to make."""
    assert result.left == ()
    assert result.erasure.finished_at is not None
    run(tiny, 4)
    assert content(tiny, SMALL_TABLES) == expected
    assert found(tiny, ERASED) == []
    assert list(places_with(tiny, ERASED)) == []


@pytest.mark.parametrize(
    "point",
    [
        "before_commit",
        *(pytest.param(each, marks=pytest.mark.soak) for each in ("claimed", "sealed", "after_commit", "recorded")),
    ],
)
def test_a_batch_that_began_before_the_erasure(point: str, tmp_path: Path, spark: SparkSession) -> None:
    """Its runner does not see the erasure and may commit rows of the person.

    The erasure waits for it and removes them.
    """
    tiny, expected = prepared(tmp_path, spark)
    words = [str(tiny.root), "runner", "raw.orders", day(4).isoformat(), point, "-"]
    with started(spark, *words, module=MODULE) as process, ThreadPoolExecutor(1) as pool:
        wait_for(tiny.root / "raw.orders.waits")
        erasing = pool.submit(erased, tiny, ERASED)
        end = time.monotonic() + PATIENCE
        while point != "recorded" and not any("waiting for" in each for each in tiny.heard.said_):
            assert time.monotonic() < end, "the erasure does not wait"
            assert not erasing.done(), erasing.result()
            time.sleep(0.05)
        (tiny.root / "raw.orders.goes").touch()
        assert process.wait(PATIENCE) == NOT_KILLED, said_by(process)
        result = erasing.result(PATIENCE)
    hold(tiny, result, expected)


@pytest.mark.parametrize(
    "point",
    [
        "erase.stored",
        *(pytest.param(each, marks=pytest.mark.soak) for each in ("erase.rewritten", "erase.purged", "erase.searched")),
    ],
)
def test_a_batch_that_begins_during_the_erasure(point: str, tmp_path: Path, spark: SparkSession) -> None:
    """It sees the erasure, and drops the rows of the person."""
    tiny, expected = prepared(tmp_path, spark)
    ran: list[int] = []

    def run_beside(name: str) -> None:
        if name == point and not ran:
            ran.append(0)
            words = [str(tiny.root), "runner", "-", day(4).isoformat(), "-", "-"]
            with started(spark, *words, module=MODULE) as process:
                ran.append(process.wait(PATIENCE))
                assert ran[-1] == NOT_KILLED, said_by(process)

    with inject_faults(run_beside):
        result = erased(tiny, ERASED)
    assert ran == [0, NOT_KILLED]
    assert "20200103000000" in tiny.done("raw.orders"), "the runner made nothing"
    hold(tiny, result, expected)
