"""An S3 server for tests on loopback, in a temporary folder, started once for each worker."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from waterclock.engine.spark.jars import cache_directory
from waterclock.engine.spark.object_storage import confs_of_stores
from waterclock.files.object_stores import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY, _SECRET, _REGION = "waterclock", "a-secret-of-the-tests", "us-east-1"
_PATIENCE = 30


@dataclass
class Server:
    """A running server; `stop` and `start` simulate an outage."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    def url(self, bucket: str) -> str:
        """Return the URL of a bucket."""
        return f"s3://{bucket}"

    def options(self, *, key: str = _KEY, secret: str = _SECRET) -> dict[str, str]:
        """Return the options of a client, named as in `object_stores.OPTIONS`; another secret is refused."""
        return {
            "access_key_id": key,
            "secret_access_key": secret,
            "region": _REGION,
            "endpoint": self.endpoint,
        }

    def for_delta(self, *, secret: str = _SECRET) -> dict[str, str]:
        """Return the options for delta-rs."""
        return Store(self.url("any"), self.options(secret=secret)).for_delta

    def new_bucket(self) -> str:
        """Create a new bucket, and return its name."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        self.folder_of(name).mkdir()
        return name

    def new_user(self) -> tuple[str, str]:
        """Create a user without rights, and return its key and its secret."""
        key, secret = f"u{uuid.uuid4().hex[:12]}", uuid.uuid4().hex
        admin = ["admin", "--access", _KEY, "--secret", _SECRET, "--endpoint-url", self.endpoint]
        words = [*admin, "create-user", "--access", key, "--secret", secret, "--role", "user"]
        subprocess.run([str(_program()), *words], check=True, capture_output=True, timeout=_PATIENCE)
        return key, secret

    def new_bucket_with_policy(self, statements: Callable[[str], Sequence[Mapping[str, Any]]]) -> str:
        """Create a bucket with the policy that `statements` returns for the bucket's ARN; return its name."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        self._put(name, "")
        document = {"Version": "2012-10-17", "Statement": statements(f"arn:aws:s3:::{name}")}
        self._put(f"{name}?policy=", json.dumps(document))
        return name

    def _put(self, path: str, body: str) -> None:
        """Send a request that obstore has no function for, signed by curl."""
        words = [
            "--fail-with-body",
            "--silent",
            "--show-error",
            "--aws-sigv4",
            f"aws:amz:{_REGION}:s3",
            "--config",
            "-",
        ]
        words += ["--header", f"x-amz-content-sha256: {hashlib.sha256(body.encode()).hexdigest()}"]
        sent = subprocess.run(
            ["curl", *words, "--request", "PUT", "--data-binary", body, f"{self.endpoint}/{path}"],
            input=f'user = "{_KEY}:{_SECRET}"',
            text=True,
            check=False,
            capture_output=True,
            timeout=_PATIENCE,
        )
        assert sent.returncode == 0, sent.stdout + sent.stderr

    def folder_of(self, bucket: str) -> Path:
        """Return the folder with the files of a bucket's objects."""
        return self.folder / "data" / bucket

    def requests(self) -> list[str]:
        """Return the requests answered so far, oldest first, each as `PutObject /bucket/a/b 200`."""
        told = (self.folder / "requests").read_text(encoding="utf-8").splitlines()
        words = [line.partition("] ")[2].split() for line in told if "] " in line]
        return [f"{operation.removeprefix('s3_')} {path} {status}" for _, _, _, operation, _, path, status, *_ in words]

    def start(self) -> None:
        """Start it, and wait until it responds."""
        sidecar = ["--sidecar", str(self.folder / "attributes")] if not _keeps_attributes(self.folder) else []
        program = _program()
        assert program is not None
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(str(program), "--port", f"127.0.0.1:{self.port}", "--region", _REGION, "--quiet"),
                    *("--access-log", str(self.folder / "requests")),
                    *("--iam-dir", str(self.folder / "users")),
                    *("posix", *sidecar, str(self.folder / "data")),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"ROOT_ACCESS_KEY_ID": _KEY, "ROOT_SECRET_ACCESS_KEY": _SECRET},
            )
        self._wait(self.process)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.02)
        raise AssertionError(f"the S3 server did not start\n{(self.folder / 'log').read_text(errors='replace')}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None


def reach(spark: SparkSession, bucket: str, options: Mapping[str, str] | None = None) -> None:
    """Configure the JVM of an open session for a bucket of the server, by `options` or as its owner."""
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    confs = confs_of_stores([Store("s3://none", {}), Store(f"s3://{bucket}", options or server().options())])
    for key, value in confs.items():
        if f".bucket.{bucket}." in key:
            hadoop.set(key.removeprefix("spark.hadoop."), value)


@lru_cache
def server() -> Server:
    """Return this process's server, started at the first call and stopped with the process."""
    made = start_server()
    import atexit

    atexit.register(_end, made, os.getpid())
    return made


def start_server() -> Server:
    """Start a server that the caller must stop; most tests need `server` instead.

    Without versitygw the test is skipped.
    """
    if _program() is None:
        pytest.skip("versitygw is not installed. Fix: run bin/_servers")
    made = Server(Path(tempfile.mkdtemp(prefix="waterclock-s3-")), free_port())
    for name in ("data", "attributes", "users"):
        (made.folder / name).mkdir()
    made.start()
    return made


def _end(made: Server, pid: int) -> None:
    if os.getpid() == pid:
        made.stop(signal.SIGKILL)
        shutil.rmtree(made.folder, ignore_errors=True)


@lru_cache
def _program() -> Path | None:
    there = shutil.which("versitygw")
    built = sorted(cache_directory().glob("versitygw-*/versitygw"))
    return Path(there) if there else built[-1] if built else None


def _keeps_attributes(folder: Path) -> bool:
    """Return whether files in a folder can have user attributes, in which the server stores those of objects."""
    try:
        os.setxattr(folder, "user.waterclock", b"")
    except (OSError, AttributeError):
        return False
    return True


def free_port() -> int:
    """Return a free port on loopback."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
