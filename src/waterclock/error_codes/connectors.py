"""Error codes of connectors: those of all sources that are read as logs, and those of single connectors."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

CONNECTIONS: Mapping[str, Code] = {
    "E313": Code(
        "conflicting credentials",
        "The options mix several ways to authorize requests. An API request uses one of them: a token, a key, a user "
        "with a password, or a client with a secret that obtains tokens. A parameter of a request cannot be a secret, "
        "because links to next pages contain it. A receiver does not store a header that contains credentials.",
    ),
    "E314": Code(
        "invalid value of an API option",
        "The value of the option is not valid. Examples are a wrong address, rate or time format, or a number that is "
        "too small.",
    ),
    "E315": Code(
        "inconsistent paging options",
        "The options do not fit the way of paging. Each way has its own: a page number, an offset, or a cursor or link "
        "that the response returns as next. A window needs the parameter for its start.",
    ),
    "E316": Code(
        "invalid APPEND ORDER BY",
        "The clause is not valid here. `APPEND ORDER BY` is only for a PUBLISH to a system that accepts rows one after "
        "the other. `PER` names the columns of the groups that are ordered. Without it, all rows are ordered, and only "
        "one request is sent at a time.",
    ),
}
CLUSTERS: Mapping[str, Code] = {
    "E322": Code(
        "conflicting Kafka login options",
        "The login options do not fit the security of the connection. A user needs `mechanism` and security "
        "sasl_plaintext or sasl_ssl. A certificate needs its key and security ssl or sasl_ssl.",
    ),
    "E323": Code(
        "conflicting topic options",
        "The options do not fit the format. `schema` is only for avro. `raw` has the columns of a Kafka record. `keep "
        "'all'` sends records exactly as they were collected, and adds nothing to them.",
    ),
    "E324": Code(
        "invalid value of a Kafka option",
        "The value of the option is not valid. Examples are a wrong address, or a number that is too small or too "
        "large.",
    ),
}

FOR_EACH: Mapping[str, Code] = {
    "E391": Code(
        "FOR EACH not supported",
        "The type of the connection does not support FOR EACH. FOR EACH sends one request for each row of a table, "
        "such as an API request for the details of an id. Collect a database as a whole or with a query, and join it.",
    ),
    "E392": Code(
        "missing column in a FOR EACH request",
        "The request does not name a valid column of the table of FOR EACH. Write at least one column in braces, in "
        "the path or in a parameter: `path 'users/{user_id}'`. Each one must be a column of that table with a single "
        "value.",
    ),
    "E393": Code(
        "clause not supported with FOR EACH",
        "The clause does not work with FOR EACH. The windows are those of the table of FOR EACH: a response row "
        "belongs to the batch of its request row. Rows are not sorted by a data time, the batch awaits no signal, and "
        "a response contains no history.",
    ),
    "E394": Code(
        "conflicting FOR EACH options",
        "The options of FOR EACH do not fit together. A request for several rows must define how records match them, "
        "and it lists the values of one column. A response that is reused for later labels cannot depend on one "
        "window.",
    ),
}
BY_CHANGES: Mapping[str, Code] = {
    "E325": Code(
        "BY CHANGES not possible here",
        "BY CHANGES reads the changes of each row from the log of a table. It needs MERGE, which keeps the last row of "
        "each key, or TEMPORAL, which keeps all versions. A QUERY has no log.",
    ),
    "E326": Code(
        "ORDER BY with BY CHANGES",
        "Changes of a key are ordered by their commits in the log. ORDER BY would replace this order with that of a "
        "column. Remove it.",
    ),
    "E327": Code(
        "time column missing in deletes",
        "The time of a TEMPORAL table that is collected BY CHANGES cannot come from a column of the rows. For a "
        "deleted row, the log contains only the key and the commit time. Use a column AS (_change.at), or the end of "
        "the window.",
    ),
    "E328": Code(
        "unknown field of _change",
        "The field does not exist, or the collect does not use BY CHANGES. The fields are _change.op (the operation), "
        "_change.at (the commit time), _change.lsn (the log position) and _change.xid (the transaction).",
    ),
    "E329": Code(
        "rule that removes changes",
        "A rule of a collect BY CHANGES must not quarantine or drop changes. The table would differ from its source, "
        "and no later change would correct it. Use WARN, HOLD or FAIL here, and QUARANTINE or DROP in a TRANSFORM of "
        "the table.",
    ),
}
RECEIVER: Mapping[str, Code] = {
    "E398": Code(
        "invalid form",
        "A COLLECT from a connection of type forms declares a table that people edit. It lists all columns, with a KEY "
        "and types that can be entered, has no BY, and is the only collect of its form.",
    ),
    "E330": Code(
        "invalid stream name",
        "The name of the stream is not valid. Senders POST to /connection/stream. The name of a stream can contain "
        "letters, digits, `_` and `-`. A stream has no declaration except its COLLECT.",
    ),
    "E331": Code(
        "events not on a local disk",
        "The folder for events must be on a disk. A request is acknowledged once its events are on disk, and the "
        "receiver and the runner coordinate with file locks. An object store supports neither. The storage and the "
        "archive can be in an object store.",
    ),
    "E332": Code(
        "invalid request size limit",
        "The limit must be at least one byte, and at most the size that Spark reads as one row.",
    ),
}
OF_FILES: Mapping[str, Code] = {
    "E334": Code(
        "format options for copied files",
        "`format 'raw'` collects files unchanged and publishes copies of them, so options for reading or writing a "
        "format do not apply. `keep 'all'` is only for such copies.",
    ),
    "E335": Code(
        "malformed option value",
        "The text of the option does not have the required form. The option `rows` is a path, and `outer` is a list of "
        "paths with names. The option `positions` is a list of fields with their first and last character. The option "
        "`range` is the first and the last cell of a part of a sheet.",
    ),
    "E336": Code(
        "outer without rows",
        "`outer` needs `rows`. `outer` adds values from the enclosing objects of a JSON document to its records, and "
        "`rows` is the path of the records.",
    ),
    "E337": Code(
        "unsupported compression",
        "The format does not support this compression. Files are published as csv, json, parquet, avro or excel, each "
        "with the compressions that its readers support.",
    ),
    "E338": Code(
        "missing option of a file format",
        "An XML document needs `rows`, because it does not define which elements are rows. Lines of fixed width need "
        "`positions`, because they do not define where fields start and end.",
    ),
    "E339": Code(
        "unsupported read or write in a notebook",
        "The notebook cannot read or write here. With wc.read, it reads the current content of a source. With "
        "wc.write, it writes a DataFrame to a destination, outside of the ledger. The destination must not be one that "
        "a PUBLISH of the flow writes, and must support the mode. The environment must publish.",
    ),
}
OF_APIS: Mapping[str, Code] = {
    "E840": Code(
        "unreachable API",
        "The url of the connection does not respond, or refuses the connection. Pages that were read earlier are kept, "
        "and the next run continues with them.",
    ),
    "E841": Code(
        "API busy or failing",
        "The API returned 429 or 5xx, or timed out, for all `tries`. Or it requested a longer wait than `patience` "
        "allows. The next run continues where this one stopped. Use `rate` to stay below the limit of the API.",
    ),
    "E842": Code(
        "invalid API response",
        "The response is truncated, is not JSON, exceeds the size limit of a page, or has no records at `rows`.",
    ),
    "E843": Code(
        "endless paging",
        "The next page was read before, the API returns the same page repeatedly, or the page's address is not below "
        "the url of the connection. No row was taken.",
    ),
    "E844": Code(
        "credentials refused by an API",
        "The API returned 401 or 403, or no token could be obtained. If the secret was changed meanwhile, run again.",
    ),
    "E845": Code(
        "request refused by an API",
        "The API returned a 4xx status, which the same request would get again, or a redirect to another address.",
    ),
    "E846": Code(
        "type mismatch in a record",
        "A value does not fit its declared type. The page with the record is kept unchanged. The error shows the page "
        "and the number of the record.",
    ),
    "E847": Code(
        "rows refused by an API",
        "The API returned a 4xx status for a request with rows. The other rows were delivered and are not sent again. "
        "Fix the table, then `retry` sends the refused rows.",
    ),
    "E848": Code(
        "interrupted delivery",
        "The API accepted some requests of a label, and then failed or became unreachable. The claim stays open, and "
        "the next run sends the remaining rows with the same idempotency keys.",
    ),
    "E849": Code(
        "delivery not resumable",
        "The requests that were sent for this claim are known, but the remaining ones are not. The slice of the claim "
        "is missing or was changed.",
    ),
}
CONNECTORS_AT_WORK: Mapping[str, Code] = {
    "E850": Code(
        "log range owned by another label",
        "Another runner assigned the next range of the log to another label before this claim. The log is checked "
        "again, so that no record is collected twice.",
    ),
    "E851": Code(
        "gap between two labels of a log",
        "Each label owns a range of the log that starts at the end of the preceding label's range. The next range of "
        "the connector leaves records out or repeats some. Nothing was read.",
    ),
    "E852": Code(
        "lost topic records",
        "The brokers deleted records, by retention or by hand, that are not collected yet or that a label was made "
        "from. The error shows the offsets. Records are never skipped, unless the collect allows exactly that.",
    ),
    "E853": Code(
        "replaced or truncated topic",
        "The topic was deleted and created again, or it lost partitions or records that were already read. The error "
        "shows the ids and offsets. Nothing was read.",
    ),
    "E854": Code(
        "unreachable Kafka cluster",
        "No broker responded in time, or a partition has no leader. The work is tried again with the same offsets, or "
        "with the same transaction. Also raised if brokers report offsets that cannot exist.",
    ),
    "E855": Code(
        "request refused by a Kafka cluster",
        "The cluster refused the user, the password, the token or the rights, or a record exceeds its size limit.",
    ),
    "E856": Code(
        "missing or unsuitable topic",
        "The topic does not exist. Or it does not have the partitions, or the rows do not have the columns, that the "
        "options need.",
    ),
    "E857": Code(
        "unreadable Kafka record",
        "The value of a record is not text, not a JSON object or not Avro with its schema, or the schema is not "
        "available. Or `metadata` needs a header key that is not UTF-8, or a timestamp outside of the years 1 to 9999. "
        "The error shows the partition and the offset. Format 'raw' accepts every record. A batch of records whose "
        "checksum or compression is wrong is read again; nothing of it is collected.",
    ),
    "E858": Code(
        "concurrent delivery to the topic",
        "Another runner delivers to the topic under the same name, so Kafka fenced this producer. Records of the "
        "fenced producer are not visible.",
    ),
    "E859": Code(
        "Kafka delivery with unknown outcome",
        "It is not known whether an old claim was delivered. The record of a publish is the offset of a consumer "
        "group, which Kafka forgets after some days without members. For older claims, Waterclock searches the topic "
        "for the header `claim`. Here, records of that time are gone or do not have this header. The claim is not sent "
        "again automatically.",
    ),
    "E864": Code(
        "rejected certificate",
        "The certificate of a Kafka broker is not valid for its authority, time or host name. Or the client "
        "certificate is missing or rejected, or its files cannot be read. Secrets are never shown.",
    ),
}
FOR_EACH_AT_WORK: Mapping[str, Code] = {
    "E868": Code(
        "unexpected response to a batched request",
        "The response to a request for several rows contains a record that matches none of these rows, or does not "
        "show which one it matches. An API that ignores an unknown parameter returns all its records. No row of such a "
        "response is taken.",
    ),
    "E869": Code(
        "row unknown to the source",
        "The source returned 404 for a row of the table of FOR EACH. With `not_found 'skip'` such a row produces no "
        "rows. Responses so far are kept and are not requested again.",
    ),
}
CHANGES: Mapping[str, Code] = {
    "E860": Code(
        "log after the last batch lost",
        "The changes since the last batch are no longer in the log, so they cannot be read. A replication slot keeps "
        "the log of the server until it is collected. The slot was dropped or advanced by another user, or exceeded "
        "max_slot_wal_keep_size. Its publication may have been dropped or altered, or the server was restored and has "
        "another log. With OPTIONS (snapshot), the table is collected once more as a whole.",
    ),
    "E861": Code(
        "server not configured for changes",
        "The server needs wal_level = logical, a free replication slot and a user with REPLICATION. The user also "
        "needs the right to create a publication of the table. Alternatively the server needs wal2json, which newer "
        "servers must trust (output_plugin_libraries). A standby is tried again until it is promoted.",
    ),
    "E862": Code(
        "table not covered by the log",
        "The log contains changes of plain tables, identified by the primary key or, with REPLICA IDENTITY FULL, by "
        "all columns. The KEY of the collect must be among these columns. Inherited tables and rows hidden from the "
        "user are in either the snapshot or the log, but not in both.",
    ),
    "E863": Code(
        "table altered outside its log",
        "The table was altered in a way that the log does not contain. Examples are new columns with values, changed "
        "types or names, columns that were created again, or another table with the same name. The log also has no "
        "changes made while the table had no replica identity, had other table or column names, or was UNLOGGED. "
        "OPTIONS (snapshot) with a new text collects the whole table with the next batch.",
    ),
    "E865": Code(
        "unreadable replication log", "The output plugin of the server sent data that is not one of its messages."
    ),
    "E866": Code(
        "replication slot in use",
        "Another process reads the replication slot, which allows one reader at a time. It is tried again until the "
        "slot is free.",
    ),
    "E867": Code(
        "table emptied during its snapshot",
        "A TRUNCATE or a rewrite of the table happened during its snapshot. A snapshot that started earlier already "
        "sees the table after that change. A new snapshot is taken, so that the snapshot and the log are consistent.",
    ),
}
RECEIVER_AT_WORK: Mapping[str, Code] = {
    "E870": Code(
        "no streams to receive",
        "No table collects from a connection of TYPE receiver. `receive` accepts only the streams of such tables.",
    ),
    "E871": Code(
        "damaged segment of events",
        "A completed segment of received events is damaged: the checksum of one of its frames is wrong. The disk or "
        "another process changed it. Events before the damage were taken, and the segment is kept separately.",
    ),
    "E872": Code(
        "disk failure in the receiver",
        "A sync to disk failed, so the content of the disk is unknown. The waiting senders were requested to send "
        "their events again, and the receiver stopped.",
    ),
    "E873": Code(
        "receiver without a token",
        "The address is reachable from other machines, a connection has no token, and no user has the right send. "
        "Every client that can reach the address could send events. Configure a token for each connection, or declare "
        "a user with the right send.",
    ),
    "E874": Code(
        "event folder not writable",
        "The receiver cannot write to the folder of a stream. It checks this before it listens, so that the problem is "
        "found before the first request.",
    ),
}
MYSQL_AT_WORK: Mapping[str, Code] = {
    "E875": Code(
        "destination without transactions",
        "A table of the destination does not support transactions. The rows of a delivery and its record must be in "
        "the same transaction. A table of MyISAM, Aria or MEMORY keeps its rows when the transaction is rolled back. "
        "The table of a view may be one of these. Use InnoDB for all of them.",
    ),
    "E876": Code(
        "keys equal at the destination",
        "The destination treats two different keys as equal. The type or collation of a column defines equality. For "
        "citext, NOCASE and most collations of MariaDB, case makes no difference. A MERGE would overwrite the row of "
        "one key with the row of the other.",
    ),
}
APIS_AT_WORK: Mapping[str, Code] = {
    "E877": Code(
        "request outside of the API",
        "The address is outside of the connection's url. It was refused because the request contains credentials. An "
        "address must have the scheme, host and port of the url, and a path below its path. A path or a row value such "
        "as `..` leads elsewhere when a server decodes it. Nothing was sent.",
    ),
    "E879": Code(
        "damaged response archive",
        "A stored page of API responses is missing, or the disk or another process changed it. Responses are stored "
        "page by page with checksums. A continued collect and a repeated batch read them, so rows would be missing.",
    ),
}
FILES_AT_WORK: Mapping[str, Code] = {
    "E880": Code(
        "XML that declares entities",
        "The XML document declares its own entities, which data never needs. Entities can grow without limit, or "
        "include local files of the reading machine. The document is refused before it is read.",
    ),
    "E881": Code(
        "zip with unsafe member names",
        "The name of a zip member is absolute, contains a parent folder or is a link. Such a name targets a place "
        "outside of the extraction folder. The zip is refused, although members are never written under their names.",
    ),
    "E882": Code(
        "oversized zip",
        "The zip has too many members, the members exceed `most_mb` in total, or a compression ratio is too high for "
        "real data. It is refused before extraction. Excel files are zips too, and the used range of a sheet "
        "is at most 33,554,432 cells. A workbook is read by a process that may use 3 GiB of memory and 300 seconds of "
        "CPU time. If the machine runs out of memory, this process is killed first.",
    ),
    "E883": Code(
        "zip without readable members",
        "The zip has no matching member, or a member has a password. Or a member has a type that cannot be read from a "
        "zip, such as a nested zip. `member` selects the data members.",
    ),
    "E884": Code(
        "missing part of a workbook",
        "The named sheet is not in the workbook or is empty, or the first row of the range has no column names. Or a "
        "row has a value in an unnamed column, or a formula without its result. `sheet` and `range` select the data.",
    ),
    "E885": Code(
        "merged cells in the data",
        "Several cells of the sheet are merged and share one value. Exclude them with `range`, or use `merged 'fill'`, "
        "which gives the value to each cell.",
    ),
    "E886": Code(
        "file too large for one worker",
        "An Excel or Avro file in a bucket is loaded completely by one worker of Spark, and this file exceeds the "
        "limit.",
    ),
    "E887": Code(
        "no records at the given path", "No document of the file has a value at the path in OPTIONS (rows '...')."
    ),
    "E888": Code(
        "missing file format library",
        "The format needs a library that is an extra of Waterclock. Avro uses fastavro; Excel uses python-calamine to "
        "read and openpyxl to write. The workers of a cluster need them too.",
    ),
    "E889": Code(
        "unsupported rows for a file format",
        "An Excel sheet has at most 1048576 rows, and texts of at most 32767 characters without control characters. "
        "Avro names consist of letters, digits and _. Nothing was delivered.",
    ),
    "E890": Code(
        "too many columns for a table",
        "A column list with * takes each column of its source, and for a receiver each key that a sender invents. A "
        "table takes at most 10000 columns in this way. List the columns to collect, without *.",
    ),
    "E878": Code(
        "forms restored from an older copy",
        "The newest label of the table was made from a batch of changes that the database of the forms does not have, "
        "or has with another time. The database was lost, restored from an older copy, or replaced. A batch would drop "
        "the rows that people entered since, so nothing is read. Restore the newest copy. If it is lost, `waterclock "
        "reset TABLE` makes all labels from the present database; rows of earlier labels can be exported before, and "
        "imported again.",
    ),
    "E891": Code(
        "invalid change of master data",
        "A value is not of the type of its column, a required value or the reason is missing, or a key comes twice. "
        "Nothing was saved. The code is also used for arguments of `edit` that are invalid, and for a file that cannot "
        "be read or written.",
    ),
    "E892": Code(
        "conflicting change of master data",
        "Another person saved the row after it was read. Nothing was saved, so that neither change is lost. Look at "
        "the current row, then save again.",
    ),
    "E893": Code(
        "changed KEY of a form",
        "The rows of a form and their history are stored by its KEY, so it cannot change once there are rows. Restore "
        "the KEY, or import the rows into a new form.",
    ),
    "E894": Code(
        "unknown form, batch, proposal or row",
        "The table is not collected from a form, or the form has no batch of changes or proposal with this number, or "
        "no row with this key. The history of a row shows the batches that changed it.",
    ),
    "E895": Code(
        "stored value of another type",
        "The type of a column has changed since a value of a form was saved, and the value does not fit. Restore the "
        "type, or correct the rows; labels before the correction still have the old value.",
    ),
    "E896": Code(
        "window not over by the clock of the forms",
        "The clock of the database with the forms is behind, so changes of this window may still come. The batch is "
        "tried again.",
    ),
    "E897": Code(
        "publish with another key than its form",
        "A publish to a form inserts its keys, so it needs the key columns of the form, by their names.",
    ),
    "E898": Code(
        "proposal already decided",
        "A proposed change of master data is approved, rejected or withdrawn once. To change the rows again, make a "
        "new change.",
    ),
    "E899": Code(
        "approval by the proposer",
        "The form needs the approval of another person than the one who proposed the change. The proposer can only "
        "withdraw it.",
    ),
}
