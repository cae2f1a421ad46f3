"""Finds or downloads the jars that Spark needs besides its own, such as Delta.

They come from the directory in `WATERCLOCK_JARS`, or else from the user's cache, which is filled once by the Ivy that
PySpark includes. `ivy.xml` lists the exact coordinates, and `jars.sha256` their checksums. `ivy-s3.xml` and
`jars-s3.sha256` do the same for storage in S3. This module does not import PySpark.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from waterclock.engine.spark.java import find_java
from waterclock.errors import WaterclockError
from waterclock.permissions.ownership import foreign_writer, make_private_folder

_HERE = Path(__file__).parent
_OFFLINE_FIX = (
    "without access to a Maven registry, put these jars into a directory and set WATERCLOCK_JARS to it; "
    "behind a mirror, set WATERCLOCK_IVY_SETTINGS to an Ivy settings file"
)


@dataclass(frozen=True, slots=True)
class _JarSet:
    """Jars that are downloaded together: the file with their coordinates, and the one with their checksums."""

    coordinates: str
    checksums: str


_DELTA = _JarSet("ivy.xml", "jars.sha256")
_S3 = _JarSet("ivy-s3.xml", "jars-s3.sha256")
_OF_SCHEME = {"s3": _S3, "s3a": _S3}
# built by bin/_log_store
_LOG_STORE = _HERE / "log_store" / "log-store.jar"


def delta_jars() -> tuple[Path, ...]:
    """Return the local paths of Delta's jars. Missing ones are downloaded first (10 MB). Raises E701, E702."""
    return _find_jars(_DELTA)


def object_storage_jars(scheme: str) -> tuple[Path, ...]:
    """Return the additional jar files that Spark needs for URLs of a scheme, such as s3. Empty for a local path.

    The last one is Waterclock's own and part of its package: the log store that makes commits to S3 safe. Raises E701
    and E702, for the same reasons as `delta_jars`. Cost: some 40 file look-ups; the first time half a minute and 13
    MB.
    """
    wanted = _OF_SCHEME.get(scheme)
    return (*_find_jars(wanted), _LOG_STORE) if wanted else ()


def _find_jars(jar_set: _JarSet) -> tuple[Path, ...]:
    wanted = _checksums(jar_set)
    configured = os.environ.get("WATERCLOCK_JARS")
    directory = Path(configured).expanduser() if configured else cache_directory() / "jars"
    if configured:
        missing = [name for name in wanted if not os.access(directory / name, os.R_OK)]
    else:
        _require_own(directory)
        missing = [name for name, digest in wanted.items() if not _is_intact(directory / name, digest)]
    if missing and configured:
        raise WaterclockError(
            "E702",
            f"WATERCLOCK_JARS has no readable {', '.join(missing)}",
            where=str(directory),
            why="jars are never fetched into a configured directory",
            fix=f"copy {', '.join(missing)} there, or unset WATERCLOCK_JARS to have them fetched",
        )
    if missing:
        _download(jar_set, wanted, directory)
    return tuple(directory / name for name in wanted)


def _require_own(directory: Path) -> None:
    """Remove other users' write access to the folder of downloaded jars, whose code runs as this user. Raises E702."""
    if not directory.is_dir() or foreign_writer(directory.stat(), str(directory)) is None:
        return
    with suppress(OSError):
        directory.chmod(0o755)
    if writer := foreign_writer(directory.stat(), str(directory)):
        raise WaterclockError(
            "E702",
            "another user can replace the jars",
            where=str(directory),
            why=writer,
            fix=f"remove {directory}, or name another folder in XDG_CACHE_HOME or WATERCLOCK_JARS",
        )


def _is_intact(jar: Path, digest: str) -> bool:
    """Return whether a downloaded jar is present and unchanged. Only a jar that other users can write is hashed."""
    if not jar.is_file():
        return False
    if foreign_writer(jar.stat(), str(jar)) is None:
        return True
    with suppress(OSError):
        jar.chmod(0o644)
    return foreign_writer(jar.stat(), str(jar)) is None and _checksum(jar) == digest


