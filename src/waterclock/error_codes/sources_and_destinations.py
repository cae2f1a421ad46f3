"""Error codes of the systems that are collected from and published to."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.error_codes.connectors import (
    APIS_AT_WORK,
    CHANGES,
    CONNECTORS_AT_WORK,
    FILES_AT_WORK,
    FOR_EACH_AT_WORK,
    MYSQL_AT_WORK,
    OF_APIS,
    RECEIVER_AT_WORK,
)
from waterclock.errors import Code

CONNECTORS: Mapping[str, Code] = {
    "E801": Code(
        "missing connector",
        "No installed package provides this connection type. TYPE names a connector of Waterclock, or one that an "
        "installed package registers with the entry point waterclock.connectors.",
    ),
    "E802": Code(
        "connector failed to load",
        "An import of the connector's package is missing, or two packages provide connectors with the same name.",
    ),
    "E803": Code(
        "missing path",
        "The connection has no path. A connection of files needs a folder or its URL in an object store. A connection "
        "of SQLite or DuckDB needs a file. A unit of files is supplier.source or a glob below it.",
    ),
    "E804": Code(
        "missing source",
        "The landing folder, its files or the table do not exist, or the folder cannot be listed. The error lists "
        "tables with similar names.",
    ),
    "E805": Code(
        "missing source column",
        "The source does not have a column that the column list or BY DATA TIME names. The error lists all missing "
        "columns and the existing ones.",
    ),
    "E806": Code(
        "broken row in a file",
        "A row has the wrong number of fields, an unclosed quote, invalid JSON, or a value that does not fit its "
        "declared type. The error shows the file and the line. The whole batch fails, and none of its rows are "
        "visible. Fix the file and put it into the landing folder again, then run `waterclock retry`.",
    ),
    "E807": Code(
        "unreadable file",
        "The file is damaged, truncated in transfer, gone, or changed during the read. Or it is an object whose name "
        "has a control character or an empty part; neighboring objects cannot be listed either. No row of it was "
        "taken. If another table has archived the file meanwhile, the next attempt reads it in the archive.",
    ),
    "E808": Code(
        "duplicate column name at the source",
        "Two columns of a file or table have the same name, or names that a table cannot distinguish.",
    ),
    "E809": Code(
        "incompatible file formats",
        "The files of a unit have several formats, or the format does not support the compression.",
    ),
    "E810": Code(
        "inaccessible database",
        "The file is gone, damaged or not a database. Or the server refuses the user, the password or the certificate, "
        "or has no such database. Correct the connection, then run `waterclock retry`. A server that does not respond "
        "is tried again.",
    ),
    "E811": Code(
        "locked database",
        "Another process locked the database for longer than the timeout of the connection. Or it has been converting "
        "the events of a receiver for more than a minute. Nothing was changed, and the batch is tried again.",
    ),
    "E812": Code(
        "database value of the wrong type",
        "A value does not fit the type of its column, so the batch stops. SQLite stores any value in any column. The "
        "batch also stops if a column of the destination would round, truncate or convert a value.",
    ),
    "E813": Code(
        "statement refused by a database",
        "The database refused the statement, and the error contains its reason, such as an invalid query or a "
        "duplicate key. Or one of its triggers dropped rows without an error.",
    ),
    "E814": Code(
        "database changed during a parallel read",
        "A parallel read needs one transaction with one snapshot, and the server ended it. Causes are a restart, a "
        "connection pooler or a limit on transactions. SQLite and MariaDB cannot share a snapshot, and another client "
        "changed the rows during the read. The batch is tried again.",
    ),
    "E815": Code(
        "unsupported source type",
        "A column of the source has a type that cannot be converted. Values of a database become plain types. A data "
        "time must be a timestamp, a date or a text; in PostgreSQL it can also be a number. Declare a column of "
        "PostgreSQL whose type has no counterpart in Spark.",
    ),
    "E820": Code(
        "destination of another owner",
        "The table contains rows that this project did not publish, or another project publishes to it. Publishing "
        "would change or remove them. It would also remove rows of a table that refers to it with ON DELETE CASCADE.",
    ),
    "E821": Code(
        "destination not writable",
        "The disk is full, the file or folder is read-only, or the login of a source or destination has no permission. "
        "`check --connect` finds a missing permission, with the GRANT that adds it. The whole delivery was undone.",
    ),
    "E822": Code("undeliverable slice", "A file of the sealed slice is missing or damaged. `retry` makes it again."),
    "E823": Code(
        "missing or damaged archived item",
        "An archived item was moved, removed, or has another size than when it was collected. Collected items are "
        "stored in the archive, so that `recompute` can read them again.",
    ),
    "E824": Code(
        "lost delivery at the destination",
        "The destination no longer contains the newest delivery or its record. It was emptied, changed by hand or "
        "restored from an older copy, or nothing was delivered so far. Continuing would leave gaps. `recompute` of the "
        "publish delivers all labels again.",
    ),
    "E826": Code(
        "AWAIT signal not received",
        "The source did not signal in time that the window is complete. With AWAIT ... FOR, the batch waits that long "
        "after it is due, and then fails so that a person checks it. Nothing was read.",
    ),
    "E827": Code(
        "invalid CHANGED BY column",
        "The column does not exist, or does not contain the time of a row's last change. CHANGED BY needs a timestamp, "
        "a date or a number since 1970. Nothing was read.",
    ),
    "E828": Code(
        "past windows collected by another runner",
        "The source reported past windows as changed, but another runner collected one of them before the claim. The "
        "source is checked again, so that no change is collected twice.",
    ),
    "E829": Code(
        "name taken at the destination",
        "A table or view of another owner has the name that the publish needs. A publish behind a view creates the "
        "view and its tables, and never takes over existing ones. Nothing was changed. The owner of the existing table "
        "or view must rename or drop it.",
    ),
    "E830": Code(
        "unsupported REPLACE WHERE condition",
        "The condition is not supported. REPLACE WHERE selects the destination rows that a publish replaces. Spark and "
        "the database must select the same rows. Compare only published columns, with texts, numbers and booleans of "
        "the same type.",
    ),
    "E831": Code(
        "changed REPLACE WHERE condition",
        "The condition differs from the one of earlier deliveries. A publish replaces only the rows of its condition, "
        "so earlier rows would remain, or rows of others would be removed. Confirm the new condition with OPTIONS "
        "(adopt true).",
    ),
    "E825": Code(
        "missing connector driver",
        "The connector needs a Python package that is an extra of Waterclock. The error shows the command to install "
        "it. `check` reports it for connections that a run would open.",
    ),
    "E833": Code(
        "other project not found",
        "A connection of type `waterclock` refers to the folder of another project, or to its storage and its ledger. "
        "Neither exists there, or the project file does not contain their locations. Or another user can change that "
        "file, and it names a storage or a ledger outside of its folder: set them on the connection.",
    ),
    "E834": Code(
        "unknown table in the other project",
        "The ledger of the other project does not know the linked table, or the table needs the other form of read. "
        "Read a table with slices by its labels, and a table with a state without BY.",
    ),
    "E835": Code(
        "windows incompatible with the other project",
        "A window does not consist of whole slices of the other project's table. The error shows the nearest cadence "
        "that fits.",
    ),
    "E836": Code(
        "state missing in the other project",
        "The other project no longer has the state of this tick, and only that project can make it again. Or a slice "
        "was removed during the read.",
    ),
    "E837": Code(
        "other project of another version",
        "An older or a newer Waterclock wrote the ledger of the other project. It is opened read-only, so it is not "
        "upgraded here. Upgrade it from its own project.",
    ),
    "E838": Code(
        "other project not readable",
        "This user cannot read the ledger or the tables of the other project, or they are damaged. Read access is "
        "sufficient. Links out of a storage that another user can change are not followed. Neither are paths in a "
        "Delta log that lead out of the table.",
    ),
    **OF_APIS,
    **CONNECTORS_AT_WORK,
    **CHANGES,
    **FOR_EACH_AT_WORK,
    **RECEIVER_AT_WORK,
    **MYSQL_AT_WORK,
    **APIS_AT_WORK,
    **FILES_AT_WORK,
}
