"""Collects all error codes with their explanations. The reference of errors is generated from them.

An explanation is one paragraph. The error itself states the fact, the place and the fix.
"""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.error_codes.access import ACCESS
from waterclock.error_codes.alerts import ALERTS
from waterclock.error_codes.branches import BRANCHES
from waterclock.error_codes.deadlines_and_lag import WATCHING_BY_WATERMARK, WATCHING_COMMANDS
from waterclock.error_codes.erasing import ERASING
from waterclock.error_codes.language import LANGUAGE
from waterclock.error_codes.layout import LAYOUT_AT_WORK
from waterclock.error_codes.lineage import LINEAGE
from waterclock.error_codes.project_warnings import WARNINGS
from waterclock.error_codes.publishing import COPIES
from waterclock.error_codes.quality import QUALITY_AT_WORK, QUALITY_COMMANDS
from waterclock.error_codes.queries import QUERIES
from waterclock.error_codes.schemas import SCHEMAS_AT_WORK
from waterclock.error_codes.secret_values import SECRETS
from waterclock.error_codes.sources_and_destinations import CONNECTORS
from waterclock.error_codes.specs import SPECS
from waterclock.error_codes.storage_and_ledger import LEDGER, OUTSIDE, STORAGE
from waterclock.error_codes.trust import TRUST
from waterclock.error_codes.watermarks_and_state import STATE_AT_WORK
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
        "no window starts at this instant", "No window of the cadence starts at this instant: it is inside a window."
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
        "nothing. A PARTIAL AFTER shorter than the DELAY waits for nothing. A RETAIN shorter than a window keeps "
        "nothing.",
    ),
}
TEMPORAL: Mapping[str, Code] = {code: Code(*parts) for code, parts in REFUSALS.items()}
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
        "batch without history",
        "The batch was never claimed, so it has no history, or `diff --why` finds no earlier revision of it. `plan` "
        "shows the reason.",
    ),
    "E517": Code(
        "no such column",
        "The table has no such column. Column lineage is requested as schema.table.column. Columns of an open list are "
        "known after the first run. `diff` takes columns of the compared rows.",
    ),
    "E521": Code(
        "tick without content",
        "The table has no content at this tick. It is empty before its first window, and its future content is not "
        "known yet.",
    ),
    "E522": Code(
        "state not made",
        "The table has no complete content at this tick. It needs all its windows up to the tick to be done or "
        "skipped. With a known-at instant, they must have been done or skipped by that instant. States of a "
        "REPLACE transform that no table reads are not made automatically; `backfill` makes them. `--partial` answers "
        "without the missing windows, and lists them.",
    ),
    "E523": Code(
        "no consistent tick or instant",
        "No instant was found at which all tables of the query are settled and agree. `latest` is the newest tick at "
        "which all of them are settled. After a restatement, until all dependent batches follow, the answer is that of "
        "the last consistent instant.",
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
        "`recollect` works only for a collect by data time, whose source can be queried for past windows. Files "
        "that arrived are not sent again, and a live table contains only its current state. Use `recompute` for those: "
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
    "E712": Code(
        "terminated JVM",
        "Spark's process ended. The run starts a new one and repeats the lost batches, one at a time, so that only "
        "the batch that ends the JVM fails. Such a batch has rows or files that need more memory. The error names the "
        "files that it was reading.",
    ),
    "E713": Code(
        "unusable Spark setting",
        "Waterclock manages the setting: time zones, timestamp types and the file layout must be the same everywhere, "
        "or rows would differ. Use the separate keys for Spark's master and memory. A setting that a JVM takes "
        "from its command line cannot be a secret, since every user of the machine can read command lines.",
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
    **LAYOUT_AT_WORK,
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
    "E925": Code(
        "missing working folder",
        "The folder in which the command was started does not exist any more. A shell stays in a folder that was "
        "deleted or replaced, and names it as before.",
    ),
    **ALERTS,
    **LINEAGE,
    **WATCHING_COMMANDS,
    **WATCHING_BY_WATERMARK,
    "E999": Code(
        "internal error",
        "This is a defect of Waterclock. The details are in the file that the message names. Report the defect with "
        "that file.",
    ),
    **QUALITY_COMMANDS,
}
SECURITY: Mapping[str, Code] = {**SECRETS, **TRUST, **ACCESS, **ERASING, **BRANCHES}
_BY_LAYER = (
    *(TIME, LANGUAGE, TEMPORAL, SPECS, LEDGER, SELECTION, STORAGE, ENGINE, OUTSIDE, CONNECTORS, CLI),
    *(SECURITY, WARNINGS),
)
CODES: Mapping[str, Code] = {code: entry for layer in _BY_LAYER for code, entry in layer.items()}

__all__ = [
    "CLI", "CODES", "CONNECTORS", "ENGINE", "LANGUAGE", "LEDGER", "OUTSIDE", "SECURITY", "SELECTION", "SPECS",
    "STORAGE", "TEMPORAL", "TIME", "WARNINGS", "Code",
]  # fmt: skip
