# noqa: INP001 - a script
"""Generate the reference pages and drawings from the code.

python docs/generate.py            write all pages
python docs/generate.py --check    write nothing; exit with 1 if a page is not up to date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import drawings
import typer

from waterclock.cli.app import COMMANDS, app
from waterclock.cli.exit_codes import OF_ALL_COMMANDS
from waterclock.connectors.duckdb.connector import CAPABILITIES as DUCKDB
from waterclock.connectors.files.connector import CAPABILITIES as FILES
from waterclock.connectors.firebird.connector import CAPABILITIES as FIREBIRD
from waterclock.connectors.forms.connector import CAPABILITIES as FORMS
from waterclock.connectors.kafka.connector import CAPABILITIES as KAFKA
from waterclock.connectors.keys.connector import CAPABILITIES as KEYS
from waterclock.connectors.mysql.connector import CAPABILITIES as MYSQL
from waterclock.connectors.postgres.connector import CAPABILITIES as POSTGRES
from waterclock.connectors.receiver.connector import CAPABILITIES as RECEIVER
from waterclock.connectors.rest.connector import CAPABILITIES as REST
from waterclock.connectors.sqlite.connector import CAPABILITIES as SQLITE
from waterclock.connectors.waterclock.connector import CAPABILITIES as WATERCLOCK
from waterclock.dpl.syntax.clause_table import DEFINITIONS
from waterclock.dpl.syntax.statements import StatementKind
from waterclock.error_codes import catalog
from waterclock.flow.capabilities import Capabilities, Option
from waterclock.json_models.commands import ANSWERS
from waterclock.json_models.parts import Answer, ErrorAnswer
from waterclock.json_models.version import JSON_VERSION
from waterclock.operations import rule_database, rule_relations
from waterclock.ui.openapi import PARAMETERS, describe_api

DOCS = Path(__file__).resolve().parent
MADE = "*Generated from the code by `python docs/generate.py`.*"
LAYERS: Mapping[str, Mapping[str, catalog.Code]] = {
    "Time": catalog.TIME,
    "Language and project": catalog.LANGUAGE,
    "Temporal tables": catalog.TEMPORAL,
    "Specifications": catalog.SPECS,
    "Ledger": catalog.LEDGER,
    "Selections and questions": catalog.SELECTION,
    "Storage": catalog.STORAGE,
    "Running": catalog.ENGINE,
    "Files and parts for others": catalog.OUTSIDE,
    "Connectors": catalog.CONNECTORS,
    "Commands": catalog.CLI,
    "Security": catalog.SECURITY,
    "Warnings": catalog.WARNINGS,
}
PAGES_OF_CODES = {
    "E225": "[secrets](../howto/keep-secrets.md)",
    "E279": "[the check of queries](../explain/security-model.md#queries)",
    "E333": "[secrets](../howto/keep-secrets.md)",
    "E733": "[the check of queries](../explain/security-model.md#queries)",
    "E734": "[sources](../explain/security-model.md#sources)",
    "E873": "[accept other machines](../howto/receive-events.md#accept-other-machines)",
    "E877": "[sources](../explain/security-model.md#sources)",
    "E735": "[encrypt and decrypt](../howto/mask-and-encrypt.md#encrypt-and-decrypt)",
    "E736": "[encrypt and decrypt](../howto/mask-and-encrypt.md#encrypt-and-decrypt)",
    "E920": "[secrets](../howto/keep-secrets.md)",
    "E921": "[secrets](../howto/keep-secrets.md)",
    "E923": "[tokens](../explain/security-model.md#tokens-and-sessions)",
    "E924": "[make a key](../howto/mask-and-encrypt.md#make-a-key)",
    "E930": "[shared projects](../howto/share-a-project.md#a-project-that-another-user-can-change)",
    "E999": "[what the report contains](../explain/security-model.md#data-that-leaves)",
}
NOTES = {
    "keys": """\
Functions such as `hash_keyed` and `encrypt` take their keys from it. Nothing is collected from it or published to it.
The name of a key has letters, digits, underscores and hyphens. See
[mask, hash and encrypt columns](../howto/mask-and-encrypt.md).""",
    "files": """\
A unit is `supplier.source` or a glob. Both are relative to the connection's `path`:

- `landing.faa.flights` means the files `faa/flights/faa_flights_<YYYY_MM_DD_HH_MM_SS>.<ext>`, optionally in date
  subfolders (`2017/08`, `year=2017/month=08`). Any other file there is misnamed.
- ``landing.`web/click/*.json.gz` `` is a glob. `**` matches across folders. Unless the option `stamp` declares
  another form, the stamp in a name is the file's arrival time (`2017_08_18_05_33_44`, `20170818053344`,
  `20170818T053344`). Without a stamp in the name, it is the time of the last change.

The file's extension determines the format:

| Extension | Condition |
|---|---|
| `csv`, `tsv`, `json`, `jsonl`, `ndjson`, `parquet`, `xml` | also with `.gz`, `.bz2` or `.zst`, if the format has it |
| `txt`, `dat`, `fwf` | only if `positions` are declared; also compressed, as above |
| `avro` | needs `pip install '.[avro]'` |
| `xlsx`, `xlsm`, `xlsb`, `xls`, `ods` | need `pip install '.[excel]'` |
| `zip` | contains files of one of these formats |

