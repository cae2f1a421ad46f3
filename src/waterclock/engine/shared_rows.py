"""Stores the rows of SHARED views during a run, so that each view is computed once in this process.

The rows are no part of any table: a batch that finds none computes its own. They are stored below the storage, where
Spark's workers can read them, in a folder of the runner. The folder is removed at the end of the run; that of a killed
runner is removed by the next run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from waterclock.engine.runner_name import has_ended
from waterclock.files.filesystem import entry_path, folders_in, remove_folder

FOLDER = "views"
_COLON = "~"  # replaces the colons of a runner's name in a folder name


@dataclass(slots=True)
class _SharedRows:
    is_settled: threading.Event = field(default_factory=threading.Event)
    folder: str = ""
    schema: str | None = None


class SharedRows:
    """Stores the rows of SHARED views by key: one key for each label of a view. `made` and `used` count keys."""

    def __init__(self, storage: str, runner: str) -> None:
        self._storage = storage
        self._own = runner.replace(":", _COLON)
        self._rows: dict[str, _SharedRows] = {}
        self._lock = threading.Lock()
        self.made = self.used = 0

    def find_or_make(
        self, keys: Sequence[str], make: Callable[[str, Sequence[str]], str]
    ) -> tuple[tuple[str, str], ...] | None:
        """Return for each key the folder of its rows and their schema, or None if any rows could not be made.

        `make` writes the rows of some keys to a folder, by one job, and returns their schema. It is called for keys
        that no batch of this run has computed or is computing. If another batch is computing a key now, this waits for
        its result. If None is returned, the caller computes the rows itself.
        """
        with self._lock:
            own = [key for key in dict.fromkeys(keys) if key not in self._rows]
            self._rows |= {key: _SharedRows() for key in own}
            wanted = [self._rows[key] for key in keys]
            self.used += len(set(keys)) - len(own)
        if own:
            self._compute(own, make)
        for rows in wanted:
            rows.is_settled.wait()
        found = tuple((rows.folder, rows.schema) for rows in wanted if rows.schema is not None)
        return found if len(found) == len(keys) else None

    def _compute(self, keys: Sequence[str], make: Callable[[str, Sequence[str]], str]) -> None:
        folder, schema = str(entry_path(self._storage, FOLDER, self._own, keys[0])), None
        try:
            schema = make(folder, keys)
        except Exception:  # noqa: BLE001, S110 - a batch that needs the rows computes its own, and reports errors
            pass
        finally:
            with self._lock:
                self.made += 0 if schema is None else len(keys)
                settled = [self._rows[key] for key in keys]
            for rows in settled:
                rows.folder, rows.schema = folder, schema
                rows.is_settled.set()

    def clear(self) -> None:
        """Remove the rows of this run, and those of runners that are gone."""
        with self._lock:
            had, self._rows = bool(self._rows), {}
        if had:
            remove_folder(entry_path(self._storage, FOLDER, self._own))
        for name in folders_in(entry_path(self._storage, FOLDER)):
            if has_ended(name.replace(_COLON, ":")):
                remove_folder(entry_path(self._storage, FOLDER, name))
