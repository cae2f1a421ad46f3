"""Opens the one Spark session of a runner, and a session of its own for each batch."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waterclock.engine.spark import connect
from waterclock.engine.spark.class_archive import archive_options
from waterclock.engine.spark.confined_jvm import CONFS, OPTIONS, FileLimits
from waterclock.engine.spark.jars import delta_jars, object_storage_jars
from waterclock.engine.spark.java import find_java
from waterclock.engine.spark.jvm import JvmLog, end_of, jvm_start_error, require_user, start_jvm
from waterclock.engine.spark.scratch_folder import make_scratch_folder
from waterclock.engine.spark.settings import SparkSettings
from waterclock.engine.spark.user_defined_types import block_foreign_types
from waterclock.errors import WaterclockError
from waterclock.permissions.ownership import make_private_folder

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession


# A runner lives for months. Spark keeps data about past jobs for its web UI, which is off, and its pools start a thread
# for every task, up to a thousand.
_BOUNDS = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.ui.retainedDeadExecutors": "5",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.shuffleExchange.maxThreadThreshold": "16",
    "spark.sql.broadcastExchange.maxThreadThreshold": "16",
    "spark.sql.resultQueryStage.maxThreadThreshold": "16",
}

# Half of the CPU of a small run was spent in Java's C2 compiler, on code that was hardly run again. It now starts only
# when code has run fifty times as often as usual, as loops over many rows do (docs/decisions/spark-settings.md).
_COMPILE_LATE = (
    "-XX:Tier4InvocationThreshold=250000",
    "-XX:Tier4MinInvocationThreshold=30000",
    "-XX:Tier4CompileThreshold=750000",
    "-XX:Tier4BackEdgeThreshold=2000000",
)


# Hadoop's options for object stores
_OF_STORES = ("spark.hadoop.fs.s3", "spark.hadoop.fs.AbstractFileSystem.s3", "spark.hadoop.mapreduce.outputcommitter.")

# A process that reaches the ports of Spark's RPC and block manager could run code in it. Spark generates a secret for
# each session by itself; as a configuration option it would be in the command line of the JVM. The owner of a cluster
# sets its secret.
_FOR_THIS_MACHINE = {"spark.authenticate": "true", "spark.driver.bindAddress": "127.0.0.1"}

# Spark's xpath() would fetch the DTD of a document's DOCTYPE: a file, or an address that contains the rows
_NO_FOREIGN_XML = tuple(f"-Djavax.xml.accessExternal{what}=" for what in ("DTD", "Schema", "Stylesheet"))

# executors are JVMs of their own, on any machine
_FOR_A_CLUSTER = {"spark.executor.extraJavaOptions": " ".join(("-Duser.timezone=UTC", *_NO_FOREIGN_XML))}


class Sessions:
    """Starts Spark on first use and gives each batch a session of its own.

    The configuration, temporary views and functions of a batch are visible to that batch alone. Nothing starts before
    `root` or `own` is called: a run with nothing to do needs no JVM. With `lasts`, the JVM is set up to run for days,
    not minutes. With `readable`, a JVM on this machine is confined to reading these folders (see `confined_jvm`).
    """

    def __init__(
        self,
        *,
        work_folder: Path,
        settings: SparkSettings | None = None,
        lasts: bool = False,
        readable: Sequence[Path] | None = None,
    ) -> None:
        self._lasts, self._readable = lasts, readable
        self._settings = settings or SparkSettings()
        self._work = work_folder
        self._root: SparkSession | None = None
        self._is_borrowed = self._is_foreign = False
        self._refusal: WaterclockError | None = None
        self._log: JvmLog | None = None
        self._lock = threading.Lock()
        self._opened: weakref.WeakSet[SparkSession] = weakref.WeakSet()

    @classmethod
    def from_session(cls, session: SparkSession) -> Sessions:
        """Return `Sessions` on the Spark of an existing session. Closing them leaves it running."""
        block_foreign_types()
        borrowed = cls(work_folder=Path())
        borrowed._root = session
        borrowed._is_borrowed = True
        return borrowed

    @property
    def is_open(self) -> bool:
        """Whether `root` or `own` has started Spark."""
        return self._root is not None

    def root(self) -> SparkSession:
        """Return the runner's session, and start Spark (seconds) on first use.

        If the process already has a session, such as a notebook's, it is used: its configuration is kept, and it is
        never stopped here. Raises E701 to E704 if Spark does not start; later calls raise the same error until
        `revive`.
        """
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._root is None:
                self._root = self._start()
            return self._root

    def _start(self) -> SparkSession:
        block_foreign_types()
        there = _live_session()
        self._is_borrowed = self._is_foreign = there is not None
        if there is not None:
            return there
        try:
            if self._settings.connect:
                return connect.connect_session(self._settings)
            if self._settings.master.startswith("spark://") and "," not in self._settings.master:
                connect.require_reachable(self._settings.master, "the Spark master")
            session, self._log = _start_session(
                self._settings, self._work, lasts=self._lasts, confined=self._choose_confinement()
            )
        except WaterclockError as refusal:
            self._refusal = refusal
            raise
        return session

    def _choose_confinement(self) -> FileLimits | None:
        settings = self._settings
        if self._readable is None or not settings.is_local or settings.packages:
            return None
        return FileLimits(self._readable, self._work, settings.confs, has_stores=bool(settings.schemes))

    def page(self) -> str | None:
        """Return the address of Spark's web UI. None if it is off, which is the default."""
        root, is_on = self._root, self._settings.confs.get("spark.ui.enabled") == "true"
        return root.sparkContext.uiWebUrl if is_on and root is not None and not connect.is_remote(root) else None

    def own(self) -> SparkSession:
        """Return a new session that shares only the JVM with `root`. Cost: about a millisecond."""
        root = self.root()
        if connect.is_remote(root) and not self._is_foreign:
            session = connect.open_another_session(self._settings)
        else:
            session = root.newSession()
            if self._is_foreign:
                _configure(session, self._settings.confs)
        self._opened.add(session)
        return session

    def open_sessions(self) -> list[SparkSession]:
        """Return the sessions made by `own` that are still in use."""
        return list(self._opened)

    def release(self, session: SparkSession) -> None:
        """Close a session of `own` at a Spark Connect server, which keeps its state until then. No effect otherwise."""
        if not self._is_borrowed and connect.is_remote(session) and session is not self._root:
            connect.close_session(session)

    def has_ended(self) -> bool:
        """Return whether Spark was started and no longer answers. That explains any later error. Cost: one call."""
        return self._root is not None and not _is_alive(self._root)

    def revive(self) -> bool:
        """Discard a Spark that has ended, by a killed JVM or a stopped context, and return whether it had ended.

        The next `root` starts Spark again. Call this between batches only: objects of the old session become invalid.
        """
        with self._lock:
            self._refusal = None
            if self._root is None or self._is_borrowed or _is_alive(self._root):
                return False
            _discard(self._root)
            self._root = None
            return True

    def end_of_jvm(self) -> str | None:
        """Describe how the JVM that this process started has ended, with its last output. None if it started none."""
        if self._root is None or self._is_borrowed or connect.is_remote(self._root):
            return None
        from pyspark import SparkContext

        gateway = SparkContext._gateway  # noqa: SLF001 - only the gateway has the process
        return end_of(None if gateway is None else gateway.proc, self._log)

    def close(self) -> None:
        """Stop Spark, if it was started here."""
        with self._lock:
            if self._root is not None and not self._is_borrowed:
                _stop(self._root)
                self._root = None


