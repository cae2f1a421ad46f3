"""How the JVMs of tests are set: they live for minutes and run each query once.

`python -m tests.jvms` writes the archive of classes that each of them would otherwise load and check for itself
(half a minute once; a third of the CPU of each start)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from waterclock.engine.spark.class_archive import write_archive

ARCHIVE = Path(sys.prefix) / "classes.jsa"  # of this environment's jars
# Most of what a short-lived JVM costs is its second compiler, whose work never pays here. Without it Java sets aside
# 48 MB for code, and throws away what it compiled when these are full.
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m", "-Xlog:disable", "-Xlog:all=error:stderr")
# In a folder of configuration they would stand in the JVM's class path, and Java would take no archive of classes.
_SPARK = {
    # a query of a test runs once, on a few rows: compiling it takes longer than running it
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # nor is each expression told where in Python it was made, and each plan held to be sound after each rule
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
}


def set_jvms(*, compile_queries: bool) -> None:
    """Set what JVMs are given that this process and its children start; what is set already stays."""
    archive = (f'"-XX:SharedArchiveFile={ARCHIVE}"',) if ARCHIVE.exists() else ()
    spark = () if compile_queries else tuple(f"-D{name}={value}" for name, value in _SPARK.items())
    os.environ.setdefault("JAVA_TOOL_OPTIONS", " ".join((*_OPTIONS, *archive, *spark)))


if __name__ == "__main__" and not ARCHIVE.exists():
    write_archive(ARCHIVE, " ".join(_OPTIONS))
