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
        "A SCHEDULE is compiled once to a window length, a delay and a zone, which one of unequal distances has not.",
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
    "E124": Code(
        "a bound that never acts",
        "A LOOKBACK shorter than a window reads no window again, a KEY PAST of one window looks back at nothing, a MAX "
        "LATENESS of 0 opens nothing, and a PARTIAL AFTER shorter than the DELAY waits for nothing. What was meant is "
        "longer.",
    ),
}
LANGUAGE: Mapping[str, Code] = {
    "E200": Code("errors in the project", "All that is wrong with the project, found together. Nothing of it can run."),
    "E201": Code(
        "unreadable text",
        "A quote, backtick or comment is never closed, or the file is not UTF-8. Reading goes on behind the next "
        "semicolon, so that other errors are reported too.",
    ),
    **TEXTS,
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
        "the schema waterclock, the connection project, names that begin with _, what is made beside a table, and "
        "rec_* in a TEMPORAL table.",
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
        "WINDOW_END(), chance is a hash of a key. A text like 'now' is such a function where a time is read, and a "
        "TABLESAMPLE takes other rows when Spark divides them otherwise.",
    ),
    "E216": Code(
        "an invalid table reference",
        "PAST, UNTIL, HISTORY, PREVIOUS and LATEST stand in FROM around the name of one table or view; PAST and UNTIL "
        "say how far they reach, and read only PARTITIONED tables. Of functions, FROM takes those of Spark that give "
        "rows, without a schema.",
    ),
    "E217": Code(
        "an unknown variable",
        ":name is a value of [vars] in waterclock.toml, and of the type that is wanted at this place.",
    ),
    "E218": Code(
        "two strings touch",
        r"In 'it''s' some readers of SQL see one text, others two. A quote inside of a string is written \'.",
    ),
    "E219": Code(
        "a type that no table stores",
        "Types are Spark SQL's, as far as a Delta table can hold them: not INTERVAL, VARIANT, TIME and collated text. "
        "A query may use them on the way to its columns.",
    ),
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
        "environment's folder secrets, then in the keyring and in Vault, where the environment names them. Only the "
        "chosen environment's are asked for. Names of one variable, ops/password and ops_password, are refused.",
    ),
    "E226": Code(
        "a type and a mode that do not go together",
        "A PARTITIONED table is APPENDed to, label by label. A source taken whole REPLACEs what was there. A publish "
        "follows its table.",
    ),
    "E227": Code(
        "a keyed update without a key",
        "MERGE and TEMPORAL find rows by key: mark columns KEY, or say MERGE ON (...). A version of a TEMPORAL table "
        "is one by its key and rec_eff_time.",
    ),
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
    "E235": Code(
        "a timeline that cannot be",
        "A TEMPORAL table keeps the versions of each key on one timeline: AT names an instant that is no key, TRACK "
        "and NULLS VALUE name attributes. What orders or deletes is an attribute only where TRACK lists it.",
    ),
    "E236": Code(
        "UNION ALL BY NAME in the wrong place",
        "It stands at the top of a TRANSFORM's query, between queries that Spark runs for themselves. What is said of "
        "one of them, a WITH, an ORDER BY, a LIMIT, another UNION, goes into brackets with it.",
    ),
    "E237": Code(
        "a flat read that cannot be",
        "FLAT brings in all parents that a table's columns refer to, by their keys: each has one row for a key, or one "
        "version at a time. A parent that is TEMPORAL is meant AT a time, unless the child has versions of its own; of "
        "two parents alike each has a ROLE; no name is there twice, and no way leads back.",
    ),
    "E238": Code(
        "a function that is called wrongly",
        "A function that Waterclock brings to queries takes what its page says, in that order or by name.",
    ),
    "E239": Code(
        "an ambiguous column",
        "Several tables that a query reads have a column of that name, or one has it twice. Spark takes none of them.",
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
    "E246": Code(
        "a condition that does not choose",
        "WHEN chooses the query that makes a label before the label runs, and for all times: by its window, values of "
        "the project and literals. What rows hold, what other tables hold, and the time of day are not known then.",
    ),
    "E247": Code(
        "queries that are not alike",
        "All queries between which the labels of a table choose give the same columns, by name, and of one type where "
        "none is declared: readers of the table do not see which query made a label.",
    ),
    "E248": Code(
        "a source that cannot tell what changed",
        "LOOKBACK ... CHANGED collects only those past windows again that changed, and asks the source which they are. "
        "Files and databases can tell. MERGE and TEMPORAL tables read the whole LOOKBACK each time.",
    ),
    "E249": Code(
        "a source that tells what changed by other means",
        "A database tells by a column that holds when a row was changed last: CHANGED BY modified_at. Files tell by "
        "what has come since: CHANGED alone.",
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
    "E260": Code(
        "a batch that may lack something",
        "PARTIAL AFTER d makes a batch d after its window of what is settled by then, and again once the rest is. Its "
        "query asks IS_PARTIAL() which of the two it is.",
    ),
    "E254": Code(
        "a SQL type that is not known",
        "A function for queries has a type for each parameter and for what it gives. Annotations say those of bool, "
        "int, float, str, bytes, date and datetime; all others are said in parameters and returns.",
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
        "A label is said as 20130105050000, 2013-01-05, 20130105, 2013-01, 2013 or 2013-01-05T06:00; a range is two of "
        "them with two dots between.",
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
        "A table has a content at a tick once all its windows up to there are made, or skipped; as known then, once "
        "they were by then. Of a REPLACE transform the states that nobody reads are not made; `backfill` makes them. "
        "`--partial` answers without what is missing, and lists it.",
    ),
    "E523": Code(
        "no tick, or no instant, at which all agrees",
        "`latest` is the newest tick at which all tables of the query are settled. While something was restated and "
        "not all has followed, an answer is the one known at the last instant at which all agreed: there was none.",
    ),
    "E524": Code("no such run", "A run has the name that the page of runs lists it by, and that `audit` tells."),
    "E525": Code(
        "more batches than a page takes in",
        "A page answers in about a second: it looks at a million labels, and plans ten thousand batches at most. Fewer "
        "tables or labels are answered there; a command line takes any number.",
    ),
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
    "E703": Code(
        "a Java that does not fit",
        "The Java that was found is older than 17, or does not start. It is found by JAVA_HOME, else on PATH.",
    ),
    "E704": Code(
        "a Spark that does not start",
        "Java was found, and Spark's JVM did not come up: what it said last is given. Or its folder below the storage "
        "cannot be made, or the machine knows no name of the user. No batch was claimed.",
    ),
    "E705": Code(
        "a table without columns",
        "A table is read before its first batch, and its declaration gives no types, so nobody knows its columns.",
    ),
    "E706": Code("a destination is no table", "What is published lies elsewhere. What it is made of can be queried."),
    "E707": Code(
        "no archive of classes",
        "Java did not write down what it loads at each start of Spark. Runs go on without it, and start as they did.",
    ),
    "E711": Code(
        "a full disk",
        "A slice could not be written to its end. Nothing of the batch is visible, and the next run makes it again.",
    ),
    "E712": Code(
        "a JVM that is gone", "Spark's process ended. The run starts another and makes once more what was lost with it."
    ),
    "E713": Code(
        "a setting of Spark that is Waterclock's",
        "Zones, types of times and how files are written are the same everywhere, or rows would not be. Where Spark "
        "runs and what memory it has are keys of their own.",
    ),
    "E714": Code(
        "a Spark Connect server that cannot be used",
        "It does not answer, its client is not installed here, or it was started without what rows need: Delta, and a "
        "JVM in UTC, of the same version.",
    ),
    **QUALITY_AT_WORK,
    **COPIES,
    **STATE_AT_WORK,
    **SCHEMAS_AT_WORK,
    "E720": Code(
        "an error in the project's Python",
        "A function of the project raised something. The frames that are shown are the project's own.",
    ),
    "E721": Code("a function that is gone", "The file no longer has the function that a statement was made from."),
    "E722": Code("a function that gave no DataFrame", "A Python transform returns the DataFrame that it made."),
    **QUERIES,
    "E740": Code(
        "not as expected",
        "A rule, a key or a NOT NULL does not hold for the batch. It was audited before it was committed: nothing of "
        "this revision is visible, and an earlier one stays. The rules that did not hold are named with their counts.",
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
    "E752": Code(
        "a damaged batch",
        "A file of the sealed slice that a done batch is made of is gone, cut off or changed. Others go on; what needs "
        "its rows stops, naming what makes them again: `rebuild` where the manifest alone is lost, `recollect` or "
        "`recompute`, or `skip` where nobody has the rows any more. Each run tries again what was stopped.",
    ),
    "E753": Code(
        "a damaged file of a table",
        "A file that a table shows, and that is none of a sealed slice, is gone, cut off or changed. `rebuild` makes "
        "the table again from its stage.",
    ),
    "E754": Code(
        "a log that is older than the ledger",
        "The ledger has recorded versions that the table's log does not have: an older copy was put back, or the log "
        "was removed; or a `rebuild` that made it anew was broken off before the rows were back. Nothing of the table "
        "is claimed or read until the newer copy is back, or `rebuild` made it anew.",
    ),
    "E758": Code(
        "a ledger that is older than its tables",
        "A table has commits of batches whose claims the ledger does not know: an older copy of it was put back. "
        "Its answers would be those of then, and what was collected and delivered since would be so once more. Nothing "
        "of the table is claimed or read until the newer ledger is back, or `ledger rebuild --force` made one.",
    ),
    "E790": Code(
        "an error of another library",
        "Something failed that has no words of its own yet. The library's are shown, with the frames that are ours.",
    ),
}
CLI: Mapping[str, Code] = {
    "E901": Code("a project is there already", "`init` writes a new project and changes no file."),
    "E902": Code("nobody to answer", "The command asks before it goes on, and no terminal is there. `--yes` answers."),
    "E903": Code(
        "a reason is needed",
        "`skip` leaves rows out, `pause` leaves work lying. The reason is all that others find who look for it.",
    ),
    "E904": Code(
        "a time that cannot be run to",
        "A window is read once it is over. `plan --now` looks ahead, `run --watch` waits; `--until` follows `--now`.",
    ),
    "E905": Code("a project that cannot be written", "The folder given to `init` may not be written, or is full."),
    "E906": Code(
        "an invalid option or variable",
        "An option, an argument or a command is unknown, missing or of another kind. `waterclock COMMAND --help` lists "
        "what there is.",
    ),
    "E907": Code("an unknown kind of drawing", "The data model is drawn as .svg, .png or .dot."),
    "E908": Code(
        "a picture that cannot be made",
        "Pictures are made by Graphviz's command dot, where it is installed. The model as .dot needs nothing.",
    ),
    "E909": Code(
        "no address to listen at",
        "`ui`, `receive` and `run --watch --listen` need an address that is free and allowed: a port, host:port, or "
        "for `ui` unix:/path. `receive` also needs the library of its server.",
    ),
    "E910": Code(
        "what no page has",
        "An address of `ui` names a part of a page, or something to do with batches, that there is not.",
    ),
    **ALERTS,
    **LINEAGE,
    **WATCHING_COMMANDS,
    **SECRETS,
    **TRUST,
    **WATCHING_BY_WATERMARK,
    "E999": Code(
        "a defect of Waterclock",
        "An error that should not be. All that is known of it was written into the file that is named.",
    ),
    **QUALITY_COMMANDS,
}
_BY_LAYER = (TIME, LANGUAGE, TEMPORAL, SPECS, LEDGER, SELECTION, STORAGE, ENGINE, OUTSIDE, CONNECTORS, CLI, WARNINGS)
CODES: Mapping[str, Code] = {code: said for layer in _BY_LAYER for code, said in layer.items()}

__all__ = [
    "CLI", "CODES", "CONNECTORS", "ENGINE", "LANGUAGE", "LEDGER", "OUTSIDE", "SELECTION", "SPECS", "STORAGE",
    "TEMPORAL", "TIME", "WARNINGS", "Code",
]  # fmt: skip
