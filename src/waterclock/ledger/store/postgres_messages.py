"""Statements that go to a PostgreSQL server several to a message, past the driver's own way of one by one.

A ledger's writers take turns by one row, so that each wait for the server is a wait of all of them; and a process that
sleeps between statements wakes up slow. What answers nothing is written as text with its values and sent in one piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa


def send(connection: sa.Connection, texts: Sequence[str], *, answers: bool = False) -> Any:
    """Carry out statements in one message; give the first row that the last of them answers."""
    import psycopg
    from psycopg.rows import namedtuple_row

    if not texts:
        return None
    driver: Any = connection.connection.driver_connection
    try:
        cursor = psycopg.ClientCursor(driver, row_factory=namedtuple_row)
        cursor.execute("; ".join(texts))
        while cursor.nextset():
            pass
        return cursor.fetchone() if answers else None
    except psycopg.Error as error:
        if driver.closed:
            connection.invalidate(error)
        raise sa.exc.DBAPIError(None, None, error, connection_invalidated=driver.closed) from error


def written(connection: sa.Connection, statement: sa.Executable, values: Mapping[str, Any]) -> str:
    """Write a statement with its values, as the server reads it."""
    import psycopg

    compiled, writers = _compiled(statement, tuple(values), connection.dialect)
    said = compiled.construct_params(values)
    for name, write in writers.items():
        said[name] = write(said[name])
    driver: Any = connection.connection.driver_connection
    return psycopg.ClientCursor(driver).mogrify(compiled.string, said)


@lru_cache(maxsize=256)
def _compiled(statement: Any, names: tuple[str, ...], dialect: sa.Dialect) -> tuple[Any, Mapping[str, Any]]:
    """Return a statement as the dialect has it, and what writes those of its values that need writing."""
    compiled = statement.compile(dialect=dialect, column_keys=names)
    writers = {
        name: bound.type.dialect_impl(dialect).bind_processor(dialect) for bound, name in compiled.bind_names.items()
    }
    return compiled, {name: write for name, write in writers.items() if write}
