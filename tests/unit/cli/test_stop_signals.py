"""Ctrl-C and SIGTERM, in processes that may exit at once."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from tests.terminals import terminal
from waterclock.cli.stop_signals import stoppable

if TYPE_CHECKING:
    import pytest

# the main thread waits for the lock of a stream in C code, which never calls Python's signal handlers
STUCK = """
import os, sys, threading, time
from waterclock.cli.stop_signals import stoppable

_, full = os.pipe()
stream = os.fdopen(full, "wb")
threading.Thread(target=stream.write, args=(b"x" * 10_000_000,), daemon=True).start()
time.sleep(0.2)
with stoppable(lambda: os.write(1, b"first\\n"), output=sys.stdout):
    os.write(1, b"ready\\n")
    stream.write(b"y")
"""


def wait_for(is_so: object, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < until, "the condition was not met in time"
        time.sleep(0.01)


def test_the_second_ctrl_c_leaves_though_the_main_thread_cannot_be_interrupted() -> None:
    with terminal([sys.executable, "-c", STUCK]) as window:
        wait_for(lambda: "ready" in window.printed)
        window.presses_ctrl_c()
        wait_for(lambda: "first" in window.printed)
        assert window.process.poll() is None
        window.presses_ctrl_c()
        said = window.ends(timeout=20)
    assert window.process.returncode == 130
    assert "takes over the open claims" in said
    assert "\x1b[?25h" in said, "the cursor is there again"


def test_the_second_sigterm_exits_even_if_the_output_is_not_read() -> None:
    code = "import time\n" + STUCK.replace("stream.write(b", "time.sleep(60); (b")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.stdout.readline() == b"first\n"
        process.terminate()
        assert process.wait(20) == 130


def test_the_first_calls_stop_once_and_the_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    calls: list[str] = []
    with stoppable(lambda: calls.append(threading.current_thread().name), output=io.StringIO()):
        signal.raise_signal(signal.SIGINT)
        wait_for(lambda: calls)
    assert calls == ["signals"]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert signal.set_wakeup_fd(-1) == -1


def test_the_second_leaves_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    with stoppable(lambda: None, output=io.StringIO()):
        os.kill(os.getpid(), signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        wait_for(lambda: left)
    assert left == [130]


def test_beside_the_main_thread_nothing_is_heard() -> None:
    before = signal.getsignal(signal.SIGINT)
    found: list[object] = []

    def work() -> None:
        with stoppable(lambda: None, output=io.StringIO()):
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]


def test_repeated_ctrl_c_does_not_exit_an_embedding_process() -> None:
    heard: list[int] = []
    before = signal.getsignal(signal.SIGINT)  # Python's own, or PySpark's if the process has a session
    with stoppable(lambda: heard.append(1), output=io.StringIO(), is_own_process=False):
        for number in (1, 2, 3):
            os.kill(os.getpid(), signal.SIGINT)
            wait_for(lambda number=number: len(heard) == number)
    assert signal.getsignal(signal.SIGINT) is before