def _checksum(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_directory() -> Path:
    """Return Waterclock's folder in the user's cache, which may not exist. Raises E702 for a user without a home."""
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache) / "waterclock"
    try:
        return Path.home() / ".cache" / "waterclock"
    except RuntimeError as error:  # a container that runs under a bare user id
        raise WaterclockError(
            "E702",
            "the folder of Waterclock's cache is unknown",
            why=f"the user {os.getuid()} has no home directory on this machine",
            fix="set XDG_CACHE_HOME or HOME, or set WATERCLOCK_JARS to a directory of jars",
        ) from error


def _checksums(jar_set: _JarSet) -> dict[str, str]:
    lines = (_HERE / jar_set.checksums).read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def _download(jar_set: _JarSet, wanted: dict[str, str], directory: Path) -> None:
    java = find_java()
    try:
        make_private_folder(directory.parent)
        directory.mkdir(0o755, exist_ok=True)
        _require_own(directory)
        # in the same folder, so that a rename makes each jar appear as a whole, even with several fetching processes
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as scratch:
            output = _run_ivy(java, jar_set, Path(scratch))
            for name, digest in wanted.items():
                _install_jar(Path(scratch) / "jars" / name, digest, directory / name, output)
    except OSError as error:
        raise WaterclockError(
            "E702",
            "the jars cannot be written",
            where=str(directory),
            why=str(error),
            fix="free space or allow writing there, or set XDG_CACHE_HOME or WATERCLOCK_JARS",
        ) from error


def _run_ivy(java: str, jar_set: _JarSet, scratch: Path) -> str:
    settings = os.environ.get("WATERCLOCK_IVY_SETTINGS") or str(_HERE / "ivysettings.xml")
    command = [
        *(java, *_proxy_options(), "-jar", str(_ivy_jar())),
        *("-settings", settings, "-ivy", str(_HERE / jar_set.coordinates), "-cache", str(scratch / "ivy")),
        *("-retrieve", str(scratch / "jars" / "[artifact]-[revision].[ext]"), "-warn"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr


def _install_jar(source: Path, digest: str, goal: Path, output: str) -> None:
    if not source.is_file():
        raise WaterclockError(
            "E702",
            f"the jar {goal.name} cannot be fetched",
            where=str(goal.parent),
            why=_last_words(output),
            fix=_OFFLINE_FIX,
            transient=True,
        )
    if (found := _checksum(source)) != digest:
        raise WaterclockError(
            "E702",
            f"the jar {goal.name} has an unexpected checksum",
            where=str(goal.parent),
            why=f"its sha256 is {found}, not {digest}",
            fix="check the registry or mirror it was fetched from; the file was not kept",
        )
    source.chmod(0o644)  # jars are public: only other users that write are refused
    source.replace(goal)


def _last_words(output: str) -> str:
    """Return Ivy's messages about the failure, without the frame around them."""
    lines = [line.strip(" \t:") for line in output.splitlines()]
    failures = [
        line for line in lines if any(word in line.lower() for word in ("exception", "not found", "unresolved"))
    ]
    return "; ".join(dict.fromkeys(failures[:3] or lines[-1:])) or "Ivy gave no reason"


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    jars = [jar for root in roots for jar in sorted(Path(root, "jars").glob("ivy-*.jar"))]
    if not jars:
        raise WaterclockError(
            "E702",
            "the jars cannot be fetched",
            why="Ivy is missing: no pyspark/jars/ivy-*.jar is installed",
            fix="install pyspark from its package, or set WATERCLOCK_JARS to a directory of jars",
        )
    return jars[-1]


def _proxy_options() -> list[str]:
    """Return the environment's proxy as Java options: Java does not read the variables that other tools do."""
    address = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    proxy = urlsplit(address if "//" in address else f"//{address}") if address else None
    if proxy is None or proxy.hostname is None:
        return []
    return [f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={proxy.port or 80}"]


if __name__ == "__main__":
    try:
        found = [*delta_jars(), *(jar for scheme in sys.argv[1:] for jar in object_storage_jars(scheme))]
        sys.stdout.writelines(f"{jar}\n" for jar in found)
    except WaterclockError as refusal:
        sys.exit(refusal.render())
