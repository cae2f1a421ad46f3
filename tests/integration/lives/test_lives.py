"""Random lives of random flows on the real engine: each table equals the oracle's result from the raw input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.life.books import Unexpected
from tests.life.branching import has_branch
from tests.life.favour import seeds_of
from tests.life.form_drawing import seeds_with_forms
from tests.life.keeping import has_apart
from tests.life.lives import lived, met_before
from tests.life.tokens import has_tokens
from tests.soaks import soak_number
from waterclock.storage.slices import clustering

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

IS_SOAK = soak_number() is not None  # lives with branches, or with APART, take longer


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let CLUSTER BY split labels of a few rows."""
    monkeypatch.setattr(clustering, "TARGET_BYTES", 1_000)


@pytest.mark.sampled(2, by_commit=True)
@pytest.mark.parametrize("seed", seeds_of(soak_number()))
def test_random_flows_yield_the_rows_that_the_documented_rules_require(
    seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    with readable_failures():
        lived(
            seed, tmp_path, spark, met_before(seed), with_branch=IS_SOAK and has_branch(seed),
            with_tokens=has_tokens(seed), with_apart=IS_SOAK and has_apart(seed),
        )  # fmt: skip


@pytest.mark.sampled(1, by_commit=True)
@pytest.mark.parametrize("seed", seeds_with_forms(soak_number()))
def test_random_flows_with_forms_yield_the_rows_that_the_documented_rules_require(
    seed: int, tmp_path: Path, spark: SparkSession
) -> None:
    with readable_failures():
        lived(seed, tmp_path, spark, with_forms=True, forms_on_server=IS_SOAK and seed % 4 == 1)


@contextmanager
def readable_failures() -> Iterator[None]:
    """Fail with the text of an unexpected state, without a traceback."""
    found = ""
    try:
        yield
    except Unexpected as error:
        found = str(error)
    if found:
        pytest.fail(found, pytrace=False)
