"""A time belongs to its minute up to the last microsecond."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from waterclock.connectors.sql.window_queries import minute_of

MINUTE = 60_000_000


@pytest.mark.parametrize("time", [0, 1, MINUTE - 1, MINUTE, -1, -MINUTE, 1_577_840_399_999_999, 1_577_840_400_000_000])
def test_no_time_is_rounded_into_the_next_minute(time: int) -> None:
    sql = minute_of("t", MINUTE)
    assert "/" not in sql  # a server rounds the quotient
    with closing(sqlite3.connect(":memory:")) as connection:
        (found,) = connection.execute(f"SELECT {sql} FROM (SELECT {time} AS t)").fetchone()
    assert found == time // MINUTE * MINUTE
