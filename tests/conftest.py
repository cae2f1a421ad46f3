"""What every test of the project shares: how hypothesis repeats itself, and which worker runs what needs a JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# CI repeats a run exactly; at a desk the examples are new each time. The machine's speed is no finding.
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# Most of what a short-lived JVM costs is its second compiler, whose work never pays here: a third of the tests' time.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file that need a JVM together, and begin with what takes long.

    Files with slow tests come first, then all others that need a JVM, then the many small tests: two workers that take
    them in this order end together. Within each of the three the order is as random as before.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: (not item.get_closest_marker("spark"), item.path not in slow))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the one Spark session of the run, set as the engine sets its own."""
    from waterclock.engine.spark.session import open_session

    session = open_session("local[2]", tmp_path_factory.mktemp("spark"), {"spark.sql.shuffle.partitions": "1"})
    yield session
    session.stop()
