"""Sets the options of the tests' JVMs, which live for minutes and run each query once.

`python -m tests.jvms` writes the archive of classes that each of them would otherwise load and verify for itself (half
a minute once; a third of the CPU of each start)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from waterclock.engine.spark.class_archive import write_archive

ARCHIVE = Path(sys.prefix) / "classes.jsa"  # for this environment's jars
# Most of the cost of a short-lived JVM is its second compiler, which never pays off here. Without it Java reserves 48
# MB for code, and discards compiled code when these are full.
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m", "-Xlog:disable", "-Xlog:all=error:stderr")
# In a folder of configuration they would be in the JVM's class path, and Java would accept no archive of classes.
_SPARK = {
    # a query of a test runs once, on a few rows: compiling it takes longer than running it
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # skip recording the Python location of each expression, and validating each plan after each rule
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
}


def set_jvms(*, compile_queries: bool) -> None:
    """Set the options of JVMs that this process and its children start; an existing setting is kept."""
    archive = (f'"-XX:SharedArchiveFile={ARCHIVE}"',) if ARCHIVE.exists() else ()
    spark = () if compile_queries else tuple(f"-D{name}={value}" for name, value in _SPARK.items())
    os.environ.setdefault("JAVA_TOOL_OPTIONS", " ".join((*_OPTIONS, *archive, *spark)))


if __name__ == "__main__" and not ARCHIVE.exists():
    write_archive(ARCHIVE, " ".join(_OPTIONS))
