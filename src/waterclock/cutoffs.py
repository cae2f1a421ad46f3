"""Ends the wait for a server at a fixed time, even if single bytes arrive that restart the timeout of each read."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def cut_off_after(seconds: float, fileno: int) -> Iterator[None]:
    """Shut down a socket's connection if the block is not over in time. Raises  TimeoutError then."""
    own = socket.socket(fileno=os.dup(fileno))  # the block may close its own, and the number be another file's then
    is_over = threading.Event()

    def shut_down() -> None:
        is_over.set()
        with suppress(OSError):
            own.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, shut_down)
    timer.daemon = True
    late = TimeoutError(f"no complete answer within {seconds:g} seconds")
    try:
        timer.start()
        yield
    except Exception as error:
        if is_over.is_set():
            raise late from error
        raise
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        own.close()
    if is_over.is_set():
        raise late