def _live_session() -> SparkSession | None:
    """Return the live session of this process, if it has one."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.active()
    except PySparkException:
        return None
    return session if _is_alive(session) else None


def _configure(session: SparkSession, confs: Mapping[str, str]) -> None:
    """Configure a session of a Spark context that other code started, as far as one session can be configured."""
    from waterclock.storage.spark_settings import SESSION_CONFS

    for key, value in {**SESSION_CONFS, **confs}.items():
        if key.startswith(("spark.sql.", "spark.databricks.")):
            session.conf.set(key, value)
        elif key.startswith(_OF_STORES):
            session.conf.set(key.removeprefix("spark.hadoop."), value)  # a session knows it by Hadoop's own name


def _stop(session: SparkSession) -> None:
    """Stop Spark. A JVM that was killed needs no stop."""
    if connect.is_remote(session):
        connect.close_session(session)
        return
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # published without types

    with warnings.catch_warnings(), suppress(Py4JError, OSError):
        warnings.simplefilter("ignore", RuntimeWarning)  # PySpark warns about a JVM that does not answer
        session.stop()


def _is_alive(session: SparkSession) -> bool:
    if connect.is_remote(session):
        return connect.is_session_known(session)
    try:
        session.newSession()
    except Exception:  # noqa: BLE001 - each failure has its own type: a JVM that is gone or stops, a stopped context
        return False
    return True


def _discard(session: SparkSession) -> None:
    """Close a session whose Spark has ended, and remove its JVM, which PySpark would continue to use."""
    from pyspark.sql import SparkSession

    if connect.is_remote(session):
        connect.close_session(session)
        return
    _stop(session)
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001 - as below
    _end_jvm()


def _end_jvm() -> None:
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - there is no public way to release a JVM
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    if gateway is not None:
        gateway.proc.kill()  # first: a busy one would not answer
        gateway.proc.wait()
        gateway.shutdown()


def open_session(
    master: str, work_folder: Path, confs: Mapping[str, str], *, schemes: Sequence[str] = ()
) -> SparkSession:
    """Start Spark with Delta, UTC, the jars of `schemes`, and folders of its own below `work_folder`.

    Raises E701 to E704 with the places searched, if Java, Delta's jars or the JVM are not available.
    """
    return _start_session(SparkSettings(master=master, confs=confs, schemes=tuple(schemes)), work_folder, lasts=True)[0]


def _start_session(
    spark_settings: SparkSettings, work_folder: Path, *, lasts: bool, confined: FileLimits | None = None
) -> tuple[SparkSession, JvmLog]:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from waterclock.storage.spark_settings import SESSION_CONFS

    require_user()
    # workers must use this very interpreter, or another that has our libraries
    os.environ["PYSPARK_PYTHON"] = spark_settings.python or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if spark_settings.is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_py4js)  # its errors are reported as ours
    try:
        make_private_folder(work_folder)
    except OSError as error:
        raise WaterclockError(
            "E704",
            "Spark has no work folder",
            where=str(work_folder),
            why=error.strerror or str(error),
            fix="check that the project's storage is writable and has free space",
        ) from error
    jars = (*delta_jars(), *(jar for scheme in spark_settings.schemes for jar in object_storage_jars(scheme)))
    settings = {
        "spark.jars": ",".join(jar.absolute().as_uri() for jar in jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.extraJavaOptions": _java_options(
            work_folder, make_scratch_folder(work_folder), lasts=lasts, more=OPTIONS if confined else ()
        ),
        "spark.executorEnv.PYTHONSAFEPATH": "1",  # otherwise workers import from the working folder, whoever owns it
        "spark.executorEnv.TZ": "UTC",  # a Python function gets times in the zone of its process
        "spark.driver.memory": spark_settings.memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_BOUNDS,
        "spark.sql.warehouse.dir": str(work_folder / "warehouse"),
        # Delta's SQL parser does not support the newer way of binding :name values, which then stay unbound
        "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
        **SESSION_CONFS,
        **(_FOR_THIS_MACHINE if spark_settings.is_local else _FOR_A_CLUSTER),
        **({"spark.jars.packages": ",".join(spark_settings.packages)} if spark_settings.packages else {}),
        **spark_settings.confs,
        **(CONFS if confined else {}),
    }
    # the log is outside the folders of a confined JVM, which could replace it by a link
    log = JvmLog.at((work_folder.parent if confined else work_folder) / "jvm.log")
    conf = _spark_conf(settings, spark_settings.master)
    if SparkContext._gateway is None:  # noqa: SLF001 - an existing JVM is used; there is no public API
        shown = {name: value for name, value in settings.items() if name not in spark_settings.secrets}
        start_jvm(_spark_conf(shown, spark_settings.master), log, confined, jars)
    try:
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    except (Py4JError, PySparkException, OSError) as error:
        refusal = jvm_start_error(find_java(), log, error)
        _end_jvm()
        raise refusal from error
    session.sparkContext.setLogLevel("OFF")
    if confined:
        _forget_files_of_spark()
        _end_accumulators(session)
    return session, log


def _spark_conf(settings: Mapping[str, str], master: str) -> SparkConf:
    from pyspark import SparkConf

    return SparkConf().setAll(list(settings.items())).setMaster(master).setAppName("waterclock")


def _end_accumulators(session: SparkSession) -> None:
    """Stop PySpark's accumulator server, which unpickles updates from the JVM. Queries use no accumulators."""
    context: Any = session.sparkContext
    context._accumulatorServer.shutdown()  # noqa: SLF001 - PySpark has no setting for it
    context._accumulatorServer = None  # noqa: SLF001


