"""Starts Spark's JVM with its output in a log file, and reads its last messages from there."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.engine.spark.confined_jvm import FileLimits, start_confined
from waterclock.engine.spark.java import require_java, settings_of_java, words_of
from waterclock.errors import WaterclockError

if TYPE_CHECKING:
    from pyspark import SparkConf

_NOISE = re.compile(
    r"WARNING:|Picked up |NOTE: Picked up|Using Spark's default|SLF4J|log4j|\s+at |\d\d/\d\d/\d\d .* (INFO|WARN) "
)
_MOST_LINES, _MOST_WORDS = 4, 600
_TAIL = 20_000


@dataclass(frozen=True, slots=True)
class JvmLog:
    """The log file of a JVM, and the byte offset in it at which the output of this JVM starts."""

    path: Path
    begin: int

    @classmethod
    def at(cls, path: Path) -> JvmLog:
        """Return the log for a JVM that is about to start. The output of earlier JVMs stays in the file."""
        return cls(path, path.stat().st_size if path.exists() else 0)

    def last_words(self) -> str:
        """Return the last meaningful lines, without warnings and stack frames, or an empty text."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(self.begin, self.path.stat().st_size - _TAIL))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return _shorten_log(lines)


def require_user() -> None:
    """Raise E704 if the user has no name on this machine, but only a user id: Spark requires a name."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError as error:
        raise WaterclockError(
            "E704",
            "Spark does not start for a user without a name",
            why=f"the user {os.getuid()} is not known on this machine (/etc/passwd)",
            fix=(
                f"run as a known user, in a container as a user of its image; `useradd --uid {os.getuid()}` creates one"
            ),
        ) from error


def start_jvm(conf: SparkConf, log: JvmLog, confined: FileLimits | None = None, jars: Sequence[Path] = ()) -> None:
    """Start the JVM for PySpark in this process, with its output in the file of `log`.

    `confined`: the confinement for queries. `jars` are loaded in addition to Spark's own. Raises E701 and E703 for an
    unsuitable Java (see `require_java`), and E704 if the JVM does not start.
    """
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    java = require_java()
    gateway: Any = None
    try:
        with log.path.open("ab") as file:

            def launch() -> None:
                nonlocal gateway
                gateway = launch_gateway(conf, {"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]  # PySpark's

            if confined is None:
                launch()
            else:
                start_confined(launch, confined, java=java, jars=jars)
    except (PySparkException, OSError) as error:
        raise jvm_start_error(java, log, error) from error
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm  # noqa: SLF001 - PySpark sets both as well


def jvm_start_error(java: str, log: JvmLog, error: Exception) -> WaterclockError:
    """Build the error for a JVM that did not start: its Java and settings, and its last messages."""
    settings = "".join(f", {name}={value}" for name, value in settings_of_java().items())
    home = os.environ.get("SPARK_HOME")
    words = _refusal_of_java(java) or log.last_words() or _one_line(error)
    return WaterclockError(
        "E704",
        "Spark's JVM does not start",
        where=f"{java}{settings}" + (f", SPARK_HOME={home}" if home else ""),
        why=words,
        fix=_suggest_fix(home, log, words, has_settings=bool(settings)),
    )


def end_of(process: Any, log: JvmLog | None) -> str:
    """Describe how a JVM ended, with its last messages."""
    code = process.poll() if process is not None else None
    how = "its process no longer exists"
    if code is not None and code < 0:
        how = f"it was killed by {signal.Signals(-code).name}"
        how += " (by the kernel if memory ran out)" if -code == signal.SIGKILL else ""
    elif code is not None:
        how = f"it exited with code {code}"
    words = log.last_words() if log is not None else ""
    return f"{how}; its last output: {words}" if words else how


def _refusal_of_java(java: str) -> str:
    """Return Java's error message if `java -version` fails, or an empty text."""
    words = words_of(java)
    return "" if "version" in words else _shorten_log(words.splitlines())


def _shorten_log(lines: Sequence[str]) -> str:
    meaningful = [line.strip() for line in lines if line.strip() and not _NOISE.match(line)]
    words = "; ".join(meaningful[-_MOST_LINES:])
    return words if len(words) <= _MOST_WORDS else "…" + words[-_MOST_WORDS + 1 :]


def _suggest_fix(home: str | None, log: JvmLog, words: str, *, has_settings: bool) -> str:
    if "insufficient memory" in words or "could not reserve" in words.lower():
        return f"free some memory: Spark's JVM may use up to 2 GiB; its whole output is in {log.path}"
    if home:
        return "unset SPARK_HOME, so that the Spark installed with Waterclock is used"
    if has_settings:
        return (
            f"check {', '.join(settings_of_java())}, which add options to every JVM; its whole output is in {log.path}"
        )
    if shutil.which("bash") is None:
        return "install bash: Spark's own scripts start the JVM with it"
    return f"its whole output is in {log.path}"


def _one_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
