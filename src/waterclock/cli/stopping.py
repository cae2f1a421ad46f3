"""Stops a run by Ctrl-C or a polite kill: the first lets what runs finish, the second leaves at once."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, NoReturn

INTERRUPTED = 130
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_LEFT = "left at once: the next run takes over what was open"
_SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def stoppable(stop: Callable[[], None], *, told_to: IO[str], is_own_process: bool = True) -> Iterator[None]:
    """Call `stop` at the first Ctrl-C or SIGTERM within the block, and leave the process at the second.

    Where the process is somebody else's, a notebook's, the second calls `stop` again: the process is not ours to end.

    A thread of its own hears them: Python runs handlers of signals in the main thread alone, which may be waiting for
    a lock or a terminal. `stop` must return at once. Where the block runs beside the main thread, nothing is heard.
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
                leave(told_to)
            stop()


def leave(told_to: IO[str]) -> None:
    """Leave without waiting; open claims are taken over by the next run once their leases have run out."""
    with suppress(OSError, ValueError):  # a stream without a descriptor, or one that is closed
        _write_if_ready(told_to.fileno(), f"\n{_LEFT}\n", is_terminal=told_to.isatty())
    os._exit(INTERRUPTED)


def end_at_once(code: int) -> NoReturn:
    """End the process with all that was printed, and without taking the interpreter down: threads are still at work."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _write_if_ready(descriptor: int, text: str, *, is_terminal: bool) -> None:
    """Write past all buffers and their locks, unless the reader is not taking anything."""
    _, ready, _ = select.select([], [descriptor], [], 0)
    if ready:
        os.write(descriptor, (text + _SHOW_CURSOR if is_terminal else text).encode())
