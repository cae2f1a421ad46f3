"""The options and abilities that all database connectors share."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from waterclock.flow.capabilities import Capabilities, DestinationNames, Driver, Option
from waterclock.flow.enums import Batching, Mode, WindowSignal
from waterclock.flow.lookback_changes import ChangeReporting
from waterclock.spark_sql import INTERNAL_PREFIX

GONE = f"{INTERNAL_PREFIX}gone"
"""The column of a staged slice that is TRUE for a key that was deleted. No column of a table begins with the prefix."""

CHANGE_SLACK = {
    "change_slack": Option("number", help="seconds by which a change may become visible after its time; default 3600"),
}
"""The option of a collect that finds changed rows by a column with the time of each row's last change."""

LOGIN = {
    "certificate": Option(help="a client certificate instead of a password, a file below the project"),
    "key": Option(help="the certificate's key, a file that only its owner may read"),
    "ca": Option(help="the authorities that sign the server's certificate; with it the server is verified"),
    "trust_server": Option("flag", help="whether to send the password itself to an unverified server; default false"),
}
"""The options of a connection to a server that accepts client certificates."""

LOCK_TIMEOUT = {"timeout": Option("number", help="seconds to wait for a lock; default 30")}


def file_options(waits: str) -> dict[str, Option]:
    """Return the options of a connection to a database file. `waits` ends the help text "seconds to wait while …"."""
    return {
        "path": Option(is_required=True, help="the database file"),
        "timeout": Option("number", help=f"seconds to wait while {waits}; default 5"),
        "create": Option("flag", help="whether publishing creates a missing database file; default false"),
    }


_RESERVED = {r"(.*\.)?waterclock_[^.]*": "deliveries use tables whose names begin with waterclock_"}


def in_lower_case(path: str, options: Mapping[str, Any]) -> str:
    """Return the path of a table in lower case, without the schema `main`, for databases that ignore case."""
    del options
    return path.lower().removeprefix("main.")


def database_file(options: Mapping[str, Any]) -> str | None:
    """Return the normal path of a connection's database file."""
    path = options.get("path")
    return posixpath.normpath(path) if isinstance(path, str) else None


def database_capabilities(
    type_name: str,
    connection_options: Mapping[str, Option],
    collect_options: Mapping[str, Option],
    *,
    driver: Driver | None = None,
    changes: ChangeReporting | None = ChangeReporting.BY_COLUMN,
    more: frozenset[Batching] = frozenset(),
    names: DestinationNames,
) -> Capabilities:
    """Return the capabilities of a database type; `more` are the ways to collect besides data time and snapshots."""
    return Capabilities(
        type=type_name,
        driver=driver,
        connection_options=connection_options,
        collect_options={
            "epoch": Option(
                choices=("seconds", "milliseconds", "microseconds"),
                help="the unit of numeric times since 1970; default seconds",
            ),
            **collect_options,
        },
        publish_options={
            "adopt": Option(
                "flag", help="whether to publish to a table with rows that the project did not publish; default false"
            ),
            "behind": Option(choices=("view",), help="publish to a view over one table per version, or per label"),
            "speed": Option("flag", help="whether a view shows the open windows, too, of a table with CONTINUOUS"),
            "keep": Option(help="behind a view: how long a replaced version is kept; default 1 DAY"),
        },
        collects=frozenset({Batching.DATA_TIME, Batching.SNAPSHOT}) | more,
        publishes=frozenset({Mode.APPEND, Mode.REPLACE, Mode.MERGE}),
        takes_query=True,
        reads_open_windows=frozenset({Batching.DATA_TIME}),
        awaits=frozenset({WindowSignal.QUERY}),
        changes=changes,
        replaces_some=True,
        destination_names=replace(names, reserved={**_RESERVED, **names.reserved}),
    )
