"""Error codes of the language (DPL), of the project file, and of declarations in Python."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.error_codes.closings import CLOSINGS
from waterclock.error_codes.connectors import BY_CHANGES, CLUSTERS, CONNECTIONS, FOR_EACH, OF_FILES, RECEIVER
from waterclock.error_codes.deadlines_and_lag import WATCHING
from waterclock.error_codes.layout import LAYOUT
from waterclock.error_codes.project_rules import PROJECT_RULES
from waterclock.error_codes.publishing import PUBLISHING
from waterclock.error_codes.quality import QUALITY
from waterclock.error_codes.queries import TEXTS
from waterclock.error_codes.schemas import RENAMES, SCHEMAS, SCHEMAS_KEPT
from waterclock.error_codes.watermarks_and_state import STATE
from waterclock.errors import Code

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
        "A clause, a part of a column, an option or a type is declared twice. Each can be declared once; only EXPECT "
        "and MEASURE can be repeated.",
    ),
    "E208": Code(
        "not supported",
        "This version does not support the form, or this combination of declarations. It is an error, so that no "
        "declaration is ignored silently.",
    ),
    "E209": Code(
        "syntax of another tool",
        "The statement uses the syntax of another tool. The error shows the Waterclock syntax.",
    ),
    "E210": Code("invalid query", "The text is not a query, or not SQL that Spark accepts."),
    "E211": Code(
        "invalid name",
        "The name cannot be used. Names become folders, columns and tables in other systems, so only letters, digits "
        "and _ are allowed, and at most 100 of them; a destination has at most 150 bytes. Reserved names are "
        "timelabel, the schema waterclock, the connection project, and names that start with _. Names of generated "
        "companion tables are reserved too, as are names rec_* in a TEMPORAL table, names of columns that begin with "
        "_waterclock_, and names of functions that Spark or Waterclock has. A PUBLISH cannot use the names of tables "
        "and columns that deliveries use, such as waterclock_*, or those of the database, such as sqlite_*.",
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
        "view. PAST and UNTIL also take their reach, and read only PARTITIONED tables. Around a view they apply to the "
        "tables that it reads without such a word. FROM accepts Spark's table functions, without a schema, and no "
        "other functions.",
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
        "The secret was not found, or its file cannot be read. Waterclock checks the variable "
        "WATERCLOCK_SECRET_<NAME>, then the file with its name in the environment's folder secrets. After that it "
        "checks the keyring and Vault, if the environment configures them. Only secrets of the selected environment "
        "are resolved. Two names that map to the same variable, such as ops/password and ops_password, are refused.",
    ),
    "E226": Code(
        "incompatible type and mode",
        "The type of the table does not support this mode. A PARTITIONED table uses APPEND: each label adds its own "
        "slice. A source that is collected as a whole uses REPLACE. A publish must match its table.",
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
        "themselves, and functions must not call themselves.",
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
        "The arguments do not match the parameters of this function of Waterclock or of CREATE FUNCTION. Pass them in "
        "the documented order or by name. `key_of` also reports a value whose type it cannot encode.",
    ),
    "E239": Code(
        "ambiguous column",
        "Several tables in the query have a column with this name, or one table has it twice. Spark accepts neither. "
        "Qualify the column, or rename it.",
    ),
    "E240": Code("invalid TOML", "waterclock.toml is not valid TOML, or a key or section in it is declared twice."),
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
    "E244": Code(
        "no project",
        "There is no waterclock.toml, it names a file that does not exist, or no file that it lists has statements.",
    ),
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
        "it at the top level of a project file, below the decorator, with a unique name. A function that a loop "
        "declares for several tables cannot use names that the loop changes.",
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
    "E388": Code(
        "invalid limit of ON RESTATE",
        "ON RESTATE RECOMPUTE AT MOST n LABELS ELSE HOLD holds the labels of a table back if more than n of them may "
        "be made again because their inputs were restated. REPORT makes none again, and a COLLECT that reads no table "
        "has no inputs that are restated.",
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
    **LAYOUT,
    **CLUSTERS,
    **BY_CHANGES,
    **FOR_EACH,
    **WATCHING,
    **PROJECT_RULES,
}
