"""Spark clusters for tests on loopback: a standalone cluster of a master and workers, and a Connect server."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waterclock.engine.spark.jars import delta_jars

PATIENCE = 90


@dataclass
class Cluster:
    """A running cluster; `kill_executor` kills an application's executor, as the loss of a machine does."""

    folder: Path
    port: int
    page: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        """The address for applications."""
        return f"spark://127.0.0.1:{self.port}"

    def settings(self, *, env: str = "prod") -> str:
        """Return the settings of a project file to run on this cluster."""
        return (
            f'[env.{env}.spark]\nmaster = "{self.master}"\nmemory = "1g"\n'
            'confs = { "spark.executor.memory" = "600m", "spark.executor.cores" = 1, "spark.cores.max" = 2,'
            ' "spark.driver.host" = "127.0.0.1", "spark.driver.bindAddress" = "127.0.0.1" }\n'
        )

    def state(self) -> dict[str, Any]:
        """Return the master's status report."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def executors(self) -> list[int]:
        """Return the process ids of the current executors."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                is_ours = any(str(self.port).encode() in word for word in words)
                if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
                    environ = (process / "cwd").resolve()
                    if is_ours or str(self.folder) in str(environ):
                        found.append(int(process.name))
        return found

    def kill_executor(self) -> None:
        """Kill one of the executors."""
        os.kill(self.executors()[0], signal.SIGKILL)


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start a cluster, and stop all its processes at the end."""
    made = Cluster(folder, _free_port(), _free_port())
    spark_class = _spark_home() / "bin" / "spark-class"
    environment = _environment(_spark_home()) | {"SPARK_DAEMON_MEMORY": "256m"}

    def start(name: str, *words: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            made.processes.append(
                subprocess.Popen(
                    [str(spark_class), *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
            )

    deploy = "org.apache.spark.deploy"
    try:
        start("master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(made.port),
              "--webui-port", str(made.page))  # fmt: skip
        for number in range(workers):
            start(f"worker{number}", f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0",
                  "--cores", "1", "--memory", "1g",
                  "--work-dir", str(folder / f"work{number}"), made.master)  # fmt: skip
        _wait_for_workers(made, workers)
        yield made
    finally:
        for process in made.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in made.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _wait_for_workers(made: Cluster, workers: int) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(OSError, ValueError):
            if sum(each["state"] == "ALIVE" for each in made.state()["workers"]) == workers:
                return
        time.sleep(0.2)
    logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in made.folder.glob("*.log"))
    raise AssertionError(f"the cluster did not start\n{logs}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class ConnectServer:
    """A Spark Connect server for tests, which can be stopped and started again at its port."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"sc://127.0.0.1:{self.port}"

    def settings(self, *, env: str = "prod") -> str:
        """Return the settings of a project file to run on this server."""
        return f'[env.{env}.spark]\nconnect = "{self.address}"\n'

    def start(self) -> None:
        """Start it, and wait until it responds."""
        home = _spark_home()
        jars = ",".join(str(jar) for jar in delta_jars())
        confs = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:+UseParallelGC",
            "spark.executorEnv.TZ": "UTC",
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        words = [
            str(home / "bin" / "spark-submit"),
            "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer",
        ]
        words += ["--master", "local[2]", "--driver-memory", "1g", "--jars", jars]
        words += [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]
        with (self.folder / "connect.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*words, "spark-internal"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(home),
                cwd=self.folder,
                start_new_session=True,
            )
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.1)
        raise AssertionError((self.folder / "connect.log").read_text(errors="replace")[-3000:])

    def kill(self) -> None:
        """Kill it, as the loss of a machine does."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextmanager
def connect_server(folder: Path) -> Iterator[ConnectServer]:
    """Start a Spark Connect server, and stop it at the end."""
    made = ConnectServer(folder, _free_port())
    try:
        made.start()
        yield made
    finally:
        made.kill()


def _spark_home() -> Path:
    package = importlib.util.find_spec("pyspark")
    assert package is not None
    return Path(str(package.origin)).parent


def _environment(home: Path) -> dict[str, str]:
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    environment.pop("SPARK_CONF_DIR", None)
    return environment
