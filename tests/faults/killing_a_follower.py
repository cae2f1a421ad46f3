"""Like `tests.faults.killing`, for a replica of a PostgreSQL table whose clock is past all windows."""

from __future__ import annotations

import sys

from tests.faults import killing
from tests.replicas import past_all_windows
from waterclock.connectors.postgres.connector import PostgresCollector

if __name__ == "__main__":
    PostgresCollector.clock = past_all_windows  # type: ignore[method-assign, assignment]
    sys.exit(killing.main(*sys.argv[1:6], toml=None))