def _forget_files_of_spark() -> None:
    """Remove the folder of Spark's `addFile`, where a confined JVM can write, from Python's import path."""
    from pyspark import SparkFiles

    folder = SparkFiles.getRootDirectory()
    sys.path[:] = [each for each in sys.path if each != folder]


def _is_not_py4js(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _java_options(work_folder: Path, scratch: Path, *, lasts: bool, more: Sequence[str] = ()) -> str:
    return " ".join(
        _quote_option(option)
        for option in (
            "-Duser.timezone=UTC",
            *_NO_FOREIGN_XML,
            f"-Dderby.system.home={work_folder}",
            f"-Djava.io.tmpdir={scratch}",
            "-XX:+UseParallelGC",
            # hash tables access memory randomly: with them, a join of ten million facts took a fifth less CPU
            *(["-XX:+UseTransparentHugePages"] if _offers_huge_pages() else []),
            *(() if lasts else _COMPILE_LATE),
            *more,
            *archive_options(os.environ),
        )
    )


def _quote_option(option: str) -> str:
    """Quote a JVM option for Spark's launcher, which splits a line of options at blanks outside of quotes."""
    return '"' + option.replace("\\", r"\\").replace('"', r"\"") + '"'


def _offers_huge_pages(setting: Path = Path("/sys/kernel/mm/transparent_hugepage/enabled")) -> bool:
    """Return whether the kernel provides huge pages on request. Without them, the JVM would print a warning."""
    try:
        return "[never]" not in setting.read_text(encoding="ascii")
    except OSError:
        return False
