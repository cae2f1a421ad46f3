"""Measures events per second of `waterclock receive`, against a plain log file with the same writes and syncs.

    python bench/receive.py [--seconds 1] [--rounds 9]

Each row is a number of senders over HTTP, each with one open request, and a number of events of 300 bytes per request.
The log appends the same bytes in as many writes, each followed by fdatasync, without HTTP and JSON. Rounds of both take
turns. The medians of both and of their ratio are printed. CPU is that of the receiver's process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from measure import grid

CASES = ((1, 1), (100, 1), (1, 100), (8, 100), (8, 1000))
PROJECT = """\
[project]
name = "receive"

[env.dev]
connections.door = { path = "door" }
"""
FLOW = """\
CREATE CONNECTION door TYPE receiver;
COLLECT web.events PARTITIONED FROM door.events EVERY 5 MINUTES BY ARRIVAL TIME;
"""
_TICKS = os.sysconf("SC_CLK_TCK")


def event(number: int) -> bytes:
    said = {"id": number, "at": "2026-11-23T12:00:00Z", "kind": "click", "page": "/shop/42", "user": f"u{number % 999}"}
    return json.dumps(said | {"text": "x" * (299 - len(json.dumps(said | {"text": ""})))}).encode() + b"\n"


@contextmanager
def receiver(folder: Path) -> Iterator[tuple[int, int]]:
    """Start `waterclock receive`, and yield its port and process."""
    (folder / "flows").mkdir()
    (folder / "waterclock.toml").write_text(PROJECT)
    (folder / "flows" / "a.dpl").write_text(FLOW)
    command = [sys.executable, "-m", "waterclock", "receive", "--listen", "0", "--project", str(folder), "--json"]
    environ = os.environ | {"WATERCLOCK_RECEIVER_SERVER": "granian"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        said = ""
        while not said.rstrip().endswith("}"):
            said += process.stdout.readline()
        try:
            yield int(json.loads(said)["address"].rstrip("/").rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def syncs(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return int(json.load(answer)["streams"]["door/events"]["syncs"])


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def send(port: int, clients: int, batch: int, seconds: float) -> int:
    """Send for some seconds, and return how many requests were answered 202."""
    body = b"".join(event(at) for at in range(batch))
    request = b"POST /door/events HTTP/1.1\r\nHost: b\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    end, count = time.perf_counter() + seconds, 0

    async def one() -> None:
        nonlocal count
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readline()
            assert head.startswith(b"HTTP/1.1 202"), head
            count += 1
        writer.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    return count


def bare(path: Path, events: int, writes: int) -> float:
    """Append this many events in this many writes, each synced, and return the seconds."""
    one, each = event(0), max(1, round(events / writes))
    data = one * each
    log = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    begun = time.perf_counter()
    for _ in range(writes):
        os.write(log, data)
        os.fdatasync(log)
    taken = time.perf_counter() - begun
    os.close(log)
    path.unlink()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1, help="of each round")
    parser.add_argument("--rounds", type=int, default=9, help="of each row")
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=".") as scratch, receiver(Path(scratch)) as (port, pid):
        asyncio.run(send(port, 4, 1, 0.5))
        for clients, batch in CASES:
            ours, log, spent, groups = [], [], [], []
            for _ in range(asked.rounds):
                before, synced, begun = cpu(pid), syncs(port), time.perf_counter()
                events = asyncio.run(send(port, clients, batch, asked.seconds)) * batch
                ours.append(events / (time.perf_counter() - begun))
                spent.append((cpu(pid) - before) / events * 1e6)
                writes = syncs(port) - synced
                groups.append(events / writes)
                log.append(events / bare(Path(scratch) / "log", events, writes))
            ratio = median(one / other for one, other in zip(ours, log, strict=True))
            rows.append(
                (f"{clients}", f"{batch}", f"{median(ours):,.0f}", f"{median(log):,.0f}", f"{ratio:.2f}",
                 f"{median(groups):,.0f}", f"{median(spent):.0f} µs")
            )  # fmt: skip
    print(
        grid(
            ["senders", "events per request", "events/s", "bare log", "ratio", "events per sync", "CPU per event"], rows
        )
    )


if __name__ == "__main__":
    main()
