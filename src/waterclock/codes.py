"""Defines all error codes with their explanations; the reference of errors is generated from this.

Each code has one paragraph for the reader who meets it. The error itself states the fact, the place and the fix.
"""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.codes_at_rest import CONNECTORS, LEDGER, OUTSIDE, STORAGE
from waterclock.codes_of_alerts import ALERTS
from waterclock.codes_of_closings import CLOSINGS
from waterclock.codes_of_connectors import BY_CHANGES, CLUSTERS, CONNECTIONS, FOR_EACH, OF_FILES, RECEIVER
from waterclock.codes_of_lineage import LINEAGE
from waterclock.codes_of_publishing import COPIES, PUBLISHING
from waterclock.codes_of_quality import QUALITY, QUALITY_AT_WORK, QUALITY_COMMANDS
from waterclock.codes_of_queries import QUERIES, TEXTS
from waterclock.codes_of_schemas import RENAMES, SCHEMAS, SCHEMAS_AT_WORK, SCHEMAS_KEPT
from waterclock.codes_of_secrets import SECRETS
from waterclock.codes_of_specs import SPECS
from waterclock.codes_of_state import STATE, STATE_AT_WORK
from waterclock.codes_of_trust import TRUST
from waterclock.codes_of_warnings import WARNINGS
from waterclock.codes_of_watching import WATCHING, WATCHING_BY_WATERMARK, WATCHING_COMMANDS
from waterclock.errors import Code
from waterclock.temporal.refusals import REFUSALS

