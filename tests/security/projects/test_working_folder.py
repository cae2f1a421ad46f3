"""Processes that Waterclock starts import nothing from the working folder, which may belong to any user."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from waterclock.connectors.sqlite.change_counter import state_seen_from_outside
from waterclock.engine.spark.class_archive import write_archive
from waterclock.errors import WaterclockError

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


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that a package named waterclock in the working folder writes when it is imported."""
    (tmp_path / "waterclock").mkdir()
    (tmp_path / "waterclock/__init__.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return tmp_path / "trace"


def test_the_process_that_watches_a_database_file_imports_nothing_from_it(tmp_path: Path, trace: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER)")
    assert state_seen_from_outside(str(tmp_path / "shop.db"))
    assert not trace.exists()


def test_the_process_that_writes_the_class_archive_imports_nothing_from_it(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # it ends at once, without Spark
    with pytest.raises(WaterclockError) as refused:
        write_archive(tmp_path / "cache" / "classes.jsa")
    assert refused.value.code == "E707"
    assert not trace.exists()
