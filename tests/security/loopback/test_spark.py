"""Another user of the machine at the ports of a local Spark: none responds without the session's secret."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_RPC_REQUEST = 3


def listening_ports(spark: SparkSession) -> dict[str, list[int]]:
    """Return the JVM's listening ports by address, as the kernel lists them."""
    process = spark.sparkContext._gateway.jvm.ProcessHandle.current().pid()  # type: ignore[union-attr]
    sockets = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with suppress(OSError):
            sockets.add(descriptor.readlink().name.removeprefix("socket:[").rstrip("]"))
    found: dict[str, list[int]] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A" and parts[9] in sockets:
                address, port = parts[1].split(":")
                found.setdefault(address, []).append(int(port, 16))
    return found


def rpc(port: int, body: bytes) -> bytes:
    """Send a request of Spark's RPC without a secret, and return the response."""
    frame = struct.pack(">BQI", _RPC_REQUEST, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(struct.pack(">Q", len(frame) + 8) + frame)
        with suppress(TimeoutError, ConnectionResetError):
            return connection.recv(65536)
    return b""


def test_spark_listens_on_loopback_alone(spark: SparkSession) -> None:
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert set(listening_ports(spark)) <= loopback


def test_rpc_and_block_manager_answer_no_client_without_the_secret(spark: SparkSession) -> None:
    ports = [port for each in listening_ports(spark).values() for port in each]
    assert int(spark.sparkContext.getConf().get("spark.driver.port") or 0) in ports
    answers = [rpc(port, b"\x00\x01\x02 no java object") for port in ports]
    assert not [each for each in answers if b"StreamCorruptedException" in each or b"Unknown message type" in each]
    assert any(b"SaslMessage" in each or b"AuthMessage" in each or b"challenge" in each for each in answers)


def test_the_secret_is_in_no_command_line(spark: SparkSession) -> None:
    process = spark.sparkContext._gateway.jvm.ProcessHandle.current().pid()  # type: ignore[union-attr]
    assert spark.conf.get("spark.authenticate") == "true"
    assert b"spark.authenticate.secret" not in Path(f"/proc/{process}/cmdline").read_bytes()
