"""Error codes of the ledger, the storage, and the systems that are collected from and published to."""

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

LEDGER: Mapping[str, Code] = {
    "E401": Code("no ledger", "The database exists, but it contains no ledger."),
    "E402": Code(
        "ledger of another version",
        "A newer Waterclock has changed the tables of the ledger. Older code must not write to them. Upgrade "
        "Waterclock. A ledger of a development version before 0.1.0 is not upgraded: make a new one from its export "
        "and the commits.",
    ),
    "E403": Code(
        "unsupported ledger URL",
        "The URL is not one of a supported ledger. A ledger is a SQLite file, `sqlite:///path/to/ledger.db`, or a "
        "PostgreSQL database, `postgresql://user@host/database`.",
    ),
    "E404": Code(
        "ledger of another project",
        "The ledger belongs to another project. Each project needs its own ledger; tables and claims are not shared.",
    ),
    "E405": Code(
        "rebuild required",
        "Cadence, zone, type, mode and keys define the meaning of a table's labels, and they cannot change once the "
        "table has batches. Until this is fixed, no batch of the table or of its readers runs. All other tables run. "
        "Restore the declaration, run `rebuild`, which makes the table from its stage, or `reset`, which starts it "
        "over. Another cadence or zone needs `rebuild --all`.",
    ),
    "E406": Code(
        "outdated flow",
        "Another flow was applied after this runner had read its own. A runner with an older flow claims nothing. "
        "Start it again with the current project.",
    ),
    "E407": Code(
        "label claimed already",
        "Another claim is open. A regular table and a publish have one open claim at a time, and a partitioned table "
        "has one per label. A claim is open until its runner records an outcome or its lease expires. `rebuild --all` "
        "also waits for a `reset` or `rebuild` of one table.",
    ),
    "E408": Code("batch done already", "The batch is done. It is not stale, and no user requested a restatement."),
    "E409": Code("skipped batch", "A user decided to skip this batch. `retry` reverses the decision."),
    "E410": Code(
        "inputs changed before the claim",
        "An input of the batch was committed between the plan and the claim. The batch is planned again with the new "
        "inputs.",
    ),
    "E411": Code(
        "closed claim",
        "The claim is closed: its outcome was recorded, or its lease expired and another runner took it over. Its work "
        "is not recorded again.",
    ),
    "E412": Code("unknown table or batch", "No applied flow contains the table, or the table has no such batch yet."),
    "E413": Code(
        "decision in conflict with the batch",
        "The requested decision does not fit the state of the batch in the ledger.",
    ),
    "E414": Code(
        "item taken twice",
        "Another batch of the table already contains this item of the source. An item belongs to exactly one batch.",
    ),
    "E415": Code("busy ledger", "Another process has locked the ledger for more than a minute."),
    "E416": Code(
        "unusable ledger",
        "The database refused the login or a statement. Possible causes are a wrong password, a nonexistent database, "
        "a full disk, missing rights or a damaged file. If the login of a running process is refused, the process "
        "retries for five minutes, because the password may be about to change.",
    ),
    "E417": Code(
        "existing ledger",
        "A ledger already exists. `ledger rebuild` replaces a lost one. `--force` moves the existing ledger out of the "
        "way. In PostgreSQL, another schema of the database may contain it: name the schema with `?schema=` in the "
        "URL.",
    ),
    "E418": Code(
        "unusable ledger export",
        "The export is truncated, damaged or written by newer code, or its preceding export is missing. An earlier "
        "export works too, if the logs since then exist.",
    ),
    "E419": Code("no ledger to export", "The flow has never run here, or its ledger is lost."),
    "E420": Code(
        "change of windows in a rebuild",
        "`rebuild TABLE` cannot change a table's cadence or zone, because the slices in its stage keep their old "
        "windows. It can change type, mode and keys. Use `rebuild --all`, which makes every table again.",
    ),
    "E421": Code(
        "missing ledger",
        "The storage contains tables of the project, but their ledger is missing. With an empty ledger every batch "
        "would run again, so none is created. `ledger rebuild` makes it from its export and the later commits.",
    ),
    "E422": Code(
        "damaged ledger",
        "The file of the ledger is not a valid database. It was truncated, overwritten or written by another program. "
        "`ledger rebuild --force` moves it out of the way.",
    ),
    "E423": Code(
        "unreachable ledger",
        "The server of the ledger is down or cannot be reached. If it was reachable before, the process retries for "
        "five minutes. A refused login is E416.",
    ),
    "E424": Code("missing ledger driver", "A PostgreSQL ledger needs psycopg, which is an extra of Waterclock."),
    "E425": Code(
        "moved ledger",
        "`ledger move` has moved this ledger to another database. Nothing is written here any more, so that no runner "
        "continues with data that others no longer see. Set ledger in waterclock.toml to the new URL.",
    ),
    "E426": Code(
        "ledger in use",
        "A claim is open, so the ledger cannot be moved: the outcome of the claim could not be recorded afterwards. "
        "Move it between batches.",
    ),
    "E427": Code(
        "full pool",
        "The pool has reached its limit of concurrent batches. The limit applies to all runners that share the ledger.",
    ),
    "E428": Code(
        "nothing to withdraw",
        "There is no request to withdraw. `withdraw` cancels requests of `recompute`, `recollect` or `backfill` that "
        "no runner has started. A due batch exists without a request; use `skip` to leave it out.",
    ),
    "E429": Code(
        "paused table",
        "The table or the whole project is paused. `pause` prevents runners from starting batches; running batches "
        "finish. Due batches run after `resume`.",
    ),
    "E430": Code(
        "no such pause",
        "The table is already paused, or there is no pause to resume. A pause keeps its first reason until it ends. "
        "The pause of a table and the pause of the whole project are independent: resume each one separately.",
    ),
    "E431": Code(
        "collected rows without a new window",
        "`rebuild --all` sorts rows into new windows by their data time. Rows collected by arrival have only their old "
        "windows, and each must be inside a new one. Those of FOR EACH stay in theirs. The error gives the reason.",
    ),
    "E432": Code(
        "change not supported by rebuild",
        "A rebuild cannot make this change. A collect cannot become a transform with the same name. A delivery by "
        "label cannot be undone. A column that collected rows do not have cannot become a key or the time. `reset` "
        "starts a table over; give a publish a new name and destination.",
    ),
    "E433": Code(
        "incomplete set of new tables",
        "In a `rebuild --all`, a batch of the live tables failed or was not made. The old tables remain in place, and "
        "the new ones are removed. Fix the cause and run it again.",
    ),
    "E456": Code(
        "window reopened meanwhile",
        "Late rows arrived for the window between the plan of its batch and the claim. The batch is planned again, and "
        "reads them.",
    ),
}
STORAGE: Mapping[str, Code] = {
    "E601": Code(
        "table of another project",
        "The table belongs to another project, as its properties show, and a table has one writer. Read it through a "
        "connection of type waterclock, or use another storage for this project.",
    ),
    "E602": Code(
        "storage without conditional writes",
        "The storage does not support creating a file only if it is absent; a test of it failed. Without this, two "
        "runners could both commit one claim. Use a local file system, or an object store with conditional puts.",
    ),
    "E603": Code("storage not writable", "The storage for the tables is read-only or full."),
    "E604": Code(
        "slice sealed already",
        "The claim has already written this slice. A claim writes each of its slices once, and slices are never "
        "rewritten.",
    ),
    "E605": Code(
        "unsealed slice",
        "The slice has no readable manifest, or its files are damaged. It is never read, and its batch is made again.",
    ),
    "E606": Code("rows with a wrong label", "Rows of the batch group have a label that is not being made."),
    "E607": Code(
        "unsupported storage",
        "The storage must be a local folder, or a bucket in an object store that supports conditional puts. Its URL "
        "contains no user, password or port: access keys are options, as secrets.",
    ),
    "E608": Code(
        "unknown object store option",
        "The option is misspelled, or belongs to another tool. Values that are not set here come from environment "
        "variables.",
    ),
    "E609": Code(
        "unreachable object store",
        "The object store does not respond, has no such bucket, or denies access to this user. Or its responses are "
        "incomplete or contradict each other. If it does not respond, or incompletely, it is tried again later.",
    ),
    "E610": Code(
        "missing column",
        "The rows no longer have a column of the table. Restore the column in the query; if it has no values any more, "
        "use CAST(NULL AS its type), or declare it with RETIRE. For a transform, `rebuild --all` makes all labels "
        "without it.",
    ),
    "E611": Code(
        "changed column type",
        "The type of a column changed, and existing rows could not be read with the new type. Declare the old type. "
        "For a transform, `rebuild --all` makes all labels with the new type.",
    ),
    "E612": Code(
        "value of the wrong type",
        "A value cannot be cast to the declared type of its column, so its batch stops. The error names the column. A "
        "text with more decimal places than its DECIMAL does not fit either.",
    ),
    "E613": Code(
        "duplicate column name",
        "Two columns have the same name. Spark does not distinguish names that differ only in case.",
    ),
    "E614": Code(
        "unsupported column name",
        "The column name contains a character that Parquet and Delta do not support: space, tab, line end, comma, "
        "semicolon, equals sign or bracket. Or it begins with _waterclock_, which is reserved.",
    ),
    "E615": Code(
        "unsupported stored type",
        "Delta tables cannot store intervals, VARIANT, TIME and collated text. Cast them to another type.",
    ),
    "E616": Code(
        "nulls in a NOT NULL column", "The slice contains nulls in a column that the table declares NOT NULL."
    ),
    "E617": Code(
        "slice incompatible with its table",
        "The columns or types in the files of the slice differ from those of the table. Committing the slice would "
        "make the table unreadable.",
    ),
    "E618": Code("missing declared column", "The column list contains a column that the query does not return."),
    "E620": Code(
        "two different rows of one key",
        "A batch of a MERGE contains two different rows with the same key and the same ORDER BY value, so neither is "
        "the last one.",
    ),
    "E621": Code(
        "expired commits",
        "The Delta log no longer contains the commits that show the outcome of a claim. The ledger is rebuilt from its "
        "last export.",
    ),
    "E622": Code(
        "too many concurrent commits",
        "Other writers committed to the table so often that every attempt to commit was based on an outdated version.",
    ),
    "E623": Code("no table there", "The folder contains no Delta table."),
    "E624": Code(
        "wrong layout of a table",
        "PARTITIONED and regular tables have different layouts on disk. Restore the declaration, or run `rebuild`.",
    ),
    "E630": Code(
        "killed claim",
        "Another runner took the claim over before its data was committed. The first commit wins, whether it contains "
        "data or ends the claim.",
    ),
    "E631": Code(
        "commit that needs Spark",
        "The table has files that OPTIMIZE merged, deletion vectors, clustering or constraints. Spark commits such a "
        "slice, under the same claim.",
    ),
    "E632": Code(
        "write without a commit",
        "Spark reported a successful write, but the log of the table contains no commit of it.",
    ),
    "E633": Code(
        "Spark without a log store for S3",
        "The Spark session cannot commit to S3. A Spark Connect server or the session of a notebook must be started "
        "with Waterclock's log store for S3. Delta's own log store supports only one driver, and a running session "
        "cannot change it. If Waterclock starts Spark, the log store is configured automatically.",
    ),
    "E640": Code(
        "state no longer available",
        "The Delta version of this older state and its sealed slices were both removed. An older state is read from "
        "its version, or made again from the slices. Query a newer state.",
    ),
    "E643": Code(
        "damaged Delta log",
        "A commit or checkpoint in the log of the table cannot be read. `rebuild` moves the log out of the way and "
        "makes the table again from its stage, with a new log.",
    ),
    "E644": Code(
        "rebuild of all tables in progress",
        "`rebuild --all` blocks all claims until the new tables have replaced the old ones. The block ends with the "
        "rebuild, or with its lease if the rebuild was killed. Due batches run then.",
    ),
    "E645": Code(
        "blocked rebuild of all tables",
        "The disk has no room for a second set of tables, or files of a killed rebuild are gone. Before the move, the "
        "old tables are in use. During the move, `query` reads the old tables until the move is complete.",
    ),
}
OUTSIDE: Mapping[str, Code] = {
    "E434": Code(
        "file list not available",
        "Engines without Delta support need a list of the files of a table, and no such list is correct here. Another "
        "tool turned on deletion vectors or column mapping, or replaced files are stored next to files of a label.",
    ),
    "E435": Code(
        "files no longer available",
        "The files of the table as of that tick are gone, or its state at the tick was never stored. `query --as-of` "
        "makes it again.",
    ),
    "E436": Code(
        "drop not possible",
        "`drop` removes windows as RETAIN does: the oldest first, and never the newest. It does not drop a window that "
        "a due batch, or the next batch of a reader, still needs. Tables made from dropped windows stay unchanged.",
    ),
    "E832": Code(
        "mode not supported behind a view",
        "This publish cannot use a view. Behind a view, a REPLACE has one table per version, and a PARTITIONED table "
        "has one per label. Changes of a MERGE and rows of a condition have no table of their own.",
    ),
}
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
