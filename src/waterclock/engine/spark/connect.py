"""Sessions at a Spark Connect server: opened, set as ours are, and held against what Delta and this code need of it."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from waterclock.engine.spark.settings import SparkSettings
from waterclock.errors import WaterclockError
from waterclock.extras import install_extra
from waterclock.storage.spark_settings import SESSION_CONFS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PORT, _PATIENCE = 15002, 5.0
_HADOOP = "spark.hadoop."
_DELTA = "io.delta.sql.DeltaSparkSessionExtension"
_ZONE = "SELECT CAST(reflect('java.util.TimeZone', 'getDefault') AS STRING) AS zone"
_HOW = (
    "start the server with --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension"
    " --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
    " --conf spark.driver.extraJavaOptions=-Duser.timezone=UTC"
    " --conf spark.executor.extraJavaOptions=-Duser.timezone=UTC"
    " --conf spark.executorEnv.TZ=UTC and Delta's jars"
)


def connected(settings: SparkSettings) -> SparkSession:
    """Open a session at the server that `settings` name: a look at it of some 50 ms.

    Raises  E714 where the client is not installed, the server does not answer, or is set otherwise than rows need
    """
    session = another(settings)
    try:
        _require(session, settings)
    except BaseException:
        end(session)
        raise
    return session


def another(settings: SparkSettings) -> SparkSession:
    """Open a session beside others, with confs, views and functions of its own.

    Raises  E714 where the client is not installed, or the server does not answer
    """
    where = settings.connect or ""
    require_reachable(where, "the Spark Connect server")
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        logging.getLogger("SQLQueryContextLogger").setLevel(
            logging.CRITICAL
        )  # what it raises is told as an error of ours
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # functions of columns ask it which kind they are to make
        try:
            builder = SparkSession.builder.remote(where)
            for name, value in _confs(settings).items():
                builder = builder.config(name, value)
            return builder.create()
        except ImportError:  # of PySpark's, that is one of its own errors too
            raise
        except (PySparkException, OSError) as error:
            raise _refusal(where, f"{type(error).__name__}: {error}".partition("\n")[0]) from error
    except ImportError as error:
        raise WaterclockError(
            "E714",
            "Spark Connect needs a client that is not installed",
            where=where,
            why=str(error).partition("\n")[0],
            fix=install_extra("connect"),
        ) from error


def require_reachable(address: str, what: str) -> None:
    """Refuse an address `…//host:port` at which nothing listens: Spark itself would try for minutes.

    Raises  E714
    """
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
            fix="see that it runs, and that its port may be reached",
            transient=True,
        ) from error


def answers(session: SparkSession) -> bool:
    """Tell whether the server still knows the session."""
    try:
        session.sql("SELECT 1").collect()
    except Exception:  # noqa: BLE001 - a server that is gone, or came back without its sessions: each has its own
        return False
    return True


def end(session: SparkSession) -> None:
    """Let the server forget a session; one that is gone is forgotten already."""
    try:
        session.stop()
    except Exception:  # noqa: BLE001 - there is nothing left to end
        return


def is_remote(session: SparkSession) -> bool:
    """Tell whether a session is one of a server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _confs(settings: SparkSettings) -> dict[str, str]:
    """Return what a session is set to; what is Hadoop's goes by its own name, as sessions hand it on."""
    # the log store is the server's: set here it would only seem to be ours (`require_log_store`)
    ours = {key: value for key, value in settings.confs.items() if not key.startswith("spark.delta.logStore")}
    return {key.removeprefix(_HADOOP): value for key, value in {**SESSION_CONFS, **ours}.items()}


def _require(session: SparkSession, settings: SparkSettings) -> None:
    where = settings.connect or ""
    try:
        extensions = session.conf.get("spark.sql.extensions", "") or ""
        zone = session.sql(_ZONE).collect()[0].zone
        version = session.version
    except Exception as error:
        raise _refusal(where, f"{type(error).__name__}: {error}".partition("\n")[0]) from error
    from pyspark import __version__ as ours

    wrong = [
        *([] if _DELTA in extensions else ["it has no Delta"]),
        *([] if 'id="UTC"' in zone or "id=UTC" in zone else ["its JVM's time zone is not UTC"]),
        *([] if version == ours else [f"its Spark is {version}, ours {ours}"]),
    ]
    if wrong:
        raise WaterclockError(
            "E714",
            "the Spark Connect server is set otherwise than rows need",
            where=where,
            why="; ".join(wrong),
            fix=_HOW,
        )


def _refusal(where: str, why: str) -> WaterclockError:
    return WaterclockError(
        "E714",
        "the Spark Connect server does not answer",
        where=where,
        why=why,
        fix="see that it runs, and that its port may be reached",
        transient=True,
    )
