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
_EXIT_NOTE = "exited at once: the next run takes over the open claims"
_SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def stoppable(stop: Callable[[], None], *, output: IO[str], is_own_process: bool = True) -> Iterator[None]:
    """Call `stop` at the first Ctrl-C or SIGTERM within the block, and exit the process at the second.

    The exit prints a note to `output`. If `is_own_process` is false, as in a notebook, the second signal only calls
    `stop` again. `stop` must return at once.

    A separate thread receives the signals. Python runs signal handlers only in the main thread, which may be blocked by
    a lock or a terminal. If the block does not run in the main thread, no signals are received.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    listener = threading.Thread(
        target=_listen, args=(read_end, stop, output if is_own_process else None), name="signals", daemon=True
    )
    listener.start()
    woken_before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken_before)
        os.close(write_end)
        listener.join()
        os.close(read_end)


def _listen(read_end: int, stop: Callable[[], None], output: IO[str] | None) -> None:
    count = 0
    while number := os.read(read_end, 1):
        if number[0] in _STOPPING:
            count += 1
            if count > 1 and output is not None:
                exit_at_once(output)
            stop()


def exit_at_once(output: IO[str]) -> None:
    """Exit without waiting for running batches. The next run takes over their claims when their leases have expired."""
    with suppress(OSError, ValueError):  # a stream without a descriptor, or a closed one
        _write_if_ready(output.fileno(), f"\n{_EXIT_NOTE}\n", is_terminal=output.isatty())
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
