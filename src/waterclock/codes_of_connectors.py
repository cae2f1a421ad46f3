"""Error codes of connected systems: logs read by position, and each connector's own."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

CONNECTIONS: Mapping[str, Code] = {
    "E313": Code(
        "credentials that do not go together",
        "A request to an API is authorized in one way: by a token, a key, a user with a password, or a client with a "
        "secret for which tokens are had. What is secret is named, `auth.token SECRET 'api'`, and never written. Nor "
        "does a receiver keep a header that says who may send.",
    ),
    "E314": Code(
        "an option that is not understood",
        "The option is known, and what it says is not: an address, a rate, a format of times, a number too small.",
    ),
    "E315": Code(
        "pages that are not asked for so",
        "Each way of paging has its own options: a page a number, an offset a place, a cursor or a link what the "
        "answer names as next. A window needs the parameter of its start.",
    ),
    "E316": Code(
        "an order that is not kept",
        "`APPEND ORDER BY` is said of a PUBLISH to a system that takes rows one after the other. `PER` names the "
        "columns of what is ordered: without it, all rows are, and one request at a time is on its way.",
    ),
}
CLUSTERS: Mapping[str, Code] = {
    "E322": Code(
        "ways to log in to Kafka that do not go together",
        "A user is shown by `mechanism`, with security sasl_plaintext or sasl_ssl; a certificate with its key, with "
        "ssl or sasl_ssl. What is secret is named, `password SECRET 'bus'`, and never written.",
    ),
    "E323": Code(
        "options of a topic that do not go together",
        "Each format has its own options: `schema` is of avro; `raw` has a record's own columns, and `keep 'all'` "
        "sends them as they were collected, and nothing beside them.",
    ),
    "E324": Code(
        "an option for Kafka that is not understood",
        "The option is known, and what it says is not: an address, or a number that is too small or too large.",
    ),
}

FOR_EACH: Mapping[str, Code] = {
    "E391": Code(
        "a source that is not asked for each row",
        "FOR EACH asks a source once for each row of a table, which connections of some types can be: an API is asked "
        "for the details of an id. What a database holds is collected whole, or by a query, and joined.",
    ),
    "E392": Code(
        "a column to ask for that is not there",
        "What is asked for a row of FOR EACH's table is said by its columns in braces, in the path or in a parameter: "
        "`path 'users/{user_id}'`. At least one is named, each is a column of that table, and holds one value.",
    ),
    "E393": Code(
        "FOR EACH and what does not go with it",
        "A collect FOR EACH row of a table has the windows of that table: a row belongs to the batch of the row that "
        "it was asked for. No data time sorts it, no sign is awaited, and an answer tells no history.",
    ),
    "E394": Code(
        "options of FOR EACH that do not go together",
        "A request that asks for several rows needs to know which record answers for which, and lists the values of "
        "one column; an answer that serves later labels cannot be that of one window.",
    ),
}
BY_CHANGES: Mapping[str, Code] = {
    "E325": Code(
        "changes without a place",
        "BY CHANGES takes what became of each row of a table from its log: MERGE keeps the last row of each key, "
        "TEMPORAL all versions. A QUERY has no log.",
    ),
    "E326": Code(
        "another order than the log's",
        "The changes of a key come in the order in which they were committed. ORDER BY would let a column decide that.",
    ),
    "E327": Code(
        "a time that deletes do not have",
        "Of a row that was deleted a log tells the key, and when that was committed. So the time of a TEMPORAL "
        "collected BY CHANGES is a column AS (_change.at), or the window's end.",
    ),
    "E328": Code(
        "what no change tells",
        "_change.op is what a change did, _change.at when it was committed, _change.lsn where in the log, _change.xid "
        "by which transaction. A collect BY CHANGES has these, and nothing else.",
    ),
    "E329": Code(
        "single changes left out",
        "A change that is set aside or dropped leaves the table unlike its source, and no later change tells. Rules of "
        "such a collect WARN, HOLD or FAIL; a TRANSFORM of it may QUARANTINE and DROP.",
    ),
}
RECEIVER: Mapping[str, Code] = {
    "E330": Code(
        "a stream without a name of its own",
        "What senders POST to is /connection/stream: a stream's name has letters, digits, `_` and `-`, and there is "
        "nothing to declare of it but the COLLECT.",
    ),
    "E331": Code(
        "events that are not kept on a disk",
        "Events are answered when they are on disk, and those who write them and who seals them tell each other by "
        "locks of files. An object store has neither: the storage and the archive may lie there.",
    ),
    "E332": Code(
        "a limit on requests that is none",
        "A request holds at least a byte, and no more than Spark reads as one row. The largest one can wait.",
    ),
    "E333": Code(
        "a token that everybody can read",
        "What stands in a project's files is seen by all who see these. A token is named there, as a secret, and kept "
        "elsewhere.",
    ),
}
OF_FILES: Mapping[str, Code] = {
    "E334": Code(
        "options of files that are copied",
        "`format 'raw'` takes files as they are and sends copies of them: nothing says how they are read or written. "
        "`keep 'all'` is said of such copies alone.",
    ),
    "E335": Code(
        "an option of another form",
        "The text of an option is read further: rows is a path, outer a list of paths with names, positions a list of "
        "fields with their first and last character, range the first and the last cell of a part of a sheet.",
    ),
    "E336": Code(
        "an outer without rows",
        "`outer` names what the records of a JSON document take along of what encloses them. Where the records are, "
        "`rows` says.",
    ),
    "E337": Code(
        "a compression that a format has not",
        "Files are published as csv, json, parquet, avro or excel, each with the compressions that its readers know.",
    ),
    "E338": Code(
        "a kind of file that needs an option",
        "An XML document does not say which of its elements are rows, and lines of fixed width do not say where their "
        "fields are: `rows` and `positions` do.",
    ),
    "E339": Code(
        "a read or a write that is not for a notebook",
        "wc.read reads what a source holds now, and wc.write brings a frame to a destination outside of the ledger: "
        "not to what a PUBLISH of the flow writes, not where the environment does not publish, and by the modes that "
        "the destination takes.",
    ),
}
OF_APIS: Mapping[str, Code] = {
    "E840": Code(
        "an API that cannot be reached",
        "Nobody answers at the connection's url, or the connection is refused. What was read before is kept, and the "
        "next run goes on with it.",
    ),
    "E841": Code(
        "an API that is busy or fails",
        "It answered 429 or 5xx, or not in time, as often as `tries` says, or asks to wait longer than `patience`. The "
        "next run goes on where this one stopped; `rate` keeps below what is allowed.",
    ),
    "E842": Code(
        "an answer that cannot be read",
        "It was cut off, is no JSON, is bigger than a page may be, or does not hold the records where `rows` says.",
    ),
    "E843": Code(
        "pages that do not end",
        "An API names a page as the next one that was read before, gives the same one over and over, or names one that "
        "is not below the connection's url. Nothing was taken of it.",
    ),
    "E844": Code(
        "an API that refuses our credentials",
        "It answered 401 or 403, or there is no token to be had. Where the secret was changed meanwhile, run again.",
    ),
    "E845": Code(
        "an API that refuses a request",
        "It answered with a 4xx, which the same request would get again, or sends us elsewhere.",
    ),
    "E846": Code(
        "a record that does not fit",
        "A value is not of the type that is declared. The page that holds it is kept as it came: the error names it, "
        "and the record's number in it.",
    ),
    "E847": Code(
        "rows that an API refuses",
        "It answered with a 4xx to a request that brought rows. The others were delivered and are not sent again: once "
        "the table is mended, `retry` sends what was not accepted.",
    ),
    "E848": Code(
        "a delivery that stopped half-way",
        "Some requests of a label were accepted, and then the API could not be reached or failed. The claim stays "
        "open: the next run sends the rest, with the same idempotency keys.",
    ),
    "E849": Code(
        "a delivery that cannot go on",
        "What was sent of a claim is known, and what was to be sent is not: its slice is gone or was changed.",
    ),
}
CONNECTORS_AT_WORK: Mapping[str, Code] = {
    "E850": Code(
        "a range of a log that another label owns",
        "Between the look at the end of a log and the claim, another runner gave what comes next to another label. The "
        "log is looked at once more, so that nothing is taken twice.",
    ),
    "E851": Code(
        "a gap between two labels of a log",
        "Each label owns a range of the log, which begins where that of the label before ends. What the connector "
        "gives next leaves something out or reads it twice. Nothing was read.",
    ),
    "E852": Code(
        "records of a topic that are gone",
        "The brokers dropped records, by retention or by hand, that no label has read yet, or that a label is made of. "
        "The offsets are named. Nothing is passed over unless the collect says exactly that.",
    ),
    "E853": Code(
        "another topic under the same name",
        "A topic was deleted and made anew, or lost partitions or records that were read already. The ids and offsets "
        "are named. Nothing was read.",
    ),
    "E854": Code(
        "a Kafka cluster that does not answer",
        "No broker was reached in time, or a partition has none that leads it. What was begun is tried again, of the "
        "same offsets or in the same transaction's place.",
    ),
    "E855": Code(
        "a Kafka cluster that refuses",
        "User, password, token or rights are not what the cluster asks for, or a record is larger than it takes.",
    ),
    "E856": Code(
        "a topic that is not there or does not fit",
        "There is no such topic, or it lacks partitions or the rows lack columns that the options ask for.",
    ),
    "E857": Code(
        "a record that cannot be read",
        "A value is no text, no JSON object or no Avro of its schema, or the schema is not to be had. Partition and "
        "offset are named. Format 'raw' takes every record as it is.",
    ),
    "E858": Code(
        "another runner delivers to the topic",
        "Kafka fences a producer when another one begins under its name. Nothing that the older one sent is shown.",
    ),
    "E859": Code(
        "a delivery to Kafka of unknown outcome",
        "The record of a publish is a group's offset, which Kafka forgets after some days without members. A claim "
        "that is older is looked for in the topic itself, by the header `claim`. Where records of that time are gone, "
        "or bear no such header, nobody knows, and it is not sent again by itself.",
    ),
    "E864": Code(
        "a certificate that is not accepted",
        "The certificate of a Kafka broker does not stand (its authority, its time, its host's name), or ours does "
        "not, or is missing; or its files cannot be read. No secret is shown.",
    ),
}
FOR_EACH_AT_WORK: Mapping[str, Code] = {
    "E868": Code(
        "an answer to what was not asked",
        "A request for several rows was answered with a record of none of them, or one that does not tell of which: an "
        "API that does not know a parameter gives all it has. Nothing is taken of such an answer.",
    ),
    "E869": Code(
        "a row that the source does not know",
        "The source answers 404 to what a row of FOR EACH's table names. `not_found 'skip'` says that this is no row; "
        "what was answered so far is kept, and is not asked for again.",
    ),
}
CHANGES: Mapping[str, Code] = {
    "E860": Code(
        "the log behind the last batch is gone",
        "A replication slot keeps the log of the server until it was collected. It was dropped, moved on by somebody, "
        "or had to let go of more than max_slot_wal_keep_size; its publication was dropped or altered; or the server "
        "was restored, and its log is not the one that was read. What happened since the last batch cannot be read any "
        "more; the table is taken whole once more where OPTIONS (snapshot) says so.",
    ),
    "E861": Code(
        "a server that is not set up for changes",
        "It needs wal_level = logical, a free replication slot, a user with REPLICATION, and the right to make a "
        "publication of the table, or wal2json, which newer servers must trust (output_plugin_libraries). A standby is "
        "asked again until it is promoted.",
    ),
    "E862": Code(
        "a table whose changes are not told",
        "The log tells of plain tables, by their primary key or, with REPLICA IDENTITY FULL, by all columns. The KEY "
        "of the collect must be among these. Tables that inherit from it, and rows that are hidden from the user, are "
        "in the snapshot and not in the log, or the other way round.",
    ),
    "E863": Code(
        "a table that was altered beside its log",
        "New columns with values, other types and names, columns made anew, or another table of the same name change "
        "rows of which the log does not tell. Nor does it tell of rows that were changed while the table had no "
        "identity, had another name or columns of other names, or was UNLOGGED. OPTIONS (snapshot) with a new text "
        "takes the table whole with the next batch.",
    ),
    "E865": Code(
        "a log that cannot be read", "The server's output plugin wrote something that is none of its messages."
    ),
    "E866": Code(
        "a slot that is being read", "A replication slot has one reader at a time: it is tried again until it is free."
    ),
    "E867": Code(
        "a table that was emptied under its snapshot",
        "A snapshot that was taken before a TRUNCATE, or before a table was rewritten, sees the table as it is after "
        "it. So that the snapshot and the log do not contradict each other, it is taken anew.",
    ),
}
RECEIVER_AT_WORK: Mapping[str, Code] = {
    "E870": Code(
        "no events to receive",
        "`receive` takes the streams that tables collect from, by connections of TYPE receiver. There are none.",
    ),
    "E871": Code(
        "a segment that was whole and is damaged",
        "What was received lies in frames with checksums. One of them does not add up in a segment that its writer had "
        "ended: the disk, or somebody, changed it. What stands before it was taken; the segment is kept beside.",
    ),
    "E872": Code(
        "a disk that failed under events",
        "After a failed sync nobody can tell what the disk holds: those whose requests waited were told to send them "
        "again, and the receiver ended.",
    ),
    "E873": Code(
        "a door that is open to everybody",
        "Who can reach the address could send events. Beyond this machine each connection has a token.",
    ),
    "E874": Code(
        "a folder of events that cannot be written",
        "Before it listens, the receiver writes to the folder of each stream, so that it is not the first sender who "
        "finds out.",
    ),
}
MYSQL_AT_WORK: Mapping[str, Code] = {
    "E875": Code(
        "a destination whose changes are not undone",
        "The rows of a delivery and its record share a transaction. A table of MyISAM, Aria or MEMORY keeps what was "
        "written to it when the transaction is undone, and what stands behind a view may be one. InnoDB holds all "
        "together.",
    ),
    "E876": Code(
        "two keys that a destination takes for one",
        "The type or the collation of a column says which texts are equal: to citext, to NOCASE and to most collations "
        "of MariaDB capitals make no difference. A MERGE would put one row in place of another key's.",
    ),
}
APIS_AT_WORK: Mapping[str, Code] = {
    "E877": Code(
        "a request that would leave its API",
        "A request goes to the scheme, host and port of the connection's url and below its path, as the credentials go "
        "along. A value of a row, such as `..`, or a path leads elsewhere once a server decodes it. Nothing was sent.",
    ),
    "E879": Code(
        "an answer that is not kept as it came",
        "What an API answered is kept page by page with its checksum, and a collect that goes on, or a batch that is "
        "made again, reads it from there. A page is gone, or the disk or somebody changed it: its rows would be "
        "missing.",
    ),
}
FILES_AT_WORK: Mapping[str, Code] = {
    "E880": Code(
        "XML that declares entities",
        "An XML document with entities of its own can grow without bounds as it is read, or bring in files of the "
        "machine that reads it. It is refused before anything of it is read; data need none.",
    ),
    "E881": Code(
        "a zip that leads elsewhere",
        "A member of a zip bears a name that is absolute, goes up, or is a link: made to be written outside of where "
        "it is unpacked. The zip is refused; members are never written by their names anyway.",
    ),
    "E882": Code(
        "a zip that would grow too large",
        "The members of a zip have more bytes together than `most_mb` allows, one is packed more densely than data "
        "are, or there are too many. It is refused before it is unpacked. Excel's files are zips as well.",
    ),
    "E883": Code(
        "a zip whose members cannot be read",
        "A zip has no member that is wanted, one with a password, or one of a kind that is not read from a zip, such "
        "as a zip within it. `member` says which of them are data.",
    ),
    "E884": Code(
        "a part of a workbook that is not there",
        "The sheet that is named is not in the workbook, it is empty, or the first row of what is read holds no names; "
        "or a row holds a value in a column without a name, or a formula without its value. `sheet` and `range` say "
        "what is data.",
    ),
    "E885": Code(
        "merged cells among the data",
        "One value stands for several cells of a sheet. A `range` leaves them out; with `merged 'fill'` each of the "
        "cells has the value.",
    ),
    "E886": Code(
        "a file too large to be read whole",
        "Excel's and Avro's files of a bucket are brought whole to one of Spark's workers, which bounds their size.",
    ),
    "E887": Code(
        "no records where they are said to be",
        "None of the documents of a file holds anything at the path that OPTIONS (rows '...') says.",
    ),
    "E888": Code(
        "a kind of file that needs a library",
        "Avro is read and written by fastavro, Excel read by python-calamine and written by openpyxl: extras of "
        "Waterclock, which the machines of a cluster's workers need too.",
    ),
    "E889": Code(
        "rows that a kind of file cannot hold",
        "A sheet of Excel holds 1048576 rows and texts of 32767 signs, none of them control characters; Avro's names "
        "are letters, digits and _. Nothing was delivered.",
    ),
}
