"""Starts the JVM of queries in a sandbox: it can read the tables, write to a work folder, and inherits no secrets.

A query is checked twice before Spark runs it. The sandbox limits one that passes both checks by mistake. Landlock
confines the JVM and its Python workers. On other systems than Linux 5.13 or later, only the environment is reduced. TCP
connections stay possible, since PySpark and Spark communicate by them.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.permissions.confinement import confine, landlock_version
from waterclock.permissions.ownership import cache_folder, make_private_folder

if TYPE_CHECKING:
    from waterclock.dpl.project import SparkDeclaration

OFF = "WATERCLOCK_UNCONFINED"
OPTIONS = ("-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData")
"""Options of a confined JVM. It cannot write to /tmp. If out of memory, it exits; the next query starts another."""
_KEPT_VARIABLES = frozenset(
    """
    HOME HTTP_PROXY HTTPS_PROXY JAVA_HOME JAVA_OPTS JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS LANG LANGUAGE LD_LIBRARY_PATH
    LOGNAME NO_PROXY PATH PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONPATH PYTHONSAFEPATH PYTHONUTF8
    SHELL SPARK_CONF_DIR SPARK_HOME SPARK_LOCAL_DIRS SPARK_LOCAL_HOSTNAME SPARK_LOCAL_IP SSL_CERT_DIR SSL_CERT_FILE
    TERM TZ USER VIRTUAL_ENV http_proxy https_proxy no_proxy
    """.split()
)
_KEPT_PREFIXES = ("LC_", "PYSPARK_", "_PYSPARK_", "NIX_")
_FILES_OF_AWS = ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE")
_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store", "/proc", "/sys",
    "/dev/random", "/dev/urandom", "/dev/zero", "/run/systemd/resolve",
    *(
        f"/etc/{name}"
        for name in """
        alternatives bash.bashrc ca-certificates crypto-policies fonts group host.conf hostname hosts java krb5.conf
        ld.so.cache ld.so.conf ld.so.conf.d localtime mime.types nsswitch.conf os-release passwd profile
        pki/ca-trust pki/java pki/tls/certs resolv.conf ssl/certs ssl/openssl.cnf timezone
        java-8-openjdk java-11-openjdk java-17-openjdk java-21-openjdk
        """.split()
    ),
)  # fmt: skip


_FILE = re.compile(r"/[^\s,:;=\"']+")
_SCRATCH = "spark.local.dir"
CONFS = {"spark.eventLog.enabled": "false"}
"""Configuration of a confined Spark: its event log would be written outside its work folder."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The files that a confined JVM may read, and the folder it may write to.

    It may also read the files of the system, Java and Python, and those that the project's own Spark `confs` name, such
    as a trust store. With `has_stores`, if the tables are in a bucket, it may read the credentials files of AWS's
    tools.
    """

    read: Sequence[Path]
    work: Path
    confs: Mapping[str, str] = field(default_factory=dict)
    has_stores: bool = False

    def named_files(self) -> Iterator[Path]:
        """Yield the existing files that the confs and the environment's Java options name."""
        options = [os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")]
        for value in (*self.confs.values(), *options):
            yield from (path for path in map(Path, _FILE.findall(value)) if path.is_file())

    def credentials(self) -> Iterator[Path]:
        """Yield the paths at which AWS's tools store bucket credentials."""
        if self.has_stores:
            yield Path.home() / ".aws"
            yield from (Path(place) for name in _FILES_OF_AWS if (place := os.environ.get(name)))

    def scratch_folders(self) -> Iterator[Path]:
        """Yield the folders in which Spark is configured to store temporary files."""
        settings = [self.confs.get(_SCRATCH, ""), os.environ.get("SPARK_LOCAL_DIRS", "")]
        yield from (Path(folder.strip()) for text in settings for folder in text.split(",") if folder.strip())


def is_confining() -> bool:
    """Return whether this system can confine a JVM and WATERCLOCK_UNCONFINED is not set."""
    return landlock_version() > 0 and not os.environ.get(OFF)


def why_unconfined(spark: SparkDeclaration | None) -> str | None:
    """Return why queries run without a sandbox, or None if they run in one.

    `spark` are the settings of the project. None: only the reasons of this system are considered.
    """
    if spark is not None and spark.connect:
        return "Spark runs on a Spark Connect server"
    if spark is not None and spark.master and not spark.master.startswith("local"):
        return "Spark runs on a cluster"
    if spark is not None and spark.packages:
        return "the Spark setting `packages` is set"
    if os.environ.get(OFF):
        return f"{OFF} is set"
    return None if landlock_version() else "this system has no Landlock (Linux 5.13 or later)"


def start_confined(start: Callable[[], None], limits: FileLimits, *, java: str, jars: Sequence[Path]) -> None:
    """Call `start` in a confined thread with a reduced environment, which its processes inherit. Raises its errors."""
    raised: list[BaseException] = []
    read = [*map(Path, _SYSTEM), *_program_folders(java), *jars, *cache_folder().glob("classes-*.jsa"), *limits.read]
    read += [*limits.named_files(), *limits.credentials()]
    write = [limits.work, Path("/dev/null"), *limits.scratch_folders()]

    def within() -> None:
        try:
            if is_confining():
                confine(read, write)
            start()
        except BaseException as error:  # noqa: BLE001 - raised again below
            raised.append(error)

    make_private_folder(limits.work / "tmp")
    with _reduced_environment(limits.work / "tmp", (*_KEPT_PREFIXES, *(("AWS_",) if limits.has_stores else ()))):
        thread = threading.Thread(target=within, name="starting a confined JVM")
        thread.start()
        thread.join()
    if raised:
        raise raised[0]


def _program_folders(java: str) -> Iterator[Path]:
    """Yield the installation folders of Java, Python, its packages and Waterclock."""
    yield Path(java).resolve().parent.parent
    yield from map(Path, {sys.prefix, sys.base_prefix, sys.exec_prefix})
    yield Path(sys.executable).resolve().parent.parent
    yield Path(__file__).parents[3]
    yield from (Path(each) for each in sys.path if each.endswith("-packages"))
    if home := os.environ.get("SPARK_HOME"):
        yield Path(home)
    for name in ("JAVA_HOME", "SPARK_CONF_DIR"):
        if place := os.environ.get(name):
            yield Path(place)


@contextmanager
def _reduced_environment(scratch: Path, prefixes: tuple[str, ...]) -> Iterator[None]:
    """Reduce the environment to the variables that Java, Spark and Python need. No other thread may need the others."""
    before, folder = dict(os.environ), tempfile.tempdir
    kept = {name: value for name, value in before.items() if name in _KEPT_VARIABLES or name.startswith(prefixes)}
    try:
        tempfile.tempdir = str(scratch)  # PySpark and the JVM exchange a file there
        os.environ.clear()
        os.environ.update(kept, TMPDIR=str(scratch))
        yield
    finally:
        tempfile.tempdir = folder
        os.environ.clear()
        os.environ.update(before)
