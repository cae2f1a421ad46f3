"""Enters the tables of a run in a metastore: each once an hour, and none for a minute after a failure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from waterclock.flow.metastore import Metastore
from waterclock.metastore.client import CatalogEntry, NotEnteredError, enter_table

_AGAIN_AFTER = 3600.0
_AGAIN_AFTER_A_FAILURE = 60.0


@dataclass(slots=True)
class TableEntries:
    """The entries of an environment's tables in its metastore."""

    metastore: Metastore
    project: str
    environment: str
    clock: Callable[[], float] = time.monotonic
    _not_before: dict[tuple[str, str], float] = field(default_factory=dict)
    _silent_until: float = float("-inf")
    _lock: Lock = field(default_factory=Lock)

    def enter(self, name: str, folder: str) -> str | None:
        """Enter the table of a folder, unless it was done within the hour. Return why it was not possible, or None.

        A table that was refused is tried again after a minute. If the metastore did not answer, no table is tried
        before: a run does not wait for it at each batch.
        """
        with self._lock:
            key = (name, folder)
            if self.clock() < max(self._silent_until, self._not_before.get(key, self._silent_until)):
                return None
            database, _, table = name.lower().rpartition(".")
            entry = CatalogEntry(database, table, _location_of(folder), self.project, self.environment)
            try:
                enter_table(self.metastore, entry)
            except NotEnteredError as error:
                again = self.clock() + _AGAIN_AFTER_A_FAILURE
                if error.is_refused:
                    self._not_before[key] = again
                else:
                    self._silent_until = again
                return str(error)
            self._not_before[key] = self.clock() + _AGAIN_AFTER
            return None


def _location_of(folder: str) -> str:
    """Return the address of a folder, as Hadoop writes it: its own scheme for S3 is s3a."""
    return re.sub("^s3://", "s3a://", folder) if "://" in folder else f"file:{folder}"
