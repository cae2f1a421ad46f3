"""Stops a run by Ctrl-C or SIGTERM. After the first signal, running batches finish; a second signal exits at once."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, NoReturn

from waterclock.cli.exit_codes import ExitCode

_STOPPING = (signal.SIGINT, signal.SIGTERM)
_LEFT = "exited at once: the next run takes over the open claims"
_SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def stoppable(stop: Callable[[], None], *, told_to: IO[str], is_own_process: bool = True) -> Iterator[None]:
    """Call `stop` at the first Ctrl-C or SIGTERM within the block, and exit the process at the second.

    The exit prints a note to `told_to`. If `is_own_process` is false, as in a notebook, the second signal only calls
    `stop` again. `stop` must return at once.

    A separate thread receives the signals. Python runs signal handlers only in the main thread, which may be blocked by
    a lock or a terminal. If the block does not run in the main thread, no signals are received.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard, wakes = os.pipe()
    os.set_blocking(wakes, False)
    listener = threading.Thread(
        target=_listen, args=(heard, stop, told_to if is_own_process else None), name="signals", daemon=True
    )
    listener.start()
    woken_before = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken_before)
        os.close(wakes)
        listener.join()
        os.close(heard)


def _listen(heard: int, stop: Callable[[], None], told_to: IO[str] | None) -> None:
    count = 0
    while number := os.read(heard, 1):
        if number[0] in _STOPPING:
            count += 1
            if count > 1 and told_to is not None:
                exit_at_once(told_to)
            stop()


def exit_at_once(told_to: IO[str]) -> None:
    """Exit without waiting for running batches. The next run takes over their claims when their leases have expired."""
    with suppress(OSError, ValueError):  # a stream without a descriptor, or a closed one
        _write_if_ready(told_to.fileno(), f"\n{_LEFT}\n", is_terminal=told_to.isatty())
    os._exit(ExitCode.INTERRUPTED)


def end_at_once(code: int) -> NoReturn:
    """Flush the output and exit the process without shutting down the interpreter: threads are still running."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _write_if_ready(descriptor: int, text: str, *, is_terminal: bool) -> None:
    """Write a text to a file descriptor without buffers and locks, or do nothing if that would block."""
    _, ready, _ = select.select([], [descriptor], [], 0)
    if ready:
        os.write(descriptor, (text + _SHOW_CURSOR if is_terminal else text).encode())
