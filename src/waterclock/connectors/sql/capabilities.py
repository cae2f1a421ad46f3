"""The options and abilities that all connectors of databases have."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.flow.capabilities import Capabilities, Driver, Option
from waterclock.flow.choices import Batching, Mode, Sign
from waterclock.flow.lookbacks import Tells

CHANGE_SLACK = {
    "change_slack": Option("number", help="seconds by which a change may be seen later than it says; 3600"),
}
"""The option of a collect whose source reports changes by a column."""

LOGIN = {
    "certificate": Option(help="the client's certificate in place of a password, a file below the project"),
    "key": Option(help="the certificate's key, a file that its owner alone may read"),
    "ca": Option(help="the authorities by which the server's certificate is signed; the server is then verified"),
    "trust_server": Option("flag", help="whether a server that is not verified gets the password itself; false"),
}
"""The options of a connection to a server that accepts certificates."""

LOCK_TIMEOUT = {"timeout": Option("number", help="seconds to wait for a lock; 30")}


def file_options(waits: str) -> dict[str, Option]:
    """Return the options of a connection to a database file; `waits` describes what a timeout waits for."""
    return {
        "path": Option(is_required=True, help="the database file"),
        "timeout": Option("number", help=f"seconds to wait while {waits}; 5"),
        "create": Option("flag", help="whether publishing makes the database file where there is none; false"),
    }


def database_capabilities(
    type_name: str,
    connection_options: Mapping[str, Option],
    collect_options: Mapping[str, Option],
    *,
    driver: Driver | None = None,
    changes: Tells | None = Tells.BY_COLUMN,
    more: frozenset[Batching] = frozenset(),
) -> Capabilities:
    """Return the capabilities of a database; `more` are the ways to collect besides data time and snapshots."""
    return Capabilities(
        type=type_name,
        driver=driver,
        connection_options=connection_options,
        collect_options={
            "epoch": Option(
                choices=("seconds", "milliseconds", "microseconds"), help="what numeric times count; seconds"
            ),
            **collect_options,
        },
        publish_options={
            "adopt": Option(
                "flag", help="whether a table that holds rows already, not published by us, is taken; false"
            ),
            "behind": Option(choices=("view",), help="a table for each version, or for each label, under a view"),
            "keep": Option(help="behind a view: how long a version that was replaced is kept; 1 DAY"),
        },
        collects=frozenset({Batching.DATA_TIME, Batching.SNAPSHOT}) | more,
        publishes=frozenset({Mode.APPEND, Mode.REPLACE, Mode.MERGE}),
        takes_query=True,
        awaits=frozenset({Sign.QUERY}),
        changes=changes,
        replaces_some=True,
    )
