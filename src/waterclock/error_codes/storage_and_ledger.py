"""Error codes of the ledger and the storage."""

from __future__ import annotations

from collections.abc import Mapping

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
        "unsealed slice or damaged file",
        "The slice has no readable manifest, or a file is gone or has another size than its manifest or log records, "
        "as after a power failure or an incomplete copy. Its rows are not read. A query of current rows reports E752 "
        "or E753 instead. Sizes are not compared in an object store, where a file is complete or absent.",
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
