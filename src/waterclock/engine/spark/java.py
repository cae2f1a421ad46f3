"""Finds the Java that Spark runs on. If none fits, the error lists the places searched and how to install one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from waterclock.errors import WaterclockError

OLDEST = 17
_USUAL = (17, 21)  # versions to propose first; a newer one is proposed only if there is no other
INSTALLS = {  # bin/_ensure installs the same packages
    "apt-get": "apt-get update && apt-get install -y --no-install-recommends default-jre-headless",
    "dnf": "dnf install -y java-21-openjdk-headless",
    "apk": "apk add openjdk21-jre-headless",
    "pacman": "pacman -S jre21-openjdk-headless",
    "zypper": "zypper install -y java-21-openjdk-headless",
    "brew": "brew install openjdk@21",
}
_USUAL_PLACES = (
    *(
        "/usr/lib/jvm/*",
        "/usr/java/*",
        "/opt/java/*",
        "/opt/*jdk*",
        "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    ),
    *("/opt/homebrew/opt/openjdk*", "/usr/local/opt/openjdk*", "~/.sdkman/candidates/java/*", "~/.jdks/*"),
)
_VERSION = re.compile(r'version[="\s]+(?:1\.)?(\d+)', re.IGNORECASE)
_PATIENCE = 60  # seconds for `java -version` on a busy machine
_MOST_WORDS = 400


def find_java() -> str:
    """Return the `java` command of JAVA_HOME, or else of PATH. Raises E701 if there is none."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if command is None:
        raise WaterclockError(
            "E701",
            "java is missing",
            where=_describe_search_path(),
            why=_why_missing(home),
            fix=describe_java_installation(),
        )
    return command


def require_java() -> str:
    """Return the `java` command, after checking that it is new enough for Spark.

    Raises E701 if there is none, E703 if it is too old or does not start. Cost: a read of one small file; if Java's
    folder has no `release`, a JVM that prints its version, some 0.1 s.
    """
    command = find_java()
    output = _read_release(Path(command)) or words_of(command)
    found = _VERSION.search(output)
    if found is None:
        raise WaterclockError(
            "E703",
            "java does not start",
            where=f"{command} -version",
            why=f"its output: {_shorten(output)}" if output.strip() else "it ended without any output",
            fix=describe_java_installation(),
        )
    if int(found[1]) < OLDEST:
        raise WaterclockError(
            "E703",
            f"Java {found[1]} is too old",
            where=command,
            why=f"Spark runs on Java {OLDEST} or newer; searched: {_describe_search_path()}",
            fix=describe_java_installation(),
        )
    return command


def words_of(command: str) -> str:
    """Return the output of `java -version`, or the error if it cannot run."""
    try:
        done = subprocess.run(
            [command, "-version"], capture_output=True, timeout=_PATIENCE, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout + done.stderr).decode(errors="replace")


def describe_java_installation() -> str:
    """Describe how to get a suitable Java on this machine: one that is installed, or else the command to install it."""
    there = {place: _version_at(place) or 0 for place in _java_folders()}
    fitting = [place for place, version in there.items() if version >= OLDEST]
    if fitting:
        best = min(fitting, key=lambda place: (there[place] not in _USUAL, -there[place]))
        return f"export JAVA_HOME={best}, which is Java {there[best]}"
    manager = next((name for name in INSTALLS if shutil.which(name)), None)
    if manager is None:
        return f"install Java {OLDEST} or newer, and put it on PATH or name its folder in JAVA_HOME"
    if manager == "brew":
        return f'{INSTALLS[manager]}; export JAVA_HOME="$(brew --prefix openjdk@21)"'
    return f"{INSTALLS[manager]} (as root), and leave JAVA_HOME unset; or name a Java {OLDEST} or newer in JAVA_HOME"


def settings_of_java() -> dict[str, str]:
    """Return the environment variables that add options to every JVM, as far as they are set."""
    names = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def _describe_search_path() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"JAVA_HOME={home}" if home else f"PATH={os.environ.get('PATH', '')}, and JAVA_HOME is not set"


def _why_missing(home: str | None) -> str:
    reason = "JAVA_HOME is set, but has no bin/java" if home else "no folder of PATH has java"
    return f"Spark runs on Java {OLDEST} or newer; {reason}"


def _java_folders() -> Iterator[Path]:
    """Yield the Java folders of this machine: that of PATH, then the usual ones."""
    of_path = shutil.which("java")
    if of_path:
        yield Path(of_path).resolve().parents[1]
    for pattern in _USUAL_PLACES:
        path = Path(pattern).expanduser()
        for place in sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor)))):
            if (place / "bin" / "java").is_file():
                yield place


def _version_at(home: Path) -> int | None:
    found = _VERSION.search(_read_release(home / "bin" / "java"))
    return int(found[1]) if found else None


def _read_release(command: Path) -> str:
    """Return the content of a Java's `release` file, or an empty text."""
    try:
        return (command.resolve().parents[1] / "release").read_text(encoding="utf-8", errors="replace")
    except (OSError, IndexError):
        return ""


def _shorten(output: str) -> str:
    lines = "; ".join(line.strip() for line in output.splitlines() if line.strip())
    return lines if len(lines) <= _MOST_WORDS else lines[: _MOST_WORDS - 1] + "…"