Names that begin with `.` or `_` are ignored. The following files are not collected. They stay in their place and are
reported:

- misnamed files
- half-written files: names that end like a download in progress (`.part`, `.tmp`, ...), and incomplete files
- damaged files
- links

**Clock.** The stamp is the *last second that the file covers*. The folder's clock is the newest stamp of a complete
file plus one second. A window is read once this clock has reached the window's end. A snapshot reads the files of the
newest stamp that is not later than the run's now.

**Archive.** After the commit, collected files are moved to the archive. It mirrors the landing folder, and its files
are never overwritten.

**Values.**

- Columns are matched by name, not by position.
- A column of a CSV file, a sheet or a fixed-width file is text unless it has a declared type.
- A broken row stops its batch. The error names the file and the line.
- A number with more decimal places than its type also stops the batch, unless the additional digits are zeros.
- So does a number with commas, unless `decimal` or `thousands` declares them.
- So does a date or time that begins with a time of day (`12:30`), or with a year of other than four digits (`202311`).
- No number is rounded, except those of FLOAT and DOUBLE columns of Parquet and Avro files.
- In CSV, a quote within quotes is doubled, and a backslash has no special meaning (RFC 4180). Declare `escape '\\\\'`
  for files that contain `\\"` instead.
- A text column of JSON contains the value as it is written in the file. This includes numbers and nested values.

JSON text differs from the file in two cases: records at `rows`, and files with an encoding other than UTF-8. Numbers
then keep their value, but not their notation. Beyond 15 digits, the value is exact only if the number has no
exponent. Keys of nested objects are sorted alphabetically if the record has a number with more than 15 digits, or if
the file is not UTF-8.

**Safety.** Files that could harm the system that reads them are refused:

| Refused | Error |
|---|---|
| XML that declares entities | E880 |
| a zip with members that would be written outside of the target folder | E881 |
| a zip or workbook that would be too large when unpacked | E882 |
| a workbook whose zip shows programs different members | E807 |
| an Avro header, block or record that is too large for memory | E807 |

Zips are unpacked into a folder below the archive while they are read. Spark's Python workers read Avro and Excel. If
such a file is in a bucket, it is loaded as a whole and may have up to 512 MB (E886).

**Publishing** writes one file per label, `<unit>/<unit>_<label>.<ext>`. A regular table
by REPLACE has only one file, `<unit>/<unit>.<ext>`. A file is written next to its final place, flushed and renamed, so
that no reader sees a part of it.

In CSV, NULL is an empty field, and an empty text is `""`. In a file of one column NULL is `""` too, because readers
skip blank lines.

An Excel file has one sheet, `data`. A text in it is never a formula. Instants are in UTC. A number with more than 15
digits is written as text. XML cannot be published.

