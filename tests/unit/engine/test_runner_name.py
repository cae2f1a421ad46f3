"""A runner that has ended on this machine is recognized by its name; for runners elsewhere this is unknown."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from waterclock.engine import runner_name as module
from waterclock.engine.runner_name import has_ended, runner_name

NAMED = "from waterclock.engine.runner_name import runner_name; print(runner_name(), flush=True)"


def started(code: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_runner_has_ended_when_its_process_has() -> None:
    process, name = started(f"{NAMED}; import time; time.sleep(60)")
    try:
        assert not has_ended(name)
        os.kill(process.pid, signal.SIGSTOP)
        assert not has_ended(name)
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(name)  # even before its parent has waited for it
    finally:
        process.kill()
        process.wait()
        process.stdout and process.stdout.close()
    assert has_ended(name)


def test_this_process_has_not_ended_and_has_a_new_name_each_time() -> None:
    assert not has_ended(runner_name())
    assert runner_name() != runner_name()
    host, pid, letters = runner_name().split(":")
    assert (host, pid, len(letters)) == (socket.gethostname(), str(os.getpid()), 12)


@pytest.mark.parametrize("name", ["", "another", "host:1:abcdefab", "a:b:c:d", ":::", "host:x:000000000000"])
def test_a_name_that_no_local_runner_can_have_is_not_reported_as_ended(name: str) -> None:
    assert not has_ended(name)


def test_a_runner_of_another_host_or_namespace_is_not_reported_as_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    process, name = started(NAMED)
    process.communicate()
    assert has_ended(name)
    _, pid, letters = name.split(":")
    assert not has_ended(f"elsewhere:{pid}:{letters}")
    monkeypatch.setattr(module, "_namespace_letters", lambda: "zzzz")
    assert not has_ended(name)
