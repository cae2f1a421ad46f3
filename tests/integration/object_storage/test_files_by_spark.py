"""Spark reads files that landed in a bucket, tested by the public suites of connectors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.s3 import server

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.soak
def test_files_in_a_bucket_are_read_as_the_public_suites_ask() -> None:
    server()  # skips the test without a server
    suite = Path(__file__).with_name("files_by_spark.py")
    asked = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", str(suite)]
    ran = subprocess.run(asked, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-20_000:]
