"""Enters the tables of a run in a metastore: each once an hour, and none for a minute after a failure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from waterclock.flow.metastore import Metastore
from waterclock.metastore.client import CatalogEntry, NotEnteredError, enter_table

_CHECKED_AGAIN_AFTER = 3600.0
_SILENT_AFTER_A_FAILURE = 60.0


@dataclass(slots=True)
class TableEntries:
    """The entries of an environment's tables in its metastore."""

    metastore: Metastore
    project: str
    environment: str
    clock: Callable[[], float] = time.monotonic
    _checked: dict[tuple[str, str], float] = field(default_factory=dict)
    _silent_until: float = float("-inf")
    _lock: Lock = field(default_factory=Lock)

    def enter(self, name: str, folder: str) -> str | None:
        """Enter the table of a folder, unless it was done within the hour. Return why it was not possible, or None.

        After a failure of the metastore, nothing is tried for a minute: a run does not wait for it at each batch.
        """
        with self._lock:
            now, key = self.clock(), (name, folder)
            if now < self._silent_until or now - self._checked.get(key, float("-inf")) < _CHECKED_AGAIN_AFTER:
                return None
            database, _, table = name.rpartition(".")
            location = re.sub("^s3://", "s3a://", folder) if "://" in folder else f"file:{folder}"  # Hadoop has s3a
            entry = CatalogEntry(database.lower(), table.lower(), location, self.project, self.environment)
            try:
                enter_table(self.metastore, entry)
            except NotEnteredError as error:
                if error.is_refused:
                    self._checked[key] = self.clock()
                else:
                    self._silent_until = self.clock() + _SILENT_AFTER_A_FAILURE
                return str(error)
            self._checked[key] = self.clock()
            return None
