"""Error codes of data at rest: the ledger, the storage, and the systems that are collected from and published to."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.codes_of_connectors import (
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
    "E401": Code("no ledger", "The database exists, and no ledger made it."),
    "E402": Code(
        "a ledger of newer code",
        "A newer Waterclock has changed the ledger's tables; older code may not write there.",
    ),
    "E403": Code(
        "no such kind of ledger",
        "A ledger lives in a SQLite file, `sqlite:///path/to/ledger.db`, or in a PostgreSQL database, "
        "`postgresql://user@host/database`.",
    ),
    "E404": Code(
        "a ledger of another project", "Each project has a ledger of its own; its tables and claims are not shared."
    ),
    "E405": Code(
        "a table that would need a rebuild",
        "Cadence, zone, type, mode and keys of a table with batches are part of what its labels mean. Until it is "
        "fixed no batch of this table, or of what reads it, is made; all other tables run. Put the declaration back, "
        "run `rebuild`, which makes the table from its stage, or `reset`, which starts it over.",
    ),
    "E406": Code(
        "a flow that is not applied",
        "Another flow was applied since this runner read its own. A runner with an older flow claims nothing.",
    ),
    "E407": Code(
        "a label that is claimed already",
        "A regular table has one open claim at a time, a partitioned one has one a label. The claim is open until "
        "its runner records an outcome or its lease runs out.",
    ),
    "E408": Code("a batch that is done already", "The batch is done, and neither restated by request nor stale."),
    "E409": Code("a batch that was skipped", "Somebody decided that the batch is not made. `retry` takes that back."),
    "E410": Code(
        "inputs that changed while they were claimed",
        "A table that the batch reads was committed between the look at it and the claim. Looking again helps.",
    ),
    "E411": Code(
        "a claim that is closed",
        "The claim was recorded before, or its lease ran out and another runner took it over. Its work is not "
        "recorded again.",
    ),
    "E412": Code("unknown to the ledger", "No flow with that table was applied, or the table has no such batch yet."),
    "E413": Code(
        "a decision that does not fit the batch", "What was asked does not fit what the ledger knows of the batch."
    ),
    "E414": Code(
        "an item taken twice", "An item of a source belongs to one batch of a table. Another batch has it already."
    ),
    "E415": Code("a ledger that is busy", "Another process holds the ledger's lock for longer than a minute."),
    "E416": Code(
        "a ledger that cannot be used",
        "The database refused the login or a statement: a wrong password, a database that does not exist, a full "
        "disk, missing rights, a damaged file. A server that lets a running process in no more is waited for, five "
        "minutes long: its password may be about to change.",
    ),
    "E417": Code(
        "a ledger that is there",
        "`ledger rebuild` is for one that is lost. `--force` moves the one there aside. In PostgreSQL another schema of"
        " the database may hold it: `?schema=` in the URL names which.",
    ),
    "E418": Code(
        "an export that cannot be used",
        "It was cut off, is damaged, or was written by newer code; or the export that it follows is gone. An earlier "
        "one does as well where the logs since are there.",
    ),
    "E419": Code("no ledger to export", "The flow never ran here, or its ledger is lost."),
    "E420": Code(
        "windows that cannot be cut anew",
        "`rebuild TABLE` changes a table's type, mode and keys. Its slices stay cut by the cadence and zone of their "
        "time. Another cadence or zone goes through `rebuild --all`, which makes every table anew.",
    ),
    "E421": Code(
        "a ledger that is gone",
        "Tables of the project are in the storage, and the ledger that tells what is done is not. An empty one would "
        "have all of it made again, so none is made: `ledger rebuild` makes it of its export and the commits since.",
    ),
    "E422": Code(
        "a damaged ledger",
        "The ledger's file is no database any more: cut off, overwritten, or of another program. `ledger rebuild "
        "--force` moves it aside.",
    ),
    "E423": Code(
        "a ledger that does not answer",
        "Its server is down or cannot be reached. One that was reached before is waited for, five minutes long. A "
        "refused login is E416.",
    ),
    "E424": Code("a driver that is not installed", "PostgreSQL is spoken to through psycopg, which comes by an extra."),
    "E425": Code(
        "a ledger that was moved",
        "`ledger move` has put it into another database. Nothing is written here any more, so that no runner goes on "
        "with what others no longer see.",
    ),
    "E426": Code(
        "a ledger in use", "A ledger is moved between batches: a claim that is open could not be recorded afterwards."
    ),
    "E427": Code(
        "a pool that is full",
        "A pool bounds how many batches run side by side, of all the runners that share the ledger.",
    ),
    "E428": Code(
        "nothing to take back",
        "`withdraw` takes back what `recompute`, `recollect` or `backfill` asked for and no runner has begun. "
        "What is due needs nobody to ask for it: `skip` leaves it out.",
    ),
    "E429": Code(
        "a paused table",
        "`pause` keeps every runner from beginning a batch of a table, or of any. A batch that was running then ends. "
        "What is due is made after `resume`.",
    ),
    "E430": Code(
        "no such pause",
        "A pause keeps its first reason until it is taken back, and only what was paused can be resumed. A table's "
        "pause and that of all stand side by side: each is taken back as it was made.",
    ),
    "E431": Code(
        "collected rows that cannot be cut anew",
        "`rebuild --all` sorts rows by their data time into new windows. What was taken by its arrival is known by its "
        "old windows alone, so each of these must lie within a new one.",
    ),
    "E432": Code(
        "a declaration that no rebuild can follow",
        "A collect does not become a transform under the same name, what a publish has delivered by label is not taken "
        "back, and rows that were collected without a column have no place where it becomes a key or the time. `reset` "
        "starts a table over; a publish gets another name and destination.",
    ),
    "E433": Code(
        "a new set that is not whole",
        "In a `rebuild --all` a batch failed that stands in the live tables, or was not made. The old tables stand, "
        "and what was made is removed.",
    ),
    "E456": Code(
        "a window was opened again meanwhile",
        "Late rows came for the window between planning its batch and claiming it. It is planned anew, and reads them.",
    ),
}
STORAGE: Mapping[str, Code] = {
    "E601": Code(
        "another project's table",
        "A table has one writer, the project its properties name. Read it through a connection of type waterclock, or "
        "store this project elsewhere.",
    ),
    "E602": Code(
        "a storage without a latch",
        "Two runners must never both commit one claim, so the storage must create a file only where there is none. "
        "This one, when tried, did not.",
    ),
    "E603": Code("a storage that cannot be written", "The place where the tables are to lie is read-only or full."),
    "E604": Code("a slice that is sealed already", "A claim writes each of its slices once; nothing rewrites one."),
    "E605": Code(
        "a slice that is not sealed",
        "A slice without a readable manifest, or whose files are damaged, is read by nobody: its batch is made again.",
    ),
    "E606": Code("rows of another label", "A group's rows bear only the labels that are being made."),
    "E607": Code(
        "a storage of an unknown kind",
        "Folders of this machine are known, and buckets of stores that can put a file only where none is.",
    ),
    "E608": Code(
        "no option of an object store",
        "Misspelt, or one that only another tool knows. What is not said here the environment's variables say.",
    ),
    "E609": Code(
        "an object store that cannot be reached",
        "It does not answer, has no such bucket, or does not let this user in. One that did not answer is asked again "
        "later.",
    ),
    "E610": Code(
        "a column that is lost",
        "A column of the table is no longer in the rows. Bring it back: rebuilding a table without it is to follow.",
    ),
    "E611": Code(
        "a column that changed its type",
        "What lies in the table would no longer be read. Declare the old type: rebuilding a table is to follow.",
    ),
    "E612": Code(
        "a value that does not have the declared type",
        "A declared type is cast to; a value that cannot be cast stops its batch, naming the column. Nor is a text a "
        "DECIMAL that has fewer digits behind the point.",
    ),
    "E613": Code("two columns of one name", "Names that differ in case alone are one name to Spark."),
    "E614": Code(
        "a column name that cannot be stored",
        "Parquet and Delta take no space, tab, line end, comma, semicolon, equals sign or bracket in a name.",
    ),
    "E615": Code(
        "a type that cannot be stored",
        "Intervals, VARIANT, TIME and collated text have no place in a table; cast them.",
    ),
    "E616": Code("nulls in a NOT NULL column", "The table forbids nulls in a column, and the slice holds some."),
    "E617": Code(
        "a slice that does not fit its table",
        "The files' own columns or types differ from the table's. Committed all the same, they would break reading it.",
    ),
    "E618": Code(
        "a declared column that the rows lack", "The column list names a column that the query does not give."
    ),
    "E620": Code(
        "two different rows of one key",
        "A batch of a MERGE holds two different rows of one key with one ORDER BY, so that neither is the last.",
    ),
    "E621": Code(
        "commits that were cleaned away",
        "What became of a claim stood in commits that the Delta log no longer has. The ledger is rebuilt from its "
        "last export.",
    ),
    "E622": Code("a table that is too busy", "Others committed so often that no look at the table was still true."),
    "E623": Code("no table there", "The folder holds no Delta table."),
    "E624": Code(
        "a table that lies otherwise on disk",
        "PARTITIONED and regular tables lie differently. Put the declaration back, or run `rebuild`.",
    ),
    "E630": Code(
        "a claim that was killed",
        "Another runner took the claim over before its data came. Data or kill, the first commit wins.",
    ),
    "E631": Code(
        "a commit that needs Spark",
        "Files that OPTIMIZE joined, deletion vectors, clustering or constraints: Spark commits such a slice, under "
        "the same claim.",
    ),
    "E632": Code("a write that left no commit", "Spark said that it wrote, and the table's log shows no commit of it."),
    "E633": Code(
        "a Spark that cannot commit to S3",
        "A Spark Connect server, or a notebook's own session, must be started with Waterclock's log store for S3: "
        "Delta's own knows of one driver, and a session cannot change it. Where Waterclock starts Spark it is set.",
    ),
    "E640": Code(
        "a state beyond what is kept",
        "An older state of a table is read from the Delta version that holds it, or made again from its sealed slices. "
        "Where both were cleaned away, only newer states can be read.",
    ),
    "E643": Code(
        "a damaged Delta log",
        "A commit or checkpoint of the table's log cannot be read. `rebuild` sets the log aside and makes the table "
        "again from its stage, with a log of its own.",
    ),
    "E644": Code(
        "all tables are being made anew",
        "From the cut of the stage until the new tables are moved in, `rebuild --all` holds all claims back. Its hold "
        "ends with it, and where it was killed, with its lease; what is due is made then.",
    ),
    "E645": Code(
        "a rebuild of all tables that cannot go on",
        "The disk has no room for a second set of tables, or what a killed rebuild had made is gone. Before the move "
        "the old tables stand; within it `query` answers by them until it is carried to its end.",
    ),
}
OUTSIDE: Mapping[str, Code] = {
    "E434": Code(
        "a list of files that cannot be given",
        "Engines that know no Delta are told which files make up a table. Where somebody else turned on deletion "
        "vectors or mapped columns, or where files of a label lie among replaced ones, no such list says what it "
        "holds.",
    ),
    "E435": Code(
        "files that are not kept",
        "The files that held the table as of that tick are gone, or its state there was never stored. `query --as-of` "
        "makes it again.",
    ),
    "E436": Code(
        "windows that are not dropped",
        "`drop` takes the oldest windows out of a table as RETAIN does: from the oldest on, never the newest, and none "
        "that a batch which is due, or the next one of a reader, still reads. What was made of them stays.",
    ),
    "E832": Code(
        "what does not stand behind a view",
        "Behind a view a REPLACE has a table for each version, and a PARTITIONED table one for each label. Changes of "
        "a MERGE, and rows of a condition, have no table of their own.",
    ),
}
CONNECTORS: Mapping[str, Code] = {
    "E801": Code(
        "a connection type that nobody provides",
        "A connection's TYPE names a connector: one of Waterclock's, or one that an installed package brings by the "
        "entry point waterclock.connectors.",
    ),
    "E802": Code(
        "a connector that does not load",
        "The package of a connector lacks something that it imports, or two packages bring connectors of one name.",
    ),
    "E803": Code(
        "no path",
        "A connection of files needs a folder, or the URL of one in an object store, one of SQLite a file. A unit of "
        "files is supplier.source or a glob below it.",
    ),
    "E804": Code(
        "a source that is not there",
        "The landing folder, its files or the table do not exist, or a folder may not be listed. Tables with "
        "like names are named.",
    ),
    "E805": Code(
        "a column that the source does not have",
        "The column list, or BY DATA TIME, names a column that the source lost or never had. All such columns are "
        "named at once, with what is there.",
    ),
    "E806": Code(
        "a broken row in a file",
        "A row has too few or too many fields or a quote that is not closed, is no JSON, or holds a value that is not "
        "of its declared type. The file and the line are named. The whole batch is refused and nothing of it is "
        "visible; it is made when the file is mended.",
    ),
    "E807": Code(
        "a file that cannot be read",
        "The file is damaged, was cut off while it was sent, vanished, or changed while it was read; or it is an "
        "object whose name has a control character or an empty part, and what lies beside it cannot be listed either. "
        "Nothing was taken of it. One that another table has archived meanwhile is read in the archive, at the next "
        "attempt.",
    ),
    "E808": Code(
        "two columns of one name at the source",
        "Two columns of a file or table have the same name, or names that a table cannot tell apart.",
    ),
    "E809": Code(
        "formats that do not go together",
        "The files of a unit are of several formats, or a format is not written with that compression.",
    ),
    "E810": Code(
        "a database that cannot be opened",
        "The file is gone, is no database, or is damaged. Or the server refuses user, password or certificate, or "
        "has no such database: correct the connection that is named, then `waterclock retry`. A server that does not "
        "answer is tried again.",
    ),
    "E811": Code(
        "a locked database",
        "Another process held the database for longer than the connection's timeout. Nothing was changed; it is tried "
        "again.",
    ),
    "E812": Code(
        "a value of a database that does not have its type",
        "SQLite keeps any value in any column. One that cannot become the column's type stops the batch. So does a "
        "value that a destination's column would round, cut or convert.",
    ),
    "E813": Code(
        "a database that refuses",
        "The database says why: a wrong query, a key that is there twice. Or a trigger of its dropped rows without an "
        "error.",
    ),
    "E814": Code(
        "a database that changed while it was read in parts",
        "Parts that are read side by side see the moment of one transaction, which the server ended: by a restart, a "
        "pooler between, or a limit on transactions; SQLite and MariaDB do not lend it, and somebody wrote what was "
        "read. It is tried again.",
    ),
    "E815": Code(
        "a type that a source does not give",
        "A value of a database becomes a plain type; a data time is a timestamp, a date or text (of PostgreSQL, a "
        "number too). A column of PostgreSQL whose type has no counterpart in Spark must be declared.",
    ),
    "E820": Code(
        "a destination of somebody else",
        "The table holds rows that this project did not publish, or another project publishes there. Publishing would "
        "change or remove them. So would it those of a table that refers to it by ON DELETE CASCADE.",
    ),
    "E821": Code(
        "a destination that cannot be written",
        "The disk is full, or the file or folder is read-only. The delivery was undone as a whole.",
    ),
    "E822": Code(
        "a sealed slice that cannot be delivered", "A file of the slice is gone or damaged. `retry` makes it anew."
    ),
    "E823": Code(
        "an item that is gone",
        "What was taken is kept in the archive, to be read again by `recompute`. Somebody has moved or removed it.",
    ),
    "E824": Code(
        "a destination that lost what was delivered",
        "What the newest delivery brought, or its record, is not there any more: the destination was emptied, changed "
        "by hand or put back to an older copy, or nothing was delivered so far. Going on would leave it with holes. "
        "`recompute` of the publish delivers all labels again.",
    ),
    "E826": Code(
        "a sign that has not come",
        "AWAIT waits for a source to say that a window is whole. With FOR it waits so long after it is due; then "
        "its batch fails: somebody is to look. Nothing was read.",
    ),
    "E827": Code(
        "a column that does not say when a row was changed",
        "CHANGED BY names a column of the source that holds when a row was changed last: a timestamp, a date or a "
        "number since 1970. It is not there, or holds something else. Nothing was read.",
    ),
    "E828": Code(
        "past windows that another runner has read meanwhile",
        "Between the look at the source, which found past windows changed, and the claim, another runner collected one "
        "of them. The source is looked at once more, so that no change is taken twice.",
    ),
    "E829": Code(
        "something else at a destination's name",
        "A publish behind a view makes the view and the tables under it, and takes no table and no view of others for "
        "its own. Nothing was changed: whoever owns what is there renames or drops it.",
    ),
    "E830": Code(
        "a condition that a destination cannot be asked",
        "REPLACE WHERE names the rows of a destination that a publish replaces. Spark and the database have to find "
        "the same rows by it, so it compares columns that are published with texts, numbers and truths, each of its "
        "own kind.",
    ),
    "E831": Code(
        "another condition than before",
        "A publish with REPLACE WHERE replaces the rows of its condition and no others. With another condition the "
        "rows of before would stay, or those of others would go: who publishes says which, by OPTIONS (adopt true).",
    ),
    "E825": Code(
        "a driver of a connection that is not installed",
        "A connector reaches its systems through a Python package that an extra of Waterclock installs; the error "
        "gives the command. `check` reports it of connections that a run would open.",
    ),
    "E833": Code(
        "no other project there",
        "A connection of type `waterclock` leads to the folder of another project, or to its storage and its ledger. "
        "Nothing is there, or its project file does not say where they are.",
    ),
    "E834": Code(
        "no such table in the other project",
        "A linked table names one that the other project's ledger does not know, or one that is read in another way: a "
        "table of slices by its labels, one that is a state without a BY.",
    ),
    "E835": Code(
        "windows that do not fit those of the other project",
        "A window takes whole slices of the other project's table. The nearest cadence whose windows are made of whole "
        "ones is named.",
    ),
    "E836": Code(
        "what the other project does not keep",
        "A state of a tick that its own project could make again, and nobody else, or a slice that went while it was "
        "read.",
    ),
    "E837": Code(
        "the other project is of another version",
        "Its ledger was written by an older or a newer Waterclock. It is only ever read here, so it is not brought up "
        "to date: its own project does that.",
    ),
    "E838": Code(
        "another project that cannot be read",
        "This user may not read its ledger or its tables, or they are damaged. Reading is all that is asked for.",
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
