"""Writes the output of a run to its terminal from one thread, so that no caller ever waits for the terminal."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from rich.live import Live

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import Console, RenderableType
    from rich.text import Text

_DRAWS_PER_SECOND = 4  # times a second


class Screen:
    """Prints permanent lines above a status display that is redrawn until the end.

    Only one thread prints and draws. A stopped (Ctrl-S) or slow terminal, and the locks of Rich, block that thread and
    no other. Lines that are queued before the display starts are printed once it starts.
    """

    def __init__(self, to: Console, picture: RenderableType) -> None:
        self._to = to
        self._picture = picture
        self._lines: queue.SimpleQueue[tuple[Text, ...] | None] = queue.SimpleQueue()
        self._defect: Exception | None = None
        self._is_reader_gone = False

    def say(self, *lines: Text) -> None:
        """Queue lines to be printed together below the previous ones. Returns at once and is thread-safe."""
        if not self._is_reader_gone:  # otherwise no thread would take them off the queue
            self._lines.put(lines)

    @contextmanager
    def display(self, *, is_drawn: bool) -> Iterator[None]:
        """Print queued lines within the block and, if `is_drawn`, draw the status display below them.

        All queued lines are printed before the block ends. If the reader of the output ends (a closed terminal, `|
        head`), only the printing ends. If drawing fails, its error is raised at the end of the block.
        """
        thread = threading.Thread(target=self._run, args=(is_drawn,), name="screen", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._lines.put(None)
            thread.join()
        if self._defect is not None:
            raise self._defect

    def _run(self, is_drawn: bool) -> None:  # noqa: FBT001 - called by a thread
        try:
            with self._live(is_drawn=is_drawn) as live:
                self._print_all(live)
        except (OSError, SystemExit):  # the reader is gone; Rich makes a broken pipe a SystemExit
            self._is_reader_gone = True
        except Exception as defect:  # noqa: BLE001 - raised at the end of the run
            self._defect, self._is_reader_gone = defect, True

    def _live(self, *, is_drawn: bool) -> AbstractContextManager[Live | None]:
        if not is_drawn:
            return nullcontext()
        return Live(self._picture, console=self._to, auto_refresh=False, transient=True, redirect_stdout=False)

    def _print_all(self, live: Live | None) -> None:
        while True:
            try:
                lines = self._lines.get(timeout=None if live is None else 1 / _DRAWS_PER_SECOND)
            except queue.Empty:
                if live is not None:
                    live.refresh()
                continue
            if lines is None:
                return
            for line in lines:
                self._to.print(line, soft_wrap=True)
