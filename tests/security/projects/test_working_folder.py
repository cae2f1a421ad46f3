"""Spark's Python workers import nothing from the working folder, which may belong to any user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from pathlib import Path
from waterclock.engine.spark.session import open_session
spark = open_session("local[1]", Path(sys.argv[1]), {})
spark.udf.register("one_more", lambda x: x + 1, "int")
print(spark.sql("SELECT one_more(1)").collect()[0][0])
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_module_in_the_working_folder_is_not_executed(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    trace = tmp_path / "trace"
    (tmp_path / "pyspark/__init__.py").write_text(f"open({str(trace)!r}, 'w').close()")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    command = [sys.executable, "-P", "-c", CODE, str(tmp_path / "work")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "2\n", done.stderr[-2000:]
    assert not trace.exists()
