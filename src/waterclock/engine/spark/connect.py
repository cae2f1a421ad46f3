"""Opens sessions at a Spark Connect server, configures them, and checks that the server has Delta and UTC."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from waterclock.engine.spark.settings import SparkSettings
from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command
from waterclock.storage.spark_settings import SESSION_CONFS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PORT, _PATIENCE = 15002, 5.0
_HADOOP = "spark.hadoop."
_DELTA = "io.delta.sql.DeltaSparkSessionExtension"
_ZONE = "SELECT CAST(reflect('java.util.TimeZone', 'getDefault') AS STRING) AS zone"
_SERVER_OPTIONS = (
    "start the server with --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension"
    " --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
    " --conf spark.driver.extraJavaOptions=-Duser.timezone=UTC"
    " --conf spark.executor.extraJavaOptions=-Duser.timezone=UTC"
    " --conf spark.executorEnv.TZ=UTC and Delta's jars"
)


def connect_session(settings: SparkSettings) -> SparkSession:
    """Open a session at the server that `settings` name, and check the server, which takes some 50 ms.

    Raises E714 if the client is not installed, the server does not answer, or it has no Delta, UTC or our Spark
    version.
    """
    session = open_another_session(settings)
    try:
        _require_settings(session, settings)
    except BaseException:
        close_session(session)
        raise
    return session


def open_another_session(settings: SparkSettings) -> SparkSession:
    """Open a session with its own confs, views and functions, unchecked. Raises E714 if client or server is missing."""
    where = settings.connect or ""
    require_reachable(where, "the Spark Connect server")
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # its errors are reported as ours
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # PySpark's column functions read it to choose their kind
        try:
            builder = SparkSession.builder.remote(where)
            for name, value in _session_confs(settings).items():
                builder = builder.config(name, value)
            return builder.create()
        except ImportError:  # PySpark's own errors may be ImportErrors too
            raise
        except (PySparkException, OSError) as error:
            raise _no_answer_error(where, f"{type(error).__name__}: {error}".partition("\n")[0]) from error
    except ImportError as error:
        raise WaterclockError(
            "E714",
            "Spark Connect needs a client that is not installed",
            where=where,
            why=str(error).partition("\n")[0],
            fix=extra_install_command("connect"),
        ) from error


def require_reachable(address: str, what: str) -> None:
    """Raise E714 if nothing listens at the address `…//host:port`: Spark itself would retry for minutes."""
    parts = urlsplit(address)
    if parts.hostname is None:
        return
    try:
        socket.create_connection((parts.hostname, parts.port or _PORT), timeout=_PATIENCE).close()
    except OSError as error:
        raise WaterclockError(
            "E714",
            f"{what} does not answer",
            where=address,
            why=error.strerror or str(error),
            fix="check that it runs, and that its port can be reached",
            transient=True,
        ) from error


def is_session_known(session: SparkSession) -> bool:
    """Return whether the server still knows the session."""
    try:
        session.sql("SELECT 1").collect()
    except Exception:  # noqa: BLE001 - each failure has its own type: a server that is gone, one without its sessions
        return False
    return True


def close_session(session: SparkSession) -> None:
    """Close a session at the server. A session that the server has already closed is no error."""
    try:
        session.stop()
    except Exception:  # noqa: BLE001 - there is nothing left to end
        return


def is_remote(session: SparkSession) -> bool:
    """Return whether a session is connected to a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _session_confs(settings: SparkSettings) -> dict[str, str]:
    """Return the configuration of a session at the server, which takes Hadoop's options without `spark.hadoop.`."""
    # the log store is the server's: a setting here would have no effect (`require_log_store`)
    ours = {key: value for key, value in settings.confs.items() if not key.startswith("spark.delta.logStore")}
    return {key.removeprefix(_HADOOP): value for key, value in {**SESSION_CONFS, **ours}.items()}


def _require_settings(session: SparkSession, settings: SparkSettings) -> None:
    where = settings.connect or ""
    try:
        extensions = session.conf.get("spark.sql.extensions", "") or ""
        zone = session.sql(_ZONE).collect()[0].zone
        version = session.version
    except Exception as error:
        raise _no_answer_error(where, f"{type(error).__name__}: {error}".partition("\n")[0]) from error
    from pyspark import __version__ as ours

    wrong = [
        *([] if _DELTA in extensions else ["it does not have Delta"]),
        *([] if 'id="UTC"' in zone or "id=UTC" in zone else ["its JVM's time zone is not UTC"]),
        *([] if version == ours else [f"its Spark is {version}, ours {ours}"]),
    ]
    if wrong:
        raise WaterclockError(
            "E714",
            "the Spark Connect server has the wrong settings",
            where=where,
            why="; ".join(wrong),
            fix=_SERVER_OPTIONS,
        )


def _no_answer_error(where: str, why: str) -> WaterclockError:
    return WaterclockError(
        "E714",
        "the Spark Connect server does not answer",
        where=where,
        why=why,
        fix="check that it runs, and that its port can be reached",
        transient=True,
    )
