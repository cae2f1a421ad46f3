"""Sends several statements to a PostgreSQL server in one message. The driver would send them one by one.

A ledger's writers take turns by one row, so all of them wait whenever one waits for the server. A process that sleeps
between statements also wakes up slowly. Statements without results are rendered with their values and sent together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa


def send(connection: sa.Connection, texts: Sequence[str], *, answers: bool = False) -> Any:
    """Execute statements in one message. Return the first row of the last one's result."""
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


def render_statement(connection: sa.Connection, statement: sa.Executable, values: Mapping[str, Any]) -> str:
    """Return the SQL text of a statement with its values inserted."""
    import psycopg

    compiled, writers = _compile_statement(statement, tuple(values), connection.dialect)
    parameters = compiled.construct_params(values)
    for name, write in writers.items():
        parameters[name] = write(parameters[name])
    driver: Any = connection.connection.driver_connection
    return psycopg.ClientCursor(driver).mogrify(compiled.string, parameters)


@lru_cache(maxsize=256)
def _compile_statement(statement: Any, names: tuple[str, ...], dialect: sa.Dialect) -> tuple[Any, Mapping[str, Any]]:
    """Return a statement compiled for the dialect, and the converters of those values that need one."""
    compiled = statement.compile(dialect=dialect, column_keys=names)
    writers = {
        name: bound.type.dialect_impl(dialect).bind_processor(dialect) for bound, name in compiled.bind_names.items()
    }
    return compiled, {name: write for name, write in writers.items() if write}
