from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from waterclock.engine.spark.jars import delta_jars

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

LOOK = """
import sys
from pathlib import Path
from pyspark import SparkContext
from waterclock.engine.spark.session import open_session

session = open_session("local[1]", Path(sys.argv[1]), {})
assert session.range(3).count() == 3
print(Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text())
session.stop()
"""


def test_a_jvm_that_starts_later_maps_the_archive(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")}
    environment = {**kept, "XDG_CACHE_HOME": str(tmp_path), "WATERCLOCK_JARS": str(delta_jars()[0].parent)}

    def run(*words: str) -> str:
        done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    told = json.loads(run("-m", "waterclock", "warm", "--json"))
    assert told["is_new"]
    assert told["bytes"] > 50_000_000
    assert [path.name for path in (tmp_path / "waterclock").glob("*classes*")] == [Path(told["archive"]).name]
    assert told["archive"] in run("-c", LOOK, str(tmp_path / "spark"))
    assert not json.loads(run("-m", "waterclock", "warm", "--json"))["is_new"]
