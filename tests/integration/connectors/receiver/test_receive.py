"""Processes of `waterclock receive`: killed under load, several on one folder, shut down gracefully, out of disk."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.receiving import Receiver, Sealers, Senders, free_port, post, project_with_door

MINUTE = timedelta(minutes=1)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return project_with_door(tmp_path / "shop")


@pytest.fixture
def started() -> Iterator[list[Receiver]]:
    running: list[Receiver] = []
    yield running
    for each in running:
        each.kill()


def starts(project: Path, started: list[Receiver], port: int, **environ: str) -> Receiver:
    receiver = Receiver(project, port, **environ)
    started.append(receiver)
    assert receiver.is_ready()
    return receiver


@pytest.fixture(params=["granian", "uvicorn"])
def behind(request: pytest.FixtureRequest) -> dict[str, str]:
    """Select the server that the receiver runs behind."""
    return {"WATERCLOCK_RECEIVER_SERVER": str(request.param)}


@pytest.mark.slow
@pytest.mark.sampled(1)
def test_nothing_acknowledged_is_lost_by_kills_under_load(
    project: Path, started: list[Receiver], is_long: bool
) -> None:
    """Two processes on one folder, clients that resend, a runner that seals, and repeated SIGKILLs."""
    chance, ports = random.Random(7), [free_port(), free_port()]
    receivers = [starts(project, started, port) for port in ports]
    sealers, senders = Sealers(project), Senders(ports, 12)
    end = time.monotonic() + (150 if is_long else 6)
    kills = 0
    while time.monotonic() < end or kills < 2:
        time.sleep(chance.uniform(0.5, 1.5))
        at = chance.randrange(2)
        receivers[at].kill()
        kills += 1
        receivers[at] = starts(project, started, ports[at])
    receivers[0].kill()
    senders.stop()
    receivers[1].kill()
    sealers.stop()
    sealers.look(2 * MINUTE)
    found = sealers.ids()
    assert kills >= 2
    assert len(senders.acknowledged) > 100
    assert [each for each in senders.acknowledged if each not in found] == []
    assert [each for each, count in found.items() if count > senders.sent[each]] == []
    assert [each for each, count in found.items() if count > 1 and senders.sent[each] == 1] == []
    assert sealers.late == []


@pytest.mark.slow
def test_a_terminated_receiver_answers_open_requests_and_its_successor_takes_over(
    project: Path, started: list[Receiver], behind: dict[str, str]
) -> None:
    """The new process listens at the same address before the old one ends."""
    port = free_port()
    old = starts(project, started, port, **behind)
    senders = Senders([port], 8)
    time.sleep(0.5)
    new = starts(project, started, port, **behind)
    code, said = old.end()
    time.sleep(0.5)
    senders.stop()
    assert new.end()[0] == 0
    assert (code, said.count("Traceback")) == (0, 0), said
    sealers = Sealers(project)
    sealers.stop()
    sealers.look(2 * MINUTE)
    found = sealers.ids()
    assert senders.acknowledged <= set(found)
    assert len(senders.acknowledged) > 100
    assert [each for each in senders.unanswered if "refused" in each.lower()] == []
    assert list((project / "data/door/events").glob("open-*")) == []
    # a request in flight gets a response; an idle connection may have been closed as the next request began
    unanswered = {each for each in found if each not in senders.acknowledged}
    assert len(unanswered) <= 3 * 8


@pytest.mark.slow
def test_requests_on_their_way_are_answered_when_it_ends(
    project: Path, started: list[Receiver], behind: dict[str, str]
) -> None:
    """A request whose body is still arriving at shutdown is accepted and gets a response."""
    receiver = starts(project, started, free_port(), **behind)
    with socket.create_connection(("127.0.0.1", receiver.port)) as slow:
        slow.sendall(b"POST /door/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n{")
        time.sleep(0.3)
        ended: list[tuple[int, str]] = []
        ending = threading.Thread(target=lambda: ended.append(receiver.end()))
        ending.start()
        time.sleep(0.5)
        slow.sendall(b'"id":7}')
        assert slow.recv(1000).startswith(b"HTTP/1.1 202")
        ending.join()
    assert ended[0][0] == 0
    sealers = Sealers(project)
    sealers.stop()
    sealers.look(2 * MINUTE)
    assert sealers.ids() == {7: 1}


@pytest.mark.slow
def test_a_full_disk_is_reported_to_senders_with_status_503(project: Path, started: list[Receiver]) -> None:
    """A file size limit simulates a full disk: acknowledged events stay, and the receiver continues."""
    receiver = starts(project, started, free_port())
    assert post(receiver.port, b'{"id":1}') == 202
    subprocess.run(["prlimit", f"--pid={receiver.process.pid}", "--fsize=200:"], check=True)
    assert post(receiver.port, json.dumps({"id": 2, "x": "x" * 200}).encode()) == 503
    assert receiver.process.poll() is None
    subprocess.run(["prlimit", f"--pid={receiver.process.pid}", "--fsize=1000000:"], check=True)
    assert post(receiver.port, b'{"id":3}') == 202
    assert receiver.end()[0] == 0
    sealers = Sealers(project)
    sealers.stop()
    sealers.look(2 * MINUTE)
    assert sealers.ids() == {1: 1, 3: 1}


@pytest.mark.slow
def test_a_sync_that_fails_ends_the_process(project: Path, tmp_path: Path) -> None:
    """Events before the failure are stored; later ones are not acknowledged."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "real, count = os.fdatasync, [0]\n"
        "def fdatasync(descriptor):\n"
        "    count[0] += 1\n"
        "    if count[0] > 1: raise OSError(5, 'Input/output error')\n"
        "    real(descriptor)\n"
        "os.fdatasync = fdatasync\n"
    )
    receiver = Receiver(project, free_port(), PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    assert receiver.is_ready()
    assert post(receiver.port, b'{"id":1}') == 202
    assert post(receiver.port, b'{"id":2}') == 503
    said, _ = receiver.process.communicate(timeout=30)
    assert receiver.process.returncode == 1
    assert "E872" in said
    assert "Traceback" not in said
    sealers = Sealers(project)
    sealers.stop()
    sealers.look(2 * MINUTE)
    assert sealers.ids()[1] == 1


def test_nothing_is_served_without_streams_or_to_everybody(tmp_path: Path) -> None:
    def said(*words: str, of: Path) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "waterclock", "receive", *words, "--project", str(of)],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == 1
        return ran.stdout + ran.stderr

    idle = project_with_door(tmp_path / "idle", flow="CREATE CONNECTION door TYPE receiver;\n")
    assert "E870" in said(of=idle)
    assert "E873" in said("--listen", "0.0.0.0:0", of=project_with_door(tmp_path / "open"))
