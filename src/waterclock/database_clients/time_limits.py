"""Limits the time to wait for a server or a query.

Socket timeouts are not enough: a server may send single bytes, each of which restarts the timeout. A view in a database
file may never end.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from typing import TypeVar

_Result = TypeVar("_Result")


@contextmanager
def limit_connection_time(seconds: float, fileno: int) -> Iterator[None]:
    """Shut down a socket's connection if the block takes longer than `seconds`. Raises TimeoutError then."""
    own = socket.socket(fileno=os.dup(fileno))  # if the block closes the socket, another file may get its number

    def shut_down() -> None:
        with suppress(OSError):
            own.shutdown(socket.SHUT_RDWR)

    late = TimeoutError(f"no complete answer within {seconds:g} seconds")
    with closing(own), _timer(seconds, shut_down) as is_over:
        try:
            yield
        except Exception as error:
            if is_over.is_set():
                raise late from error
            raise
    if is_over.is_set():
        raise late


@contextmanager
def limit_query_time(seconds: float, interrupt: Callable[[], None]) -> Iterator[None]:
    """Call `interrupt` once if the block takes longer than `seconds`. A query that is still running then fails.

    Raises TimeoutError in place of the error of such a query.
    """
    with _timer(seconds, interrupt) as is_over:
        try:
            yield
        except Exception as error:
            if is_over.is_set():
                limit = f"{seconds / 3600:g} hours" if seconds >= 3600 else f"{seconds:g} seconds"
                raise TimeoutError(f"the query was not over within {limit}") from error
            raise


def call_in_time(seconds: float, call: Callable[[], _Result]) -> _Result:
    """Return the result of `call`, which runs in another thread. Raises its error, or TimeoutError if it takes longer.

    This is for calls that cannot be interrupted, such as the resolution of a name. A late call continues in its thread
    until it ends by itself, and its result is discarded.
    """
    result: Future[_Result] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            result.set_exception(error)

    threading.Thread(target=run, name="call in time", daemon=True).start()
    try:
        return result.result(seconds)
    except TimeoutError:
        if result.done():
            raise  # the error of the call
        raise TimeoutError(f"no complete answer within {seconds:g} seconds") from None


@contextmanager
def _timer(seconds: float, stop: Callable[[], None]) -> Iterator[threading.Event]:
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        stop()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    try:
        timer.start()
        yield is_over
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
