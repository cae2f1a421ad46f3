"""Keeps what Java loads at each start of Spark in a file that later starts map into memory: an archive of classes.

A JVM writes one as it ends (JEP 350). Each that starts sees for itself whether Java and the jars are still those that
were there, and passes it over where not. None is taken where a folder that holds anything is in the class path.
"""

from __future__ import annotations

import hashlib
import os
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
from waterclock.ownership import make_private_folder

_OPTIONS = ("SharedArchiveFile", "ArchiveClassesAtExit")
_PATIENCE = 600  # seconds from the end of the work to that of the JVM, which writes then


def archive_file() -> Path:
    """Return where the archive of this Java, this PySpark and these jars lies, or would.

    Raises  E701 to E703 where one of them is not to be had
    """
    java = Path(require_java()).resolve()
    # an update puts another Java in its place, with which the archive fits no more
    parts = [str(java), str(java.stat().st_mtime_ns), version("pyspark"), *map(str, delta_jars())]
    return cache_directory() / f"classes-{hashlib.sha256(os.linesep.join(parts).encode()).hexdigest()[:16]}.jsa"


def archive_options(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the JVM's options for the archive that is there; none where there is none, or where others are set."""
    set_already = " ".join(environment.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"))
    if any(option in set_already for option in _OPTIONS):
        return ()
    path = archive_file()
    # what it says of an archive that does not fit is for nobody: it starts without
    return (f"-XX:SharedArchiveFile={path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off") if path.is_file() else ()


def write_archive(path: Path, options: str = "") -> None:
    """Start Spark in a process of its own, have it do a little of all, and write what it loaded as `path`.

    `options` are the JVM's own. Raises  E707 where nothing came of it. Cost: a minute of one core, 170 MB of disk
    """
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise WaterclockError(
            "E707",
            "the archive of classes has no folder",
            where=str(path.parent),
            why=error.strerror or str(error),
            fix="free or permit the place, or set XDG_CACHE_HOME; runs go on without it",
        ) from error
    # beside its goal, so that a rename makes it appear whole, whoever else is writing
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=path.parent) as scratch:
        written = Path(scratch) / path.name
        own = os.environ.get("JAVA_TOOL_OPTIONS", "")
        archive = f'"-XX:ArchiveClassesAtExit={written}"'  # in quotes: the path may have blanks
        given = {"JAVA_TOOL_OPTIONS": f"{own} {options} {archive} -Xlog:disable".strip()}
        done = subprocess.run(
            [sys.executable, "-m", __name__, scratch],
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
                why=_reason(done.stderr) or f"its JVM ended with {done.returncode}",
                fix="runs go on without it; Java 17 or newer writes one where its folder has 200 MB to spare"
                + (f" and {', '.join(settings_of_java())} do not stand in the way" if settings_of_java() else ""),
            )
        written.replace(path)


def _reason(said: str) -> str:
    """Return why an error of ours came, or the last line that was said."""
    lines = said.strip().splitlines()
    return next((line[3:].strip() for line in lines if line.startswith("why")), lines[-1] if lines else "")


def _work(scratch: Path) -> None:
    """Do what a small batch does, and let the JVM end by itself: it writes then."""
    from pyspark import SparkContext

    from waterclock.engine.spark.session import open_session

    session = open_session("local[2]", scratch / "work", {})
    table = str(scratch / "table")
    session.range(10).selectExpr("id", "id % 3 AS k").write.format("delta").save(table)
    session.read.format("delta").load(table).groupBy("k").count().collect()
    session.stop()
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - it alone knows the process
    gateway.shutdown()
    gateway.proc.stdin.close()  # at which Spark's JVM ends
    gateway.proc.wait(_PATIENCE)


if __name__ == "__main__":
    _work(Path(sys.argv[1]))
