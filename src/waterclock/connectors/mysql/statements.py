"""Runs statements and transactions in a connection to a MariaDB or MySQL database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from waterclock.connectors.sql.sessions import SqlResult

if TYPE_CHECKING:
    import pymysql

    Connection: TypeAlias = pymysql.Connection


@dataclass(frozen=True, slots=True)
class MysqlResult(SqlResult):
    """The complete result of a statement, and the number of warnings."""

    warnings: int = 0


def run_statement(connection: Connection, sql: str, values: Sequence[Any] | None = None) -> MysqlResult:
    """Run a statement. With `values`, `%s` is the placeholder of a value and `%%` a percent sign."""
    with connection.cursor() as cursor:
        cursor.execute(sql, None if values is None else tuple(values))
        rows = cursor.fetchall() if cursor.description else ()
        return MysqlResult(rows, cursor.rowcount, cursor.warning_count)


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Run the block in a transaction, which is committed if the block succeeds, else rolled back."""
    import pymysql

    connection.begin()
    try:
        yield
        connection.commit()
    except BaseException:
        with suppress(pymysql.Error):  # it is rolled back when the connection closes
            connection.rollback()
        raise
