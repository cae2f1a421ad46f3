"""The reference for runs elsewhere: the flights example as this process's Spark makes it, once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.flights import FOLDERS, Digests, prepared, run_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def at_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Callable[[int], tuple[Path, Digests]]:
    """Return a function that gives the example's folder after some days and its digests; tests never change it."""

    @cache
    def home(days: int) -> tuple[Path, Digests]:
        folder = prepared(tmp_path_factory.mktemp("home"), FOLDERS, days=days)
        return folder, run_here(folder, spark, days)

    return home