TIME: Mapping[str, Code] = {
    "E101": Code(
        "malformed label",
        "The text is not a valid timelabel. A timelabel is the UTC start of a window, written YYYYMMDDHHmm00.",
    ),
    "E102": Code(
        "invalid window length",
        "The length does not divide time into equal windows. Valid lengths are minutes and hours that divide a day, or "
        "one DAY, WEEK, MONTH, QUARTER or YEAR. The error lists the nearest valid lengths.",
    ),
    "E103": Code(
        "no window at this instant", "No window of the cadence starts at this instant. The instant is inside a window."
    ),
    "E104": Code(
        "cron expression without a cadence",
        "The times of the SCHEDULE are not equally spaced, so it has no cadence. A SCHEDULE is compiled once to a "
        "window length, a delay and a zone.",
    ),
    "E105": Code(
        "unknown zone",
        "The zone is not in the tz database, or its offset is not in whole minutes. Use a name such as Europe/Berlin.",
    ),
    "E106": Code(
        "invalid instant",
        "The text is not an instant. An instant is a date, a date and time, or a label, between the years 1 and 9999.",
    ),
    "E107": Code(
        "invalid duration",
        "The text is not a duration. A duration is a number and a unit: 2 HOURS, 7 DAYS. Months are not allowed for "
        "elapsed time, because their lengths differ.",
    ),
    "E108": Code("empty window", "The window does not end after its start."),
    "E120": Code(
        "missing START",
        "A COLLECT BY DATA TIME has no START. It collects past rows window by window, so it needs the first window. "
        "Declare START in the statement or in the defaults.",
    ),
    "E121": Code(
        "START not at a window boundary",
        "No window starts at START. START is the first window of a table, so it must be a window boundary.",
    ),
    "E122": Code(
        "incompatible windows",
        "The windows of the reader do not start and end at boundaries of the PARTITIONED table that it reads. A daily "
        "slice cannot be cut into hours, and a day in Kolkata does not consist of UTC hours. The error shows the "
        "nearest cadence that fits.",
    ),
    "E123": Code(
        "read beyond RETAIN",
        "The statement reads further back than RETAIN keeps windows. A dropped window is never read as empty. Reduce "
        "the reach of the read, or increase RETAIN.",
    ),
    "E124": Code(
        "bound without effect",
        "The bound is too short to have any effect: use a longer one, or remove the clause. A LOOKBACK shorter than a "
        "window reads no window again. A KEY PAST of one window covers no earlier window. A MAX LATENESS of 0 opens "
        "nothing. A PARTIAL AFTER shorter than the DELAY waits for nothing.",
    ),
}
LANGUAGE: Mapping[str, Code] = {
    "E200": Code(
        "errors in the project",
        "The project has errors. All of them are found and reported together. No batch can run until they are fixed.",
    ),
    "E201": Code(
        "unreadable text",
        "A quote, backtick or comment is never closed, or the file is not UTF-8. Parsing continues after the next "
        "semicolon, so that other errors are reported too.",
    ),
    **TEXTS,
    "E202": Code(
        "unknown statement",
        "The statement does not start with a known keyword. Statements start with CREATE CONNECTION, CREATE FUNCTION, "
        "CREATE VIEW, COLLECT, TRANSFORM, PUBLISH or GRANT.",
    ),
    "E203": Code(
        "unknown column",
        "The column does not exist in the tables that the query reads. Columns are known from closed column lists, "
        "from queries and from the last run. A column that may exist is not reported. To use a column before it first "
        "arrives, name it in the column list of its COLLECT.",
    ),
    "E204": Code("unexpected token", "The text does not follow the grammar at this place."),
    "E205": Code("unknown clause", "No clause and no column property starts with this word."),
    "E206": Code("misplaced clause", "The clause exists, but this statement does not support it."),
    "E207": Code(
        "duplicate clause",
        "A clause, an option or a type is declared twice. Each can be declared once; only EXPECT can be repeated.",
    ),
    "E208": Code(
        "feature not available yet",
        "The feature is part of the language, but this release does not support it. It is refused, so that it is never "
        "ignored silently.",
    ),
    "E209": Code(
        "syntax of another tool",
        "The statement uses the syntax of another tool. The error shows the Waterclock syntax.",
    ),
    "E210": Code("invalid query", "The text is not a query, or not SQL that Spark accepts."),
    "E211": Code(
        "invalid name",
        "The name cannot be used. Names become folders, columns and tables in other systems, so only letters, digits "
        "and _ are allowed. Reserved names are timelabel, the schema waterclock, the connection project, and names "
        "that start with _. Names of generated companion tables are reserved too, as are names rec_* in a TEMPORAL "
        "table.",
    ),
    "E212": Code(
        "duplicate name",
        "The name is used twice. Tables, views, publishes, columns and rules need unique names. Names that differ only "
        "in case are duplicates.",
    ),
    "E213": Code(
        "unknown table",
        "No statement of the project creates a table or view with this name. Table names have the form schema.name.",
    ),
    "E214": Code(
        "column qualified with a schema",
        "The column is qualified with the schema of its table. Each input replaces its name in the query, so the "
        "schema is not available there. Use the alias or the bare table name: orders.id, not raw.orders.id.",
    ),
    "E215": Code(
        "nondeterministic query",
        "The query can return a different result each time it runs. The same inputs and the same code must give the "
        "same output, so that a batch can be made again. Use WINDOW_END() for the current time, and a hash of a key "
        "for random numbers. A text such as 'now' is also nondeterministic if a time is parsed from it. TABLESAMPLE "
        "depends on how Spark partitions the rows.",
    ),
    "E216": Code(
        "invalid table reference",
        "The reference in FROM is not valid. PAST, UNTIL, HISTORY, PREVIOUS and LATEST take the name of one table or "
        "view. PAST and UNTIL also take their reach, and read only PARTITIONED tables. FROM accepts Spark's table "
        "functions, without a schema, and no other functions.",
    ),
    "E217": Code(
        "unknown variable",
        "The variable is not defined, or its value has the wrong type for this place. :name refers to a value of "
        "[vars] in waterclock.toml.",
    ),
    "E218": Code(
        "adjacent strings",
        "Two strings follow each other without a separator. Some SQL parsers read 'it''s' as one string, others as "
        r"two. Write a quote inside a string as \'.",
    ),
    "E219": Code(
        "unsupported column type",
        "A Delta table cannot store this type. Column types are those of Spark SQL, except INTERVAL, VARIANT, TIME and "
        "collated text. Inside a query these types are allowed.",
    ),
    "E220": Code(
        "invalid expression",
        "The expression is not valid here. An expression in a statement header is TRUE or FALSE for a row or a batch, "
        "and reads no other table.",
    ),
    "E221": Code(
        "unknown connection",
        "No statement declares this connection. Declare it with CREATE CONNECTION. The connection project always "
        "exists.",
    ),
    "E222": Code("unknown connection type", "No installed connector has this type."),
    "E223": Code(
        "invalid option",
        "The option is unknown, has a value of the wrong kind, or is required and missing. Each connector defines its "
        "options.",
    ),
    "E224": Code(
        "operation not supported by the connector",
        "The connector does not support this operation. Each connector defines how its systems can be collected from "
        "and published to. Files, for example, do not support keyed updates.",
    ),
    "E225": Code(
        "unresolved secret",
        "The secret was not found. Waterclock checks the variable WATERCLOCK_SECRET_<NAME>, then the file with its "
        "name in the environment's folder secrets. After that it checks the keyring and Vault, if the environment "
        "configures them. Only secrets of the selected environment are resolved. Two names that map to the same "
        "variable, such as ops/password and ops_password, are refused.",
    ),
    "E226": Code(
        "incompatible type and mode",
        "The type of the table does not support this mode. A PARTITIONED table is APPENDed to, label by label. A "
        "source that is collected as a whole uses REPLACE. A publish must match its table.",
    ),
    "E227": Code(
        "keyed update without a key",
        "MERGE and TEMPORAL find rows by key, and no key is declared. Mark columns as KEY, or write MERGE ON (...). In "
        "a TEMPORAL table, the key and rec_eff_time identify a version.",
    ),
    "E228": Code(
        "missing cadence",
        "The statement needs EVERY or SCHEDULE. Every table that collects data must declare it. A transform inherits "
        "the cadence of its inputs if they have the same one. Otherwise it must declare one, so that a new input never "
        "changes the cadence silently.",
    ),
    "E229": Code(
        "cyclic references",
        "Tables read each other in a cycle. A cycle needs a PREVIOUS and must not contain LATEST. Views must not read "
        "themselves.",
    ),
    "E230": Code(
        "PREVIOUS without declared columns",
        "PREVIOUS reads a table whose columns and types are not declared. Before START it reads an empty table, so "
        "both must be declared.",
    ),
    "E231": Code(
        "rule on a view",
        "A view cannot have rules. It is expanded in place of its name and has no batches. Declare the rule on a "
        "TRANSFORM.",
    ),
    "E232": Code(
        "KEEP VERSIONS too short",
        "KEEP VERSIONS is shorter than a week. It is the time for which older states can be read, and must be at least "
        "a week.",
    ),
    "E233": Code(
        "missing clause", "The statement is incomplete. A required part is missing: FROM, TO, TYPE or the query."
    ),
    "E234": Code(
        "unnamed column",
        "The column has no name. Spark would derive one from the expression, with characters that a table name cannot "
        "contain. Add an alias with AS.",
    ),
    "E235": Code(
        "invalid timeline",
        "The timeline of a TEMPORAL table is not valid. Such a table keeps the versions of each key on one timeline. "
        "AT names an instant that is not part of the key. TRACK and NULLS VALUE name attributes. Columns that order or "
        "delete rows are attributes only if TRACK lists them.",
    ),
    "E236": Code(
        "misplaced UNION ALL BY NAME",
        "UNION ALL BY NAME is only allowed at the top level of a TRANSFORM's query, between queries that Spark can run "
        "separately. Put a WITH, ORDER BY, LIMIT or another UNION of one of these queries into brackets with it.",
    ),
    "E237": Code(
        "invalid FLAT read",
        "FLAT joins all parents that a table refers to by their keys, and these references do not allow it. A parent "
        "has one row per key, or one version per key and time. Read a TEMPORAL parent AT a time, unless the child has "
        "versions of its own. Give each of two references to the same parent a ROLE. Column names must be unique, and "
        "references must not form a cycle.",
    ),
    "E238": Code(
        "invalid function call",
        "The arguments do not match the parameters of this built-in function. Pass them in the documented order or by "
        "name.",
    ),
    "E239": Code(
        "ambiguous column",
        "Several tables in the query have a column with this name, or one table has it twice. Spark accepts neither. "
        "Qualify the column, or rename it.",
    ),
    "E240": Code("invalid TOML", "waterclock.toml is not valid TOML."),
    "E241": Code(
        "unknown key",
        "waterclock.toml contains an unknown key. Unknown keys are errors, so that a misspelled key is never ignored.",
    ),
    "E242": Code("invalid value", "A key of waterclock.toml is missing or has an invalid value."),
    "E243": Code(
        "unknown environment",
        "The project does not define this environment. The environment is taken from --env, then WATERCLOCK_ENV, then "
        "env in [project].",
    ),
    "E244": Code("no project", "There is no waterclock.toml, or none of the files that it lists contains statements."),
    "E245": Code(
        "unknown pool",
        "The pool is not defined. Define it in [pools] with its number of batches. The pool default always exists.",
    ),
    "E246": Code(
        "invalid WHEN condition",
        "The condition depends on values that are not known in advance. WHEN selects the query of a label before the "
        "label runs, and the choice never changes. The condition can use the window, values of the project and "
        "literals. It cannot use rows, other tables or the time of day.",
    ),
    "E247": Code(
        "queries with different columns",
        "The queries of a table return different columns. All queries that WHEN can select must return the same "
        "columns, by name. Types must be the same too, unless they are declared. Readers of the table do not know "
        "which query made a label.",
    ),
    "E248": Code(
        "source without change information",
        "The source cannot report which past windows changed. LOOKBACK ... CHANGED collects only the past windows that "
        "changed, and needs this information. Files and databases provide it. MERGE and TEMPORAL tables always read "
        "the whole LOOKBACK.",
    ),
    "E249": Code(
        "wrong form of CHANGED",
        "The source detects changes in another way. A database needs a column with the time of a row's last change: "
        "CHANGED BY modified_at. Files need no column, because new files show the change: write CHANGED alone.",
    ),
    "E250": Code(
        "Python file failed to load",
        "Loading a Python file runs it, and this one is not valid Python or raised an exception. The error shows the "
        "frames of the project. Declarations after the failure are unknown.",
    ),
    "E251": Code(
        "invalid argument value",
        "The argument does not have the required form. In Python, an argument contains the text of the clause. Flags "
        "are True. Options are a dict of texts, numbers, True, False and wc.secret.",
    ),
    "E252": Code(
        "function not importable",
        "A batch imports a Python function by its file and name, and this function cannot be imported that way. Define "
        "it at the top level of a project file, below the decorator, with a unique name.",
    ),
    "E253": Code(
        "parameter without meaning",
        "The parameter of the Python transform is not one of the supported kinds. A parameter is an input (wc.table "
        "and similar), a value of [vars] (wc.var), or the window. Each is passed by name.",
    ),
    "E260": Code(
        "invalid PARTIAL AFTER",
        "PARTIAL AFTER is not possible here: no input can be missing, or the inputs form a cycle. With PARTIAL AFTER "
        "d, a batch runs d after its window with the inputs that are settled by then. It runs again once the remaining "
        "inputs are settled. Its query calls IS_PARTIAL() to distinguish the two runs.",
    ),
    "E254": Code(
        "unknown SQL type",
        "A parameter or the result of the function has no known SQL type. Annotations define the types for bool, int, "
        "float, str, bytes, date and datetime. Declare all other types with parameters and returns.",
    ),
    **RECEIVER,
    **QUALITY,
    **PUBLISHING,
    **CONNECTIONS,
    **RENAMES,
    **STATE,
    **CLOSINGS,
    **OF_FILES,
    **SCHEMAS,
    **SCHEMAS_KEPT,
    **CLUSTERS,
    **BY_CHANGES,
    **FOR_EACH,
    **WATCHING,
}
TEMPORAL: Mapping[str, Code] = {code: Code(*said) for code, said in REFUSALS.items()}
SELECTION: Mapping[str, Code] = {
    "E501": Code(
        "LATEST without a tick",
        "The table that LATEST reads has no batch yet, so there is no tick to select. LATEST selects its tick at the "
        "first run of a batch and keeps it.",
    ),
    "E510": Code(
        "invalid selection",
        "The text is not a valid selection. Examples are marts.delays, +marts.delays with all upstream tables, "
        "marts.delays+ with all downstream tables, marts.* and tag:word. Each can have @LABELS.",
    ),
    "E511": Code(
        "empty selection",
        "The table, pattern or tag does not exist. A selection without a match is an error, never an empty result. The "
        "error lists the nearest names.",
    ),
    "E512": Code(
        "invalid labels",
        "The text is not a label or a range of labels. Write a label as 20130105050000, 2013-01-05, 20130105, 2013-01, "
        "2013 or 2013-01-05T06:00. A range is two labels with two dots between them.",
    ),
    "E513": Code(
        "no matching label", "No window of the table starts in the requested range. The error lists the nearest labels."
    ),
    "E514": Code("reversed range", "The range of labels ends before it starts. Write the older label first."),
    "E515": Code("selection of several tables", "The command takes one table, and the selection contains several."),
    "E516": Code(
        "batch without history", "The batch was never claimed, so it has no history. `plan` shows the reason."
    ),
    "E517": Code(
        "no such column in the lineage",
        "The table has no such column. Column lineage is requested as schema.table.column. Columns of an open list are "
        "known after the first run.",
    ),
    "E521": Code(
        "tick without content",
        "The table has no content at this tick. It is empty before its first window, and its future content is not "
        "known yet.",
    ),
    "E522": Code(
        "state not made",
        "The table has no complete content at this tick. It needs all its windows up to the tick to be done or "
        "skipped. With an instant of knowledge, they must have been done or skipped by that instant. States of a "
        "REPLACE transform that no table reads are not made automatically; `backfill` makes them. `--partial` answers "
        "without the missing windows, and lists them.",
    ),
    "E523": Code(
        "no consistent tick or instant",
        "There is no tick or instant at which all tables of the query agree. `latest` is the newest tick at which all "
        "of them are settled. After a restatement, until all dependent batches follow, the answer is that of the last "
        "consistent instant. No such instant exists here.",
    ),
    "E524": Code("no such run", "No run has this name. Use a name from the page of runs or from `audit`."),
    "E525": Code(
        "too many batches for a page",
        "The request covers more batches than a page can process. A page must respond in about a second, so it checks "
        "at most a million labels and plans at most ten thousand batches. Select fewer tables or labels, or use the "
        "command line, which has no limit.",
    ),
    "E518": Code(
        "dropped label", "RETAIN dropped this label. Its rows are gone, and it is never made again as if it were empty."
    ),
    "E519": Code(
        "recollect not supported",
        "`recollect` works only for a collect by data time, whose source can be queried for past windows. Data that "
        "arrived does not arrive again, and a live table contains only its current state. Use `recompute` for those: "
        "it reads the stored inputs.",
    ),
}
ENGINE: Mapping[str, Code] = {
    "E701": Code(
        "missing Java", "Spark needs Java 17 or newer, and none was found. Waterclock uses JAVA_HOME, then PATH."
    ),
    "E702": Code(
        "missing jars",
        "One of Delta's jars is missing, or does not match its checksum. The jars are downloaded once, or taken from "
        "the folder in WATERCLOCK_JARS.",
    ),
    "E703": Code(
        "unsupported Java",
        "The Java that was found is older than 17, or does not start. Waterclock uses JAVA_HOME, then PATH.",
    ),
    "E704": Code(
        "Spark failed to start",
        "Spark's JVM did not start; the error shows its last output. Other causes are a folder in the storage that "
        "cannot be created, or a machine without a name for the user. No batch was claimed.",
    ),
    "E705": Code(
        "table without columns",
        "The table is read before its first batch, and its declaration has no types. Its columns are therefore "
        "unknown. Declare them, or wait for the first batch.",
    ),
    "E706": Code(
        "destination in a query",
        "A destination of a PUBLISH cannot be queried, because its rows are in another system. Query the table that it "
        "publishes.",
    ),
    "E707": Code(
        "missing class archive",
        "Java did not write the archive of the classes that it loads at each start of Spark. Runs continue without it, "
        "at the usual start time.",
    ),
    "E711": Code(
        "disk full",
        "A slice could not be written completely. No row of the batch is visible, and the next run makes it again.",
    ),
    "E712": Code("terminated JVM", "Spark's process ended. The run starts a new one and repeats the lost work."),
    "E713": Code(
        "Spark setting managed by Waterclock",
        "The setting cannot be changed. Time zones, timestamp types and the file layout must be the same everywhere, "
        "or rows would differ. Use the separate keys for Spark's master and memory.",
    ),
    "E714": Code(
        "unusable Spark Connect server",
        "The server does not respond, its client is not installed, or its configuration does not fit. It needs Delta, "
        "a JVM in UTC, and the same version of Spark.",
    ),
    **QUALITY_AT_WORK,
    **COPIES,
    **STATE_AT_WORK,
    **SCHEMAS_AT_WORK,
    "E720": Code(
        "exception in project code",
        "A Python function of the project raised an exception. The error shows the frames of the project.",
    ),
    "E721": Code(
        "missing function", "The Python file no longer contains the function that the statement was made from."
    ),
    "E722": Code(
        "function without a DataFrame result",
        "The Python transform did not return a DataFrame. Return the DataFrame that it creates.",
    ),
    **QUERIES,
    "E740": Code(
        "failed expectation",
        "A rule, a key or a NOT NULL failed for the batch. The audit runs before the commit, so no row of this "
        "revision is visible. An earlier revision stays visible. The error lists the failed rules with their counts.",
    ),
    "E750": Code(
        "claim taken over", "The runner's lease expired before its commit, and another runner took the batch over."
    ),
    "E751": Code(
        "foreign commit",
        "Another writer changed the data of a Waterclock table. Its content is no longer known, so its batches stop "
        "until the change is undone.",
    ),
    "E752": Code(
        "damaged batch",
        "A file in the sealed slice of a done batch is missing, truncated or changed. Other batches continue; batches "
        "that need its rows stop. If only the manifest is lost, use `rebuild`. Otherwise use `recollect` or "
        "`recompute`, or `skip` if the rows exist nowhere any more. Each run retries the stopped batches.",
    ),
    "E753": Code(
        "damaged file of a table",
        "A file of the visible table, outside the sealed slices, is missing, truncated or changed. `rebuild` makes the "
        "table again from its stage.",
    ),
    "E754": Code(
        "table log older than the ledger",
        "The ledger has recorded versions that are not in the log of the table. An older copy was restored, the log "
        "was removed, or a `rebuild` was interrupted before the rows were back. The table is neither claimed nor read "
        "until the newer copy is restored or `rebuild` has made it again.",
    ),
    "E758": Code(
        "ledger older than its tables",
        "A table has commits of claims that the ledger does not know. An older copy of the ledger was restored. It "
        "would give outdated answers, and would repeat collects and deliveries. The table is neither claimed nor read "
        "until the newer ledger is restored or `ledger rebuild --force` has made one.",
    ),
    "E790": Code(
        "error in another library",
        "A library raised an error for which Waterclock has no message of its own. The error shows the library's "
        "message and the frames of Waterclock.",
    ),
}
CLI: Mapping[str, Code] = {
    "E901": Code(
        "existing project", "The folder already contains a project. `init` creates new projects and changes no file."
    ),
    "E902": Code(
        "confirmation without a terminal",
        "The command asks for confirmation, and there is no terminal. Pass `--yes` to confirm.",
    ),
    "E903": Code(
        "missing reason",
        "The command needs a reason. `skip` leaves rows out, and `pause` delays work. The reason is the only "
        "explanation that other users will find.",
    ),
    "E904": Code(
        "invalid time for a run",
        "A window can be read only after its end, and `--until` must not be earlier than `--now`. Use `plan --now` to "
        "preview later batches, and `run --watch` to wait for them.",
    ),
    "E905": Code("project folder not writable", "The folder passed to `init` is not writable, or its disk is full."),
    "E906": Code(
        "invalid option, argument or command",
        "An option, an argument or a command is unknown, missing or of the wrong type. `waterclock COMMAND --help` "
        "lists the valid ones.",
    ),
    "E907": Code(
        "unknown image format",
        "The file extension is not supported. The data model can be drawn as .svg, .png or .dot.",
    ),
    "E908": Code(
        "image not created",
        "Images need Graphviz's command dot. It is missing, or it failed. Install Graphviz, or write the model as "
        ".dot, which needs no other program.",
    ),
    "E909": Code(
        "no usable listen address",
        "`ui`, `receive` and `run --watch --listen` need an address that is free and permitted. An address is a port "
        "or host:port; `ui` also accepts unix:/path. `receive` also needs the library of its server.",
    ),
    "E910": Code(
        "unknown part of a page", "The address of `ui` names a page part or a batch action that does not exist."
    ),
    **ALERTS,
    **LINEAGE,
    **WATCHING_COMMANDS,
    **SECRETS,
    **TRUST,
    **WATCHING_BY_WATERMARK,
    "E999": Code(
        "internal error",
        "This is a defect of Waterclock. The details are in the file that the message names. Report the defect with "
        "that file.",
    ),
    **QUALITY_COMMANDS,
}
_BY_LAYER = (TIME, LANGUAGE, TEMPORAL, SPECS, LEDGER, SELECTION, STORAGE, ENGINE, OUTSIDE, CONNECTORS, CLI, WARNINGS)
CODES: Mapping[str, Code] = {code: said for layer in _BY_LAYER for code, said in layer.items()}

__all__ = [
    "CLI", "CODES", "CONNECTORS", "ENGINE", "LANGUAGE", "LEDGER", "OUTSIDE", "SELECTION", "SPECS", "STORAGE",
    "TEMPORAL", "TIME", "WARNINGS", "Code",
]  # fmt: skip