**Raw files.** `format 'raw'` collects files with any extension, unchanged. Each file is a row with the columns
`name`, `stamp`, `changed`, `size` and `sha256`. The file's bytes are in the archive. A PUBLISH with `format 'raw'`
copies these files below its unit, under their names. The files of a label are copied in the order in which they
arrived. The record of the delivery contains their checksums
([replicate](../howto/replicate.md#copy-files-byte-for-byte)).

**Object stores.**

- A listing returns a thousand files per request, with sizes and times.
- A file is read in byte ranges.
- The store itself moves a file within a bucket.
- Where another file may exist, a file is written only if there is none (put if absent).
- `path` and `archive` may each be a folder or a URL, of one bucket or of two.
- A bucket has one configuration in the whole project, also for the storage (E223).
- A listing includes other files below the same URL. Use a separate folder for landing files.
- If the name of an archived file contains no stamp, an empty object `.<name>.<time>.arrived` next to it records when
  the file arrived.""",
    "sqlite": """\
A unit is a table, a view or a query: `FROM ops QUERY 'SELECT ...'`.

- A window contains the rows with `t >= start AND t < end`. A batch reads its windows in one read transaction.
- A snapshot contains all rows, read in one transaction.
- Times may be ISO 8601 text, or numbers since 1970.
- A declared type applies. Columns without one get a type from the database column's type, by SQLite's affinity rules.
- A value that does not fit its type stops the batch (E812). A REAL is rounded to the decimal places of a DECIMAL
  column; a text is not.

**Publishing** writes the rows and a record in `waterclock_deliveries` in one transaction of the destination. A claim
that has a record is not delivered again.

| Mode | Effect at the destination |
|---|---|
| REPLACE | the rows of the table are replaced |
| MERGE | deleted keys are deleted, and all other rows are inserted or replaced by their key |
| APPEND, and any mode of a PARTITIONED table | the rows of a label replace only the earlier rows of that label |

In the last case the destination has a column `timelabel`.

The first delivery creates a missing table. In an existing table,
[a value that its column cannot store](../howto/publish.md#values-that-a-column-cannot-store) is refused (E812).""",
    "duckdb": """\
It needs a driver: `pip install '.[duckdb]'`, also on a cluster's workers.

A unit is a table, a view or a query. A table in a schema other than `main` is named with its schema.

- Either one process writes to a file, or several processes read it. A batch waits up to `timeout` seconds for another
  process, and is then retried (E811).
- A batch reads all its rows in one transaction.
- If there are more than 50,000 rows or 64 MB, one of Spark's workers reads them. The file stays open until they are
  read.
- A window contains the rows with `t >= start AND t < end`. The time column is a timestamp, a date, or an integer that
  counts from 1970.

**Types.** A declared type applies. Columns without one are read as follows. A value that does not fit its type stops
the batch (E812).

| DuckDB | Type |
|---|---|
| unsigned integers | a wider type |
| HUGEINT | DECIMAL(38,0) |
| TIMESTAMP without a zone | TIMESTAMP, read in the zone of the cadence |
| lists, structs and maps of plain values | nested types |
| other lists, structs and maps | STRING, as JSON |
| UUID, ENUM, TIME, JSON | STRING |
| INTERVAL, UNION, TIMESTAMP_NS | refused, unless a type is declared |

Waterclock downloads no DuckDB extensions.

**Publishing** writes the rows as Arrow data and a record in `waterclock_deliveries` in one transaction. The modes are
those of [sqlite](#sqlite). Columns that Waterclock creates have the DuckDB types that correspond to Spark's types.
Nested values are stored as JSON. An existing table keeps its types, and its list columns store arrays as lists.
[A value that a column cannot store](../howto/publish.md#values-that-a-column-cannot-store) is refused (E812).""",
    "postgres": """\
It needs a driver: `pip install '.[postgres]'`, also on a cluster's workers.

A unit is a table, a view or a query. A table may be named with its schema: `FROM ops.planes` or
`FROM ops.fleet.planes`. The source's clock is the server's clock.

A window contains the rows with `t >= start AND t < end`. The condition can use an index on the time column. This
column is a timestamp, a date (midnight of its day), or an integer that counts from 1970. It cannot be a text, because
no index would find its rows (E815). A QUERY can cast the text.

A batch reads all its rows as of one moment:

- If there are more than 50,000 rows or 64 MB, Spark's workers read them in parallel parts.
- There is one part for each 500,000 rows that the server expects, up to 64 parts, unless `partitions` declares the
  number.
- All workers use the snapshot of the first transaction.
- For windows, the parts are spans of time. For a table, they are ranges of its blocks.
- A view or a query without windows is one part.

**Types.** A declared type applies. Columns without one are read as follows:

| PostgreSQL | Type |
|---|---|
| `numeric(p,s)` | DECIMAL |
| `timestamptz` | TIMESTAMP |
| `timestamp` | TIMESTAMP, read in the zone of the cadence |
| `bytea` | BINARY |
| `json`, `jsonb`, `uuid`, enums, `time`, `inet` and similar types | STRING |
| arrays of integers, floats, booleans and the types of the row above, except `json` and `jsonb` | ARRAY |
| `numeric` without a precision, `money`, intervals, ranges, geometry, other arrays | refused |

A column of a refused type needs a declared type. STRING reads any of them as its text.

A value that does not fit its type stops the batch (E812). No value is rounded, truncated or left out without a
report, except for zeros at the end of a fraction. FLOAT and DOUBLE contain the nearest number that they can
represent, from every source.

**BY CHANGES** follows a plain table with a replication slot. Each collect has its own slot.

- The slot's name is recorded in the ledger before the slot is created.
- The first batch reads all rows as of the start of the slot. So does the first batch after the text of `snapshot`
  changes.
- Each later batch reads the changes committed since, up to the end of the log or of the window. It reads without
  consuming them, and advances the slot after the commit.
- pgoutput decodes the log, with a publication that has the slot's name. If pgoutput cannot be used, wal2json does.
- NULL is a value, also in a TEMPORAL table.

See [replicate a database](../howto/replicate-a-database.md).

**Publishing** writes the rows by COPY and a record in `waterclock_deliveries` in one transaction. The modes are those
of [sqlite](#sqlite).

- REPLACE deletes and copies in one transaction. A reader sees either the old rows or the new ones, never an empty
  table. Grants, views and keys are kept. The server's autovacuum removes the deleted rows.
- An existing table keeps its types and columns.
  [A value that its column cannot store](../howto/publish.md#values-that-a-column-cannot-store) is refused (E812).
- Columns that Waterclock creates have types such as NUMERIC, TIMESTAMPTZ, BYTEA and arrays. Other nested values are
  JSONB.
- A name has at most 63 bytes.
- A runner that takes over a claim ends the connection that still works on it. Therefore all runners connect as one
  user.""",
    "mysql": """\
It needs a driver: `pip install '.[mysql]'`, also on a cluster's workers. It supports MariaDB and MySQL; its tests run
on MariaDB.

A unit is a table, a view or a query. A table in another database than the connection's is named with its database.
The source's clock is the server's clock.

A window contains the rows with `t >= start AND t < end`. The condition can use an index on the time column. This
column is a TIMESTAMP, a DATETIME or DATE (read in the zone of the cadence), or an integer that counts from 1970. The
time zone of the session is UTC, so a TIMESTAMP is read as the instant that it represents.

A batch reads in one transaction, WITH CONSISTENT SNAPSHOT. All rows of InnoDB tables are as of one moment. For MyISAM
tables, this holds only for each statement. Rows are read through an unbuffered cursor. If there are more than 50,000
rows or 64 MB, one of Spark's workers reads them in its own transaction.

With `partitions`, several workers read in parallel:

- For windows, the parts are spans of time. For a table whose primary key is one integer column, they are ranges of
  this key. Otherwise there is one part.
- These servers cannot share a transaction's snapshot with other connections. Therefore the server first computes a
  checksum of each part, from a hash of each row. It computes the checksum again in the transaction that reads the
  part. If the two differ, the batch stops and is retried (E814).

**Types.** A declared type applies. Columns without one are read as follows:

| MariaDB, MySQL | Type |
|---|---|
| unsigned integers | a wider type; BIGINT UNSIGNED is DECIMAL(20,0) |
| BIT(1) | BOOLEAN |
| other BIT types | integers |
| TINYINT(1) | TINYINT, unless BOOLEAN is declared |
| BLOB, BINARY | BINARY |
| JSON, ENUM, SET, TIME, UUID, texts of any character set | STRING |
| DECIMAL with more than 38 digits, geometry | refused, unless a type is declared |

A value that does not fit its type stops the batch (E812). This includes 0000-00-00: declare the column STRING, or
convert the value to NULL in a QUERY. Rows whose data time is NULL or 0000-00-00 are left out and counted.

**Publishing** writes the rows by INSERT and a record in `waterclock_deliveries` in one transaction. The session uses
a strict SQL mode, whatever the server's default is. The modes are those of [sqlite](#sqlite).

- The table must use InnoDB (E875).
- CREATE, ALTER and DROP commit a transaction in these databases. So the table is created or altered before the
  transaction starts. A delivery that fails may leave an empty table, or new columns that are NULL.
- Behind a view, the view is switched after the rows and the record are committed. If the runner stops before that,
  the runner that takes over the claim switches it.
- A value that the server would round or truncate is refused (E812), even if the server would only report a note.
- Two keys that the column's collation treats as equal are refused (E876).
- Columns that Waterclock creates use utf8mb4. Instants are DATETIME(6) in UTC, nested values are JSON, and texts are
  LONGTEXT. Texts in a key are VARCHAR(255), or shorter if several of them must fit into one index. Their collation
  distinguishes all characters.
- A runner that takes over a claim ends the connection that still works on it. Therefore all runners connect as one
  user. Besides the rights to read and write rows, this user needs CREATE, ALTER, INDEX, DROP, CREATE TEMPORARY
  TABLES, and CREATE VIEW if there are views.""",
    "firebird": """\
It needs a driver, `pip install '.[firebird]'`, and Firebird's client library (`libfbclient2` in Debian), both also on a
cluster's workers. Its tests run on Firebird 3 and 4.

The url is `firebird://user@host:3050/alias`, with an alias of the server's `databases.conf`. A path needs a second
slash: `firebird://user@host//data/ops.fdb`. The login uses SRP, which does not reveal the password.

A unit is a table, a view or a query. As in Firebird, a name in lower case means the name in upper case: `ops.orders` is
the table `ORDERS`, and its column `AMOUNT` becomes `amount`. Names with capitals and small letters are kept. A column
that was created in quotes in lower case is refused (E813).

A window contains the rows with `t >= start AND t < end`. The condition can use an index on the time column. This column
is a TIMESTAMP or DATE (read in the zone of the cadence), or an integer that counts from 1970. `:window_start` and
`:window_end` in an `AWAIT QUERY` are times in that zone. A server of version 3 does not report its time in UTC, so the
source's clock is the machine's.

A batch reads in one SNAPSHOT transaction, as of one moment. If there are more than 50,000 rows or 64 MB, one of Spark's
workers reads them in its own transaction.

**Types.** A declared type applies. Columns without one are read as follows. A value that does not fit its type stops
the batch (E812).

| Firebird | Type |
|---|---|
| NUMERIC, DECIMAL | DECIMAL(4), (9) or (18) with its scale, by its storage |
| TIMESTAMP | TIMESTAMP, read in the zone of the cadence |
| BLOB SUB_TYPE TEXT, CHAR with its trailing blanks, VARCHAR, TIME | STRING |
| other BLOBs, character set OCTETS | BINARY |
| arrays, and types of Firebird 4 and later: INT128, DECFLOAT, times with a zone | refused, unless declared as STRING |

A text whose column has no character set must be UTF-8 (E812). A QUERY can cast it.

**Publishing** writes the rows and a record in `waterclock_deliveries` in one transaction. The modes are those of
[sqlite](#sqlite).

- A table that a transaction creates cannot be used in it. So the table is created or altered before. A delivery that
  fails may leave an empty table, or new columns that are NULL. Behind a view, the view is switched after the commit.
- A TIMESTAMP has four digits of a second. An instant with more is refused, like every
  [value that a column cannot store](../howto/publish.md#values-that-a-column-cannot-store) (E812).
- Two keys that Firebird treats as equal are refused (E876). It ignores trailing blanks.
- Columns that Waterclock creates have types such as NUMERIC (up to 18 digits), TIMESTAMP (instants in UTC) and BOOLEAN.
  Other values, such as texts and JSON, are BLOB SUB_TYPE TEXT, which are read one by one. For quick reads, create the
  table with VARCHAR columns. Texts in a key are VARCHAR(240), or shorter if there are several.
- A MERGE stages its rows in a global temporary table `waterclock_<hash>_0`, which remains.
- A view of labels has at most 255 of them, as in any query of Firebird 3.
- Names have at most 31 bytes in version 3, also those of the tables behind a view (E813).
- A runner that takes over a claim ends the connection that still works on it. Therefore all runners connect as one
  user. Besides the rights to read and write rows, it needs those to create and alter tables, indexes and views.""",
    "kafka": """\
It needs a client: `pip install '.[kafka]'`, also on a cluster's workers.

A unit is a topic. Each label owns a range of offsets per partition, which is recorded with its claim. The range ends
at the last stable offset at that moment, so uncommitted records are never read.

| `format` of a COLLECT | Columns |
|---|---|
| `raw` | `key`, `value`, `headers`, `partition`, `offset`, `timestamp`, `timestamp_type` |
| `text` | `value` |
| `json` | the fields of the object; text unless they have a declared type |
| `avro` | the fields of the schema |

In `raw`, `headers` is an `ARRAY<STRUCT<key, value>>`, and `timestamp_type` is `create` or `append`. `metadata` adds
the columns `kafka_key`, `kafka_headers`, `kafka_partition`, `kafka_offset`, `kafka_timestamp` and
`kafka_timestamp_type`. A tombstone is a row whose value is NULL, or whose fields are all NULL.

In `raw`, a timestamp outside of the years 1 to 9999 is NULL. So are the headers of a record if one of their keys is not
UTF-8. With `metadata`, such a record is E857. Other formats do not read headers and timestamps.

**Publishing** delivers a claim in one transaction, which also contains the record of the delivery.

| `format` of a PUBLISH | Value of a message |
|---|---|
| `json` | a JSON object of all columns that are not in `headers` |
| `text` | the only column that is not in the key or the headers |
| `raw` | the column `value`; the columns `key` and, if it exists, `headers` are sent as key and headers |

With `ends`, each partition gets a message where a label ends. Secrets are referenced by name and are never written
into the project (`E322`). See [collect from Kafka, and publish to it](../howto/collect-kafka.md).""",
    "rest": """\
It needs a library: `pip install '.[rest]'`. Secrets are referenced by name and are never written into the project
(`E313`). The options for pages on the connection apply to all its units. A COLLECT can override them.

A unit is a resource. `api.orders` is `<url>/orders` and `api.shop.orders` is `<url>/shop/orders`, unless `path`
declares another path. `rows` is the path of the records in a response: an array or one object. The pages of an API
are requested one after the other:

| `paging` | Next page | Last page |
|---|---|---|
| `page` | the next number, in `page_param` | `more` is false; without `more`: see below |
| `offset` | the offset plus the number of records received | the same |
| `cursor` | the cursor at `next` | the response has no cursor, or `more` is false |
| `link` | the address at `next`, or in the header Link | the response has no address |

If `more` is not declared, the last page is an empty one, one that is not full (with `stop 'short'`), or the one that
reaches `total`. An empty page before `total` is reached is an error (E842), because the response is not complete.

**Windows.** Each window is requested separately, with the parameters `since` and `until` in `time_format`. Times are
rounded outwards, so that no record is missed: if the API takes dates, an hour requests its whole day. Records beyond
the window are dropped, and belong to the window that covers them. A row at a boundary is in exactly one window,
whether the API includes the ends or not.

- Without `since`, each batch reads all records and assigns them to windows.
- Rows without a time are left out and counted.
- A number is a time since 1970, in the unit `epoch`.
- The source's clock is the server's, from the header Date of one response. `clock 'machine'` uses the local clock.

**For each row of a table** (FOR EACH). Columns of the table are written in braces: `path 'users/{user_id}'` or
`params.ids '{user_id}'`. Each distinct combination of values is requested once per label.

- `batch` puts several values into one request, separated by commas. In a body they are a list.
- `match` is the path, in a record, of the requested value. A record with a value that was not requested is refused
  (`E868`).
- A 404 or 410 fails the batch (`E869`). With `not_found 'skip'` it gives no row. If a request for several values gets
  such a response, each value is requested separately.
- With `cache '7 days'`, later labels also use a response that is not older than that. Values without a record are
  requested again.
- Responses are stored like pages, separately for each label. When a label is made again, only missing responses are
  requested.
- Responses are written to disk about every second, and later after a hundredth of the time taken so far. After a
  kill, responses since the last write are requested again.

**Pages are stored** below the storage's `archive/<connection>/`, before they are parsed. Each record is stored
unchanged. Waterclock never removes them.

A collect that was stopped, by a kill or because the API failed, continues after its last stored page. That page must
not be older than `resume` seconds. There are two restrictions:

- Without `since`, a collect continues only for the same newest window.
- A snapshot continues only if its last page was not stored yet.

After a permanent failure, or when the collect is complete, the next collect requests everything again. If records
change while pages are read, an API may return a record twice or omit one, to any reader.
[KEY](../howto/deduplicate-keys.md) keeps one of the duplicates.

**Values.** A value must fit its declared type; `E846` names the page and the record. Nested types are STRUCT, ARRAY
and MAP. A column without a declared type is text, and a nested value in it is JSON. A record omits fields that have
no value. If the unit returned such a column before, it is NULL. A column that it never returned stops the batch
(`E805`).

**Retries.** A request is tried up to `tries` times, with a growing wait, in these cases: 408, 425, 429, 5xx except
501 and 505, no response, or a broken one. `Retry-After` is obeyed up to `patience`, in seconds or as a date by the
server's clock. No other 4xx is retried, and redirects are not followed.

`rate` applies to all threads and processes of one user on a machine. No period contains more requests than it allows.
Runners on several machines do not share the limit, so divide it between them.

**Publishing** sends each label of an APPEND in requests of `chunk` rows. The journal of accepted requests is below
`archive/<connection>/_waterclock/`. Do not delete it.

- An accepted request is never sent again. A request with an unknown outcome is sent again with the same
  `Idempotency-Key`. If the API honors keys, each row arrives once. If it does not, or with `idempotency ''`, the rows
  of a request whose response was lost arrive twice.
- The next run completes an interrupted delivery (`E848`).
- Refused rows are reported (`E847`). The other rows are delivered, and `retry` sends the remaining ones.
- A label that is made again is sent again completely. An API that can replace rows uses the headers
  `Waterclock-Label` and `Waterclock-Delivery`: the highest number of a label is valid. Another API gets the rows of
  both deliveries, unless the PUBLISH declares `ON RESTATE REPORT`.
- `APPEND ORDER BY ... PER (...)` keeps the order of each entity, with up to `in_flight` requests at a time. Ordered
  labels are sorted in memory.""",
    "receiver": """\
A unit is a stream: the events that senders POST to `/<connection>/<stream>` while `waterclock receive` runs. It is
collected BY ARRIVAL TIME. The source is its own clock. The run that reads a window seals it, even if the stream is
idle.

The columns are the keys of the events, and:

| Column | Content |
|---|---|
| `_received` | when the event was written |
| `_request` | the header `Idempotency-Key`; without it, a name that is generated for the request |
| `_event` | the event's number in the request, from 1 |
| `_headers`, `_raw` | only with the options `headers` and `raw` |

Events are collected as files of JSON lines, and archived as such. See
[receive events](../howto/receive-events.md).""",
    "forms": """\
A unit is a form: a table of master data that people edit. The column list of its COLLECT declares the fields: types,
KEY, NOT NULL, REFERENCES, `EXPECT (column IN (...))` and COMMENT. A form is collected by one table, lists all its
columns, and has texts, numbers, BOOLEAN, DATE and TIMESTAMP.

- A window has the rows as of its end, from the history of changes. So a backfill and `recollect` return the rows of
  their time, however long ago.
- A change after a window was collected belongs to a later window, whatever the clock of the database shows. Nothing is
  late.
- A row without a value in a NOT NULL column is not collected. The run reports the number of such rows.
- A PUBLISH by MERGE inserts keys that the form never had, and changes no row (E897: another key). Its other columns are
  hints beside the row. See [a classification queue](../howto/a-classification-queue.md).
- With `approval true`, each change is a proposal, and no window has its rows until another person approves it. See
  [approve changes](../howto/approve-changes.md).
- Values are stored as texts, and cast to the types of the columns when they are collected (E895).

The database has seven tables whose names begin with `waterclock_forms_`. `waterclock_forms_changes` is the history:
triggers refuse to update or delete it, and to change rows beside it. All processes that edit or collect use the same
database. A SQLite file must be on a local disk; its clock is that of the machine.

See [a mapping table](../howto/edit-a-mapping-table.md).""",
    "waterclock": """\
A unit is a table of another project, by its name there: `FROM upstream.shop.orders`. Nothing is ever written to that
project.

- If its folder is accessible, set only `path`. Its `waterclock.toml` names its storage and its ledger.
- Otherwise set `storage`, and also `ledger` if the ledger is not a file in the storage.

A window reads the same rows as within one flow:

- BY DATA TIME timelabel: the slices in the window. Their windows must fit into it (E835).
- Without a BY: the state as of the table's last boundary at or before the window's end.

The window waits until these inputs are settled there. When they are restated there, they are collected again here.
See [link two projects](../howto/link-two-projects.md).""",
}
OF_YOUR_OWN = """\
## One of your own

A connector is one object with `capabilities`, `collector` and `deliverer`. `waterclock.connectors.interface` contains
the protocols and their data types. A package registers the object by an entry point:

```toml
[project.entry-points."waterclock.connectors"]
mysystem = "my_package.mysystem:CONNECTOR"
```

`waterclock.testing` contains the test suites that the built-in connectors pass. Subclass the suites for the protocols
that you implement, define a fixture `system`, and run pytest. [Write a connector](../howto/write-a-connector.md)
builds an example and lists the suites.
"""
OPTIONS = {
    "On the connection": "connection_options",
    "On a COLLECT": "collect_options",
    "On a PUBLISH": "publish_options",
}


def commands_page() -> str:
    """Return the page of commands, with the arguments, options and JSON of each, as in `--help`."""
    group: Any = typer.main.get_command(app)
    lines = [
        "# Commands",
        "",
        MADE,
        "",
        f"`waterclock COMMAND --help` shows the same in the terminal. {OF_ALL_COMMANDS}",
        "",
        "Every command accepts `--json`. It then prints one JSON object to stdout, and nothing else there.",
        "",
        '- An error is `{"error": ...}` with a [OneError](#oneerror), also for an invalid command line.',
        "- Instants are `2013-01-05T05:00:00Z` and labels `20130105050000`.",
        "- `local` is a label's date or time in the zone of its table.",
        f"- Each object has a `version`, now {JSON_VERSION}. Keys may be added. The version is raised if a key is",
        "  removed or its meaning changes.",
        "",
        "[The objects in JSON](#objects-in-json) are listed at the end.",
        "",
        "Colors follow `NO_COLOR`. `WATERCLOCK_THEME` (`light` or `dark`) sets the background color, which most",
        "terminals do not report.",
        "",
    ]
    for heading, functions in COMMANDS.items():
        lines += [f"## {heading}", ""]
        for function in functions:
            lines += _command(group.commands[function.__name__])
    return "\n".join([*lines, *_parts()])


def _command(command: Any) -> Iterator[str]:
    name = command.name
    context = command.make_context("waterclock " + name, [], resilient_parsing=True)
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield from (f"### {name}", "", " ".join(command.help.split()), "", f"    {' '.join(usage.split())}", "")
    rows = [row for row in (_parameter(each) for each in command.params) if row is not None]
    if rows:
        yield from ("| | |", "|---|---|")
        yield from (f"| {_cell(name)} | {_cell(text)} |" for name, text in rows)
        yield ""
    yield from _answers(name)


def _parameter(parameter: Any) -> tuple[str, str] | None:
    if "--help" in parameter.opts:
        return None
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar}`", parameter.help or ""
    takes = "" if parameter.is_flag else f" {parameter.metavar}"
    says = parameter.help or ""
    if parameter.envvar:
        says += f" Also `{parameter.envvar}`."
    if parameter.default not in {None, False, ""} and not parameter.required:
        says += f" Default: `{parameter.default}`."
    return ", ".join(f"`{option}{takes}`" for option in reversed(parameter.opts)), says


def _answers(name: str) -> Iterator[str]:
    for answer in ANSWERS[name]:
        schema = _schema(answer)
        alike = next(other for other, answers in ANSWERS.items() if answer in answers)
        if alike != name:
            command, _, content = schema["description"].removeprefix("JSON output of ").partition(": ")
            yield from (f"JSON output as of [{command}](#{alike}): {content}", "")
            continue
        keys = {key: kind for key, kind in schema["properties"].items() if key != "version"}
        yield from (schema["description"], "")
        yield from _keys(keys)


def _keys(keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of an object as a table: name, type and description."""
    yield from ("| key | | |", "|---|---|---|")
    yield from (
        f"| `{key}` | {_json_type(kind)} | {_cell(kind.get('description', ''))} |" for key, kind in keys.items()
    )
    yield ""


def _schema(answer: type[Answer]) -> dict[str, Any]:
    return answer.model_json_schema(mode="serialization")


def _parts() -> Iterator[str]:
    """Yield the objects that the JSON of commands contains, each once."""
    parts: dict[str, Any] = {}
    for answer in (*(each for answers in ANSWERS.values() for each in answers), ErrorAnswer):
        parts |= _schema(answer).get("$defs", {})
    yield from ("## Objects in JSON", "")
    for name, schema in sorted(parts.items()):
        yield from (f"### {name}", "", schema["description"], "")
        yield from _keys(schema["properties"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def python_page() -> str:
    """Return the page of declarations in Python, with an updated table of arguments."""
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    start = page.index("| argument | clause |")
    end = page.index("\n\n", start)
    return page[:start] + "\n".join(_arguments()) + page[end:]


def _arguments() -> Iterator[str]:
    kinds = list(StatementKind)
    yield f"| argument | clause | example | {' | '.join(kind.value.lower().split()[-1] for kind in kinds)} |"
    yield f"|{'---|' * (3 + len(kinds))}"
    for clause in DEFINITIONS:
        marks = " ".join("| x" if kind in clause.statements else "|" for kind in kinds)
        for argument in clause.python_arguments:
            words = argument.clause or argument.name.strip("_").replace("_", " ").upper()
            yield f"| `{argument.name}` | {words} | `{argument.example}` {marks} |"


def errors_page() -> str:
    """Return the page of error codes with their meanings, grouped by the layer that raises them."""
    lines = [
        "# Errors",
        "",
        MADE,
        "",
        "Every error has the same four parts: **what** is wrong, **where** (`file:line:column`, `table@label` or a",
        "path), **why**, and a **fix**. A code never changes its meaning, which this page explains. All errors of a",
        "project are reported together. The errors of a batch name its table and label.",
        "",
        "With `--json`, an error also shows whether it is `transient`. After such an error, `run` tries the batch",
        "again automatically: up to three attempts in total, with a growing wait.",
        "",
    ]
    for layer, known in LAYERS.items():
        lines += [f"## {layer}", ""]
        for code, said in known.items():
            lines += [f"### {code}: {said.title}", "", said.text, ""]
            if code in PAGES_OF_CODES:
                lines += [f"More: {PAGES_OF_CODES[code]}.", ""]
    return "\n".join(lines)


def connectors_page() -> str:
    """Return the page of connectors, with the capabilities and options of each."""
    lines = [
        "# Connectors",
        "",
        MADE,
        "",
        "`CREATE CONNECTION name TYPE type` declares a system. Its location is set in `waterclock.toml`, below",
        "`[env.<name>]`, as `connections.<connection> = { ... }`. If an option is set in both, the value in the file",
        "applies. The connection `project` always exists: the files below the project's folder.",
        "",
    ]
    for known in (FILES, SQLITE, DUCKDB, POSTGRES, MYSQL, FIREBIRD, FORMS, KAFKA, REST, RECEIVER, KEYS, WATERCLOCK):
        lines += _connector(known)
    return "\n".join([*lines, OF_YOUR_OWN])


def _connector(known: Capabilities) -> Iterator[str]:
    batching = {
        "data time": "BY DATA TIME",
        "arrival time": "BY ARRIVAL TIME",
        "changes": "BY CHANGES",
        "snapshot": "without BY: the current content",
        "each row of a table": "FOR EACH row of a table",
        "labels": "BY DATA TIME timelabel",
        "state": "without BY: the state at the end of each window",
        "as of": "without BY: the rows as of the end of each window",
    }
    yield from (f"## {known.type}", "")
    if known.collects or known.publishes:
        yield f"*Collects* {_joined(batching[each] for each in known.collects)}."
        yield f"*Publishes* {_joined(mode.upper() for mode in known.publishes) or 'nothing'}."
        yield from (f"*A query as a unit* (`{known.type} QUERY '...'`): {'yes' if known.takes_query else 'no'}.", "")
    for place, field in OPTIONS.items():
        options: Mapping[str, Option] = getattr(known, field)
        if options:
            yield from (f"{place}:", "", "| option | | |", "|---|---|---|")
            yield from (f"| `{name}` | {_kind(option)} | {_cell(option.help)} |" for name, option in options.items())
            yield ""
    yield from (NOTES[known.type], "")


def _joined(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _kind(option: Option) -> str:
    kind = " or ".join(f"`{choice}`" for choice in option.choices) or option.kind
    return f"{kind}, required" if option.is_required else kind


def json_page() -> str:
    """Return the page about the parameters and JSON responses of `waterclock ui`."""
    told = describe_api()
    lines = [
        "# JSON of the pages",
        "",
        MADE,
        "",
        "`waterclock ui` also serves each page as JSON ([how](../howto/web-ui.md#for-scripts)). The API is",
        "described at `/openapi.json` (OpenAPI 3.1), from which this page is generated.",
        "",
        "- Labels are `20130105050000` and instants `2013-01-05T05:00:00Z`.",
        "- `words` and similar keys contain text for people, which may change.",
        f"- Each response has a `version`, now {JSON_VERSION}. The version is raised if a key is removed or its",
        "  meaning changes.",
        "- A response may have more keys than this page lists.",
        "- Errors are [Errors](#errors), with the status 404 (not found), 422 (the request is not valid) or 503 (the",
        "  project or its ledger cannot be read now).",
        "- Without the token, the status is 401, and the response is a line of text.",
        "",
        "## Addresses",
        "",
        "| | parameters | response |",
        "|---|---|---|",
    ]
    for path, methods in told["paths"].items():
        for method, asked in methods.items():
            takes = ", ".join(f"`{each['name']}`" for each in asked["parameters"] if each["in"] == "query")
            if "requestBody" in asked:
                form = asked["requestBody"]["content"]["application/x-www-form-urlencoded"]["schema"]
                takes = f"a form: {', '.join(f'`{name}`' for name in form['properties'])}"
            answer = asked["responses"].get("200", {"content": {"text/html": {}}})
            [(kind, content)] = answer["content"].items()
            tells = _json_type(content["schema"]) if kind == "application/json" else f"`{kind}`"
            lines.append(f"| `{method.upper()} {path}` | {takes} | {tells} |")
    lines += ["", "| | |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(words)} |" for name, (words, _) in PARAMETERS.items()]
    lines.append("")
    for name, schema in told["components"]["schemas"].items():
        lines += [f"### {name}", "", schema["description"], "", *_keys(schema["properties"])]
    return "\n".join(lines)


def _json_type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_json_type(each) for each in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_json_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"by name, {_json_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def rules_page() -> str:
    """Return the page of the relations that rules of the project can query."""
    limits = (
        f"A rule may run {rule_database.SECONDS:.0f} seconds of processor time, the process may grow by "
        f"{rule_database.MOST_MEMORY >> 20} MB, and {rule_database.MOST_ROWS:,} places are reported."
    )
    queries = "[Rules of the project](../howto/rules-of-the-project.md) query these relations, in the SQL of SQLite."
    lines = ["# Relations for rules of the project", "", MADE, "", queries, limits]
    for name, relation in rule_relations.RELATIONS.items():
        lines += ["", f"## {name}", "", relation.description, "", "| Column | Content |", "|---|---|"]
        lines += [f"| `{column}` | {text} |" for column, text in relation.columns.items()]
    lines += ["", "## Tables of the ledger", ""]
    lines += [
        "They have the rows of [the ledger's tables](ledger.md); `table` is called `table_name`. Times are texts."
    ]
    lines += ["", "| Relation | Columns |", "|---|---|"]
    for name in rule_relations.LEDGER_RELATIONS:
        columns = ", ".join(f"`{column}`" for column in rule_relations.ledger_relation(name).columns)
        lines.append(f"| `{name}` | {columns} |")
    lines += ["", "## Functions", "", ", ".join(f"`{name}`" for name in sorted(rule_database.FUNCTIONS)) + "."]
    return "\n".join(lines) + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "images/house.svg": drawings.house,
    "images/road.svg": drawings.road,
    "images/windows.svg": drawings.windows,
    "reference/commands.md": commands_page,
    "reference/connectors.md": connectors_page,
    "reference/errors.md": errors_page,
    "reference/json.md": json_page,
    "reference/python.md": python_page,
    "reference/rules.md": rules_page,
}


def main() -> int:
    """Write the pages, or report those that are not up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    old = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        old.append(name)
        if not is_check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    sys.stdout.write("".join(f"{name}: {'not up to date' if is_check else 'written'}\n" for name in old))
    return int(is_check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
