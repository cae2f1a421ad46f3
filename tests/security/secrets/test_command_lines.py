"""Secrets of Spark's settings are on no command line, which every user of the machine can read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path
from waterclock.engine.spark.session import Sessions
from waterclock.engine.spark.settings import SparkSettings

name = "spark.hadoop.fs.abfs.account.key"
settings = SparkSettings(master="local[1]", confs={name: "canary-4711"}, secrets=frozenset({name}))
sessions = Sessions(work_folder=Path(sys.argv[1]), settings=settings)
try:
    java = sessions.root().sparkContext._jsc.hadoopConfiguration().get("fs.abfs.account.key")
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    print(java, sum(b"org.apache.spark" in line for line in lines) > 0, sum(b"canary-4711" in line for line in lines))
finally:
    sessions.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="command lines are read from /proc")
def test_a_secret_setting_reaches_spark_but_no_command_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "work")], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.split() == ["canary-4711", "True", "0"], done.stderr[-2000:]
