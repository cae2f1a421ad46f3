"""Every code that an error can have, with what it means: the reference of errors is made from this.

Each code has one paragraph for who meets it; the error itself says what, where and how to mend it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from waterclock.temporal.refusals import REFUSALS


@dataclass(frozen=True, slots=True)
class Code:
    """What an error code stands for."""

    title: str
    text: str


TIME: Mapping[str, Code] = {
    "E101": Code(
        "a malformed label",
        "A timelabel is the UTC start of a window, written YYYYMMDDHHmm00. The text is no such date and time.",
    ),
    "E102": Code(
        "no window length",
        "Windows tile time: minutes and hours that divide a day, or one DAY, WEEK, MONTH, QUARTER or YEAR. The nearest "
        "legal lengths are named.",
    ),
    "E103": Code("no window starts there", "The instant is inside of a window of that cadence, not at its start."),
    "E104": Code(
        "a cron that is no cadence",
        "A SCHEDULE is compiled once to a window length, a delay and a zone. One that fires at unequal distances has "
        "none.",
    ),
    "E105": Code(
        "an unknown zone",
        "A zone is a name of the tz database, such as Europe/Berlin, whose offset is in whole minutes.",
    ),
    "E106": Code("no instant", "An instant is a date, a date and time, or a label, between the years 1 and 9999."),
    "E107": Code(
        "no duration",
        "A duration is a number and a unit: 2 HOURS, 7 DAYS. Where elapsed time is meant, months have no one length.",
    ),
    "E108": Code("an empty window", "A window ends after it starts."),
    "E120": Code(
        "no START",
        "A COLLECT BY DATA TIME takes rows of the past, window by window: it must say which window is the first, or "
        "the defaults must.",
    ),
    "E121": Code("START is no boundary", "START is the first window of a table, so a window must start there."),
    "E122": Code(
        "slices do not fit",
        "What is read from a PARTITIONED table begins and ends at its boundaries, for every window of the reader. A "
        "daily slice cannot be cut into hours, and a day of Kolkata is not made of hours of UTC. The nearest cadence "
        "that fits is named.",
    ),
    "E123": Code(
        "a read beyond RETAIN",
        "RETAIN says how long a table's windows are kept. A dropped window is never read as empty, so nothing may read "
        "further back.",
    ),
}
LANGUAGE: Mapping[str, Code] = {
    "E200": Code("errors in the project", "All that is wrong with the project, found together. Nothing of it can run."),
    "E201": Code(
        "unreadable text",
        "A quote, backtick or comment is never closed, or the file is not UTF-8. Reading goes on behind the next "
        "semicolon, so that other errors are reported too.",
    ),
    "E202": Code(
        "an unknown statement",
        "A statement begins with CREATE CONNECTION, FUNCTION or VIEW, COLLECT, TRANSFORM, PUBLISH or GRANT.",
    ),
    "E203": Code(
        "an unknown column",
        "Columns are known from closed column lists, from queries, and from the last run. What is not known for sure "
        "is not refused. Name a column in the list of its COLLECT to make it known before it first arrives.",
    ),
    "E204": Code("something else was expected", "The words do not follow the grammar at this place."),
    "E205": Code("an unknown clause", "No clause, and nothing said of a column, begins with this word."),
    "E206": Code("a clause in the wrong place", "The clause exists, and this statement does not take it."),
    "E207": Code("said twice", "Each clause, option and type is said once; EXPECT adds up."),
    "E208": Code("not yet", "The language has it, this release does not. It is refused so that it is never ignored."),
    "E209": Code("a habit of another tool", "Another tool says it so. The error says how it is said here."),
    "E210": Code("a query that cannot be read", "The query is no SQL that Spark would take, or no query at all."),
    "E211": Code(
        "an impossible name",
        "Names become folders, columns and tables elsewhere: letters, digits and _. Some names are ours: timelabel, "
        "the schema waterclock, the connection project, names that begin with _, and what is made beside a table.",
    ),
    "E212": Code(
        "a name twice",
        "Tables, views, publishes, columns and rules have names of their own; case alone does not tell two apart.",
    ),
    "E213": Code(
        "an unknown table", "No statement of the project makes a table or view of this name. Tables are schema.name."
    ),
    "E214": Code(
        "a column with its schema",
        "What is read is put in place of its name, so inside of a query it goes by its alias or bare name: orders.id, "
        "not raw.orders.id.",
    ),
    "E215": Code(
        "another answer each time",
        "The same inputs and the same code give the same output, else a batch could not be made again. The moment is "
        "WINDOW_END(), chance is a hash of a key.",
    ),
    "E216": Code(
        "a read that cannot be",
        "PAST, HISTORY, PREVIOUS and LATEST stand in FROM around the name of one table or view; PAST says how far "
        "back, and reads only PARTITIONED tables.",
    ),
    "E217": Code(
        "an unknown variable",
        ":name is a value of [vars] in waterclock.toml, and of the type that is wanted at this place.",
    ),
    "E218": Code(
        "two strings touch",
        r"In 'it''s' some readers of SQL see one text, others two. A quote inside of a string is written \'.",
    ),
    "E219": Code("an unknown type", "Types are Spark SQL's, as far as a Delta table can hold them."),
    "E220": Code(
        "an expression that cannot be read",
        "An expression of a header is TRUE or FALSE for a row (or a batch) and asks no other table.",
    ),
    "E221": Code(
        "an unknown connection",
        "A connection is declared by CREATE CONNECTION; the connection project is always there.",
    ),
    "E222": Code("an unknown connection type", "No connector of this type is installed."),
    "E223": Code("a wrong option", "Each connector says which options it takes, of which kind, and which it needs."),
    "E224": Code(
        "the connector cannot do that",
        "Each connector says how its systems can be collected from and published to. Files, for one, take no keyed "
        "update.",
    ),
    "E225": Code(
        "a secret that does not resolve",
        "A secret is looked for in the variable WATERCLOCK_SECRET_<NAME>, then in the file of its name below the "
        "environment's folder secrets. Only the chosen environment's are asked for.",
    ),
    "E226": Code(
        "a type and a mode that do not go together",
        "A PARTITIONED table is APPENDed to, label by label. A source taken whole REPLACEs what was there. A publish "
        "follows its table.",
    ),
    "E227": Code("a keyed update without a key", "MERGE finds rows by key: mark columns KEY, or say MERGE ON (...)."),
    "E228": Code(
        "no cadence",
        "Where data comes in, EVERY or SCHEDULE is said. A transform takes the cadence of what it reads where that is "
        "one; where inputs differ, it must be said, so that a new input never changes a cadence unseen.",
    ),
    "E229": Code(
        "a circle",
        "Tables that read each other need a PREVIOUS on the way round, and may hold no LATEST. Views may not read "
        "themselves at all.",
    ),
    "E230": Code(
        "PREVIOUS without columns", "Before START it reads an empty table, whose columns and types must be declared."
    ),
    "E231": Code(
        "a rule on a view", "A view is put in place of its name and has no batches. Rules belong to a TRANSFORM."
    ),
    "E232": Code("versions kept too short", "KEEP VERSIONS says how long older states can be read: a week or more."),
    "E233": Code("a part is missing", "The statement lacks what it cannot do without: FROM, TO, TYPE or its query."),
    "E234": Code(
        "a column without a name", "Spark would make a name up of the expression, with signs in it that no table takes."
    ),
    "E240": Code("a project file that is no TOML", "waterclock.toml cannot be read."),
    "E241": Code(
        "an unknown key", "Unknown keys of waterclock.toml are errors, so that a misspelt one is never ignored."
    ),
    "E242": Code("a wrong value", "A key of waterclock.toml is missing, or holds what it cannot."),
    "E243": Code("an unknown environment", "The environment is --env, else WATERCLOCK_ENV, else env below [project]."),
    "E244": Code("no project", "There is no waterclock.toml, or no file that it names holds statements."),
    "E245": Code(
        "an unknown pool", "A pool is named below [pools] with the number of batches it holds; default always exists."
    ),
    "E250": Code(
        "a Python file that cannot be loaded",
        "Loading a Python file runs it. It is no Python, or raised something; the frames that are shown are the "
        "project's own. What it declares from there on is not known.",
    ),
    "E251": Code(
        "an argument that is no text",
        "In Python an argument's value is the clause's own text; flags are True, options a dict of texts, numbers, "
        "True, False and wc.secret.",
    ),
    "E252": Code(
        "a function that cannot be found again",
        "A batch calls a Python function by its file and its name: it stands at the top level of a file of the "
        "project, below the decorator, under a name of its own.",
    ),
    "E253": Code(
        "a parameter without meaning",
        "A parameter of a Python transform is what is read (wc.table and the like), a value of [vars] (wc.var), or the "
        "window. Each is given by its name.",
    ),
    "E254": Code(
        "a SQL type that is not known",
        "A function for queries has a type for each parameter and for what it gives. Annotations say those of bool, "
        "int, float, str, bytes, date and datetime; all others are said in parameters and returns.",
    ),
}
TEMPORAL: Mapping[str, Code] = {code: Code(*said) for code, said in REFUSALS.items()}
LEDGER: Mapping[str, Code] = {
    "E401": Code("no ledger", "The database exists, but no ledger made it, or its file is damaged."),
    "E402": Code(
        "a ledger of newer code",
        "A newer Waterclock has changed the ledger's tables; older code may not write there.",
    ),
    "E403": Code(
        "no such kind of ledger",
        "A ledger lives in a SQLite file: `sqlite:///path/to/ledger.db`. PostgreSQL is to follow.",
    ),
    "E404": Code(
        "a ledger of another project", "Each project has a ledger of its own; its tables and claims are not shared."
    ),
    "E405": Code(
        "a table that would need a rebuild",
        "Cadence, zone, type, mode and keys of a table with batches are part of what its labels mean. Put the "
        "declaration back, or run `rebuild`, which makes the table from its stage.",
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
        "The database refused a statement: a full disk, missing rights, a damaged file.",
    ),
    "E417": Code(
        "a ledger that is there", "`ledger rebuild` is for one that is lost. `--force` moves the one there aside."
    ),
    "E418": Code(
        "an export that cannot be used",
        "It was cut off, is damaged, or was written by newer code; or the export that it follows is gone. An earlier "
        "one does as well where the logs since are there.",
    ),
    "E419": Code("no ledger to export", "The flow never ran here, or its ledger is lost."),
    "E420": Code(
        "windows that cannot be cut anew",
        "`rebuild` changes a table's type, mode and keys. Its slices stay cut by the cadence and zone of their time.",
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
        "A slice without a readable manifest is read by nobody: its batch is made again.",
    ),
    "E606": Code("rows of another label", "A group's rows bear only the labels that are being made."),
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
        "A declared type is cast to; a value that cannot be cast stops its batch, naming the column.",
    ),
    "E613": Code("two columns of one name", "Names that differ in case alone are one name to Spark."),
    "E614": Code(
        "a column name that cannot be stored",
        "Parquet and Delta take no space, tab, line end, comma, semicolon, equals sign or bracket in a name.",
    ),
    "E615": Code("a type that cannot be stored", "Intervals, VARIANT and TIME have no place in a table; cast them."),
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
    "E640": Code(
        "a state beyond what is kept",
        "An older state of a table is read from the Delta version that holds it, or made again from its sealed slices. "
        "Where both were cleaned away, only newer states can be read.",
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
        "A connection of files or of SQLite needs the path of a local folder or file; a unit of files is "
        "supplier.source or a glob below it.",
    ),
    "E804": Code(
        "a source that is not there",
        "The landing folder, its files or the table do not exist. Tables with like names are named.",
    ),
    "E805": Code(
        "a column that the source does not have",
        "The column list, or BY DATA TIME, names a column that the source lost or never had. All such columns are "
        "named at once, with what is there.",
    ),
    "E806": Code(
        "a broken row in a file",
        "A row has too few or too many fields, is no JSON, or holds a value that is not of its declared type. The file "
        "and the line are named. The whole batch is refused and nothing of it is visible; it is made when the file is "
        "mended.",
    ),
    "E807": Code(
        "a file that cannot be read",
        "The file is damaged, was cut off while it was sent, or vanished. Nothing was taken of it.",
    ),
    "E808": Code(
        "two columns of one name at the source",
        "Two columns of a file or table have the same name, or names that a table cannot tell apart.",
    ),
    "E809": Code(
        "formats that do not go together",
        "The files of a unit are of several formats, or a format is not written with that compression.",
    ),
    "E810": Code("a database that cannot be opened", "The file is gone, or is no database, or is damaged."),
    "E811": Code(
        "a locked database",
        "Another process held the database for longer than the connection's timeout. Nothing was changed; it is tried "
        "again.",
    ),
    "E812": Code(
        "a value of a database that does not have its type",
        "SQLite keeps any value in any column. One that cannot become the column's type stops the batch.",
    ),
    "E813": Code("a database that refuses", "The database says why: a wrong query, a key that is there twice."),
    "E814": Code(
        "a database that changed while it was read in parts",
        "Parts that are read side by side must see one moment. It is tried again; without the option partitions the "
        "rows are read in one transaction.",
    ),
    "E815": Code(
        "a type that a source does not give",
        "A value of a database becomes a plain type; a data time is a timestamp, a date or text.",
    ),
    "E820": Code(
        "a destination of somebody else",
        "The table holds rows that this project did not publish, or another project publishes there. Publishing would "
        "change or remove them.",
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
}
SELECTION: Mapping[str, Code] = {
    "E501": Code(
        "LATEST without a tick",
        "LATEST picks its tick at the batch's first run, and keeps it. Before the first batch of the table that is "
        "read there is none to pick.",
    ),
    "E510": Code(
        "a selection that cannot be read",
        "A selection names tables: marts.delays, +marts.delays with all upstream of it, marts.delays+ with all "
        "downstream, marts.*, tag:word; each with @LABELS or not.",
    ),
    "E511": Code(
        "a selection that matches nothing",
        "A table, pattern or tag that is not there is an error, never an empty answer. The nearest names are named.",
    ),
    "E512": Code(
        "labels that cannot be read",
        "A label is said as 20130105050000, 2013-01-05, 20130105, 2013-01 or 2013-01-05T06:00; a range is two of them "
        "with two dots between.",
    ),
    "E513": Code(
        "no label there", "The table has no window that starts in what was asked for. The nearest labels are named."
    ),
    "E514": Code("a range the wrong way round", "A range of labels goes from the older one to the newer one."),
    "E515": Code("several tables", "The command is about one table, and the selection means several."),
    "E516": Code("a batch that was not made", "There is no history of what was never claimed; `plan` says why."),
    "E517": Code(
        "no such column to follow",
        "The lineage of a column is asked for by schema.table.column. Open columns are known after the first run.",
    ),
    "E521": Code(
        "a tick without content", "A table holds nothing before its first window, and what is to come is not known yet."
    ),
    "E522": Code(
        "a state that was not made",
        "A regular table has a state at a tick once all its windows up to there are made. Of a REPLACE transform the "
        "states that nobody reads are not made; `backfill` makes them.",
    ),
    "E523": Code("no settled tick", "`latest` is the newest tick at which all tables of the query are settled."),
    "E518": Code("a label that was dropped", "What RETAIN has dropped is gone, and is never made again as if empty."),
    "E519": Code(
        "a source that cannot be asked again",
        "recollect asks the source of a collect by data time again. What arrived does not arrive again, and a live "
        "table only says what it holds now: there recompute goes back to what was kept.",
    ),
}
ENGINE: Mapping[str, Code] = {
    "E701": Code("Java is missing", "Spark runs on Java 17 or newer. It is found by JAVA_HOME, else on PATH."),
    "E702": Code(
        "jars that are not to be had",
        "Delta's jars are fetched once, or taken from the folder that WATERCLOCK_JARS names. One is missing, or is not "
        "the one it should be by its checksum.",
    ),
    "E705": Code(
        "a table without columns",
        "A table is read before its first batch, and its declaration gives no types, so nobody knows its columns.",
    ),
    "E706": Code("a destination is no table", "What is published lies elsewhere. What it is made of can be queried."),
    "E711": Code(
        "a full disk",
        "A slice could not be written to its end. Nothing of the batch is visible, and the next run makes it again.",
    ),
    "E712": Code("a JVM that is gone", "Spark's process ended. Its claims are taken over by the next run."),
    "E720": Code(
        "an error in the project's Python",
        "A function of the project raised something. The frames that are shown are the project's own.",
    ),
    "E721": Code("a function that is gone", "The file no longer has the function that a statement was made from."),
    "E722": Code("a function that gave no DataFrame", "A Python transform returns the DataFrame that it made."),
    "E730": Code(
        "Spark refuses the query",
        "The place is the one in your file. Spark's own name of the condition is given, with a way to mend it where "
        "one is known.",
    ),
    "E740": Code(
        "not as expected",
        "A rule, a key or a NOT NULL does not hold for the batch. It was audited before it was committed, so nothing "
        "of it is visible; the rules that did not hold are named with their counts.",
    ),
    "E750": Code(
        "a claim that was taken over",
        "The runner's lease ran out, and another one took its place before anything was committed.",
    ),
    "E751": Code(
        "a foreign commit",
        "Somebody else changed the data of a table of ours. Its batches stop, since nobody can say what it holds, "
        "until the change is undone.",
    ),
    "E790": Code(
        "an error of another library",
        "Something failed that has no words of its own yet. The library's are shown, with the frames that are ours.",
    ),
}
CLI: Mapping[str, Code] = {
    "E901": Code("a project is there already", "`init` writes a new project and changes no file."),
    "E902": Code("nobody to answer", "The command asks before it goes on, and no terminal is there. `--yes` answers."),
    "E903": Code("a reason is needed", "`skip` leaves rows out. The reason is all that their readers find."),
    "E904": Code(
        "a time that cannot be run to",
        "A window is read once it is over. `plan --now` looks ahead, `run --watch` waits; `--until` follows `--now`.",
    ),
    "E999": Code(
        "a defect of Waterclock",
        "An error that should not be. All that is known of it was written into the file that is named.",
    ),
}
_BY_LAYER = (TIME, LANGUAGE, TEMPORAL, LEDGER, SELECTION, STORAGE, ENGINE, CONNECTORS, CLI)
CODES: Mapping[str, Code] = {code: said for layer in _BY_LAYER for code, said in layer.items()}
