"""Stores the classes that Java loads at each start of Spark in an archive, which later JVMs map into memory.

A JVM writes it when it ends (JEP 350). Each JVM that starts checks that Java and the jars are unchanged, and ignores
the archive otherwise. Java also ignores it if the class path has a folder that is not empty.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from waterclock.engine.spark.jars import cache_directory, delta_jars
from waterclock.engine.spark.java import require_java, settings_of_java
from waterclock.errors import WaterclockError
from waterclock.permissions.ownership import foreign_writer, make_private_folder

_OPTIONS = ("SharedArchiveFile", "ArchiveClassesAtExit")
_PATIENCE = 600  # seconds to wait for the end of the JVM, which writes the archive first


def archive_file() -> Path:
    """Return the path of the archive for this Java, PySpark and jars. It may not exist yet. Raises E701 to E703."""
    java = Path(require_java()).resolve()
    # an update replaces Java at the same path, and the archive no longer fits
    parts = [str(java), str(java.stat().st_mtime_ns), version("pyspark"), *map(str, delta_jars())]
    return cache_directory() / f"classes-{hashlib.sha256(os.linesep.join(parts).encode()).hexdigest()[:16]}.jsa"


def archive_options(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the JVM options for an existing archive. Empty if there is none, or if other archive options are set."""
    set_already = " ".join(environment.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"))
    if any(option in set_already for option in _OPTIONS):
        return ()
    path = archive_file()
    # without Java's warnings about an archive that does not fit: it then starts without one
    return (f"-XX:SharedArchiveFile={path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if _is_own(path) else ()


def _is_own(path: Path) -> bool:
    """Return whether a file exists that no other user can change: the JVM trusts the classes in it."""
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and foreign_writer(status, str(path)) is None


def write_archive(path: Path, options: str = "") -> None:
    """Start Spark in its own process, run a small batch, and write the loaded classes to `path`.

    `options` are the JVM's own. Raises E707 if no archive was written. Cost: a minute of one core, 170 MB of disk.
    """
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise WaterclockError(
            "E707",
            "the archive of classes has no folder",
            where=str(path.parent),
            why=error.strerror or str(error),
            fix="free space or allow writing there, or set XDG_CACHE_HOME; runs work without it",
        ) from error
    # in the same folder, so that a rename makes it appear as a whole, even with several writers
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=path.parent) as scratch:
        written = Path(scratch) / path.name
        own = os.environ.get("JAVA_TOOL_OPTIONS", "")
        archive = f'"-XX:ArchiveClassesAtExit={written}"'  # in quotes: the path may have blanks
        given = {"JAVA_TOOL_OPTIONS": f"{own} {options} {archive} -Xlog:disable".strip()}
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__, scratch],
            env={**os.environ, **given},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not written.is_file():
            raise WaterclockError(
                "E707",
                "Java wrote no archive of classes",
                where=str(path),
                why=_failure_reason(done.stderr) or f"its JVM exited with code {done.returncode}",
                fix="runs work without it; Java 17 or newer writes one if its folder has 200 MB of free space"
                + (f" and {', '.join(settings_of_java())} do not prevent it" if settings_of_java() else ""),
            )
        written.replace(path)


def _failure_reason(output: str) -> str:
    """Return the reason of a `WaterclockError` that the process printed, or the last line of its output."""
    lines = output.strip().splitlines()
    return next((line[3:].strip() for line in lines if line.startswith("why")), lines[-1] if lines else "")


def _run_small_batch(scratch: Path) -> None:
    """Run a small batch, and let the JVM end by itself: it then writes the archive."""
    from pyspark import SparkContext

    from waterclock.engine.spark.session import open_session

    session = open_session("local[2]", scratch / "work", {})
    table = str(scratch / "table")
    session.range(10).selectExpr("id", "id % 3 AS k").write.format("delta").save(table)
    session.read.format("delta").load(table).groupBy("k").count().collect()
    session.stop()
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - only the gateway has the process
    gateway.shutdown()
    gateway.proc.stdin.close()  # Spark's JVM ends when its stdin closes
    gateway.proc.wait(_PATIENCE)


if __name__ == "__main__":
    _run_small_batch(Path(sys.argv[1]))
