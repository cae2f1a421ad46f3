"""Queries that would take for ever, in a real Spark: they end in time, and their jobs with them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.tiny import Tiny
from waterclock.dpl.project import Project
from waterclock.engine.spark.session import Sessions
from waterclock.errors import WaterclockError
from waterclock.operations.opening import open_project
from waterclock.ui.asker import Asker
from waterclock.ui.readers import Reader

pytestmark = pytest.mark.spark
ENDLESS = "SELECT count(*) AS n FROM range(10000000000) a CROSS JOIN range(10000000000) b WHERE a.id * 7 + b.id * 3 = 5"


@pytest.fixture
def project(tmp_path: Path, spark: SparkSession) -> Project:
    Tiny(tmp_path, spark).declare("COLLECT shop.orders PARTITIONED FROM shop.orders EVERY DAY BY DATA TIME at;")
    return open_project(tmp_path, None)


def active_jobs(spark: SparkSession) -> int:
    return len(spark.sparkContext.statusTracker().getActiveJobsIds())


def until_idle(spark: SparkSession, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while (is_busy := active_jobs(spark) > 0) and time.monotonic() < end:
        time.sleep(0.1)
    return not is_busy


def test_the_time_limit_ends_sparks_job_and_the_next_query_is_answered(project: Project, spark: SparkSession) -> None:
    asker = Asker(Sessions.of(spark), seconds=3)
    with pytest.raises(WaterclockError, match="stopped after 3 seconds"):
        asker.ask(project, ENDLESS, 10, as_of=None)
    assert until_idle(spark)
    asker.seconds = 60
    assert asker.ask(project, "SELECT 1 AS a", 10, as_of=None).answer.rows == ((1,),)
    asker.close()


def test_a_reader_that_leaves_ends_sparks_job(project: Project, spark: SparkSession) -> None:
    asker, reader = Asker(Sessions.of(spark), seconds=60), Reader("one")

    def leave() -> None:
        end = time.monotonic() + 30
        while active_jobs(spark) == 0 and time.monotonic() < end:
            time.sleep(0.1)
        reader.leave()

    leaving = threading.Thread(target=leave)
    leaving.start()
    with pytest.raises(WaterclockError, match="stopped"):
        asker.ask(project, ENDLESS, 10, as_of=None, reader=reader)
    leaving.join()
    assert until_idle(spark)
    asker.close()
