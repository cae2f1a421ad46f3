"""Codes of the warnings of `check`: the project runs, but its results may differ from the intended ones."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

WARNINGS: Mapping[str, Code] = {
    "W201": Code(
        "result that depends on row order",
        "A warning of `check`: the project runs. Spark guarantees no order of rows. LIMIT without ORDER BY or with "
        "ties in it, `first`, `mode`, a collected list, or `row_number` with ties can give another result when a "
        "batch is made again. There is no warning if the order is known to be unique, by KEY in column lists, by GROUP "
        "BY or by DISTINCT.",
    ),
    "W202": Code(
        "implicit use of timelabel",
        "A warning of `check`: the project runs. Every table has the column timelabel. A NATURAL JOIN of two tables "
        "also joins on it, and a function of `*`, such as `struct(o.*)`, includes it. Name the columns, or write "
        "EXCEPT (timelabel).",
    ),
    "W203": Code(
        "undeclared date in file names",
        "A warning of `check` and `run`: the project runs. Files of a glob have a date in their names but no time of "
        "day, such as orders_20261110.csv. The time of their last change is therefore their stamp, and a copy of an "
        "old file appears as new as the copy. OPTIONS (stamp '%Y%m%d') declares the date. OPTIONS (stamp 'changed') "
        "confirms the time of the last change.",
    ),
    "W204": Code(
        "text parsed in UTC",
        "A warning of `check`: the project runs. In a table whose zone is not UTC, `to_timestamp(text)` and a CAST of "
        "a text parse a time without an offset in UTC. A column that is declared TIMESTAMP parses it in the zone of "
        "the table. Literals and patterns with an offset give no warning.",
    ),
    "W205": Code(
        "data that other users can reach",
        "A warning of `check`: the project runs. The storage, the work folder, the file of the ledger, the folder of "
        "secrets, or the private key of a connection or of Vault has permissions for other users of this machine, and "
        "no folder above it keeps them out. A server that is started with `--key` warns of that file too. New ones "
        "are private. The group of a folder with the setgid bit gives no warning, because that is how a group shares "
        "a storage.",
    ),
    "W206": Code(
        "login with unneeded privileges",
        "A warning of `check --connect`: the project runs. A connection is only collected from, but its login can "
        "write: it has INSERT, UPDATE, DELETE or TRUNCATE on a collected table, CREATE in its schema, owns the table, "
        "or is an administrator. The fix has the statements that revoke these privileges. If the login is an owner or "
        "an administrator, they create another one, as revoking could stop an application. Queries, and other tables "
        "and schemas, are not checked; nor are roles of MariaDB, MySQL and Firebird. Database files have no logins.",
    ),
    "W207": Code(
        "rule of the project with severity warning",
        "A warning of `check`: the project runs. The place breaks a rule in the project's folder `rules`, whose "
        "severity is `warning`.",
    ),
}
