# noqa: INP001 - a script
"""Write the reference pages and drawings that are made from the code.

python docs/generate.py            write them
python docs/generate.py --check    write nothing, and leave with 1 where a page is not up to date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import drawings
import typer

from waterclock.answers.commands import ANSWERS
from waterclock.answers.parts import Answer, ErrorAnswer
from waterclock.answers.version import JSON_VERSION
from waterclock.cli.app import COMMANDS, EPILOG, app
from waterclock.codes import catalog
from waterclock.connectors.duckdb.connector import CAPABILITIES as DUCKDB
from waterclock.connectors.files.connector import CAPABILITIES as FILES
from waterclock.connectors.kafka.connector import CAPABILITIES as KAFKA
from waterclock.connectors.mysql.connector import CAPABILITIES as MYSQL
from waterclock.connectors.postgres.connector import CAPABILITIES as POSTGRES
from waterclock.connectors.receiver.connector import CAPABILITIES as RECEIVER
from waterclock.connectors.rest.connector import CAPABILITIES as REST
from waterclock.connectors.sqlite.connector import CAPABILITIES as SQLITE
from waterclock.connectors.waterclock.connector import CAPABILITIES as WATERCLOCK
from waterclock.dpl.syntax.clause_table import DEFINITIONS
from waterclock.dpl.syntax.statements import StatementKind
from waterclock.flow.capabilities import Capabilities, Option
from waterclock.ui.openapi import PARAMETERS, describe_api

DOCS = Path(__file__).resolve().parent
MADE = "*Made from the code by `python docs/generate.py`.*"
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
    "Warnings": catalog.WARNINGS,
}
NOTES = {
    "files": """\
A unit is `supplier.source` or a glob, both below the connection's `path`:

- `landing.faa.flights` means the files `faa/flights/faa_flights_<YYYY_MM_DD_HH_MM_SS>.<ext>`, in date subfolders
  (`2017/08`, `year=2017/month=08`) or not. Every other file there is misnamed.
- ``landing.`web/click/*.json.gz` `` is a glob; `**` crosses folders. A stamp in the name is the file's arrival
  (`2017_08_18_05_33_44`, `20170818053344`, `20170818T053344`), else the time of its last change.

Formats are told by the ending: `csv`, `tsv`, `json`, `jsonl`, `ndjson`, `parquet`, `xml`, each also with `.gz`,
`.bz2` or `.zst` where the format has it; `avro` and `xlsx`, `xlsm`, `xlsb`, `xls`, `ods`, which need
`pip install '.[avro]'` and `'.[excel]'`; `txt`, `dat` and `fwf` where their `positions` are declared;
and `zip` around any of them. Names that begin with `.` or `_`, or end like a download in progress (`.part`, `.tmp`,
...), are not looked at. Misnamed, half-written and damaged files, and links, are left where they are and reported.

The stamp is the *last second that the file holds*. So the folder's clock is its newest complete stamp plus one second,
and a window is read once that clock has reached its end. Files that a commit took are moved to the archive, which
mirrors the landing folder and is never overwritten. A snapshot reads the files of the newest stamp at or
before the run's now.

Columns are matched by name, not by place; a column of CSV, of a sheet or of fixed width is text unless it is declared
otherwise. A broken row stops its batch, naming file and line; so does a number with more digits behind the point than
its DECIMAL has (zeros apart), and one with commas in it: none is rounded, but for FLOAT and DOUBLE of Parquet and
Avro. Within quotes CSV has a quote twice, and a backslash is a sign like any other (RFC 4180); `escape '\\'` takes
files that have `\\"` instead. What of JSON is text is as it is written there, numbers and nested values too; but for
records at `rows`, and files that are not in UTF-8: their numbers keep their value (beyond 15 digits only where they
are written without an exponent), objects with such a number have their keys in the order of the alphabet.

What could harm who reads it is refused: XML that declares entities (E880), zips whose members lead elsewhere (E881) or
would grow too large (E882). Zips are unpacked below the archive while they are read. Avro and Excel are read by Spark's
Python workers; from a bucket such a file is brought whole, and may have 512 MB.

A published slice becomes one file for each label, `<unit>/<unit>_<label>.<ext>`, or, where a state replaces another,
`<unit>/<unit>.<ext>`: written beside its place, flushed, and renamed, so that no reader sees a part of it.
Excel's sheet is `data`: no text is a formula there, instants are UTC, and a number of more than 15 digits is text. XML
is not published.

`format 'raw'` takes files of any ending as they are: a row is a file, with `name`, `stamp`, `changed`, `size` and
`sha256`; its bytes lie in the archive. A publish with `format 'raw'` copies these below its unit under their names,
each label's in the order in which they arrived; the record of a delivery has their checksums
([replicate](../howto/replicate.md#copy-files-byte-for-byte)).

In an object store a listing names a thousand files a request, with sizes and times; a file is read in ranges, moved
within a bucket by the store itself, and put where one may be already only if there is none. `path` and `archive` each
may be a folder or a URL, of one bucket or of two; a bucket is reached in one way by the whole project, the storage too.
Other files below the same URL are listed as well: give what lands a folder of its own. An archived file whose name
holds no stamp has an empty object beside it, `.<name>.<time>.arrived`, that tells when it arrived.""",
    "sqlite": """\
A unit is a table or view, or a query: `FROM ops QUERY 'SELECT ...'`. Windows are read by `t >= start AND t < end` in
one read transaction; a snapshot is all rows in one transaction. Times may be ISO 8601 text or numbers since 1970.
Types are those that are declared, else what the database's columns mean by its rules of affinity. A value that does not
fit (E812) stops the batch; a REAL is rounded to the places of a DECIMAL, a text is not.

Publishing writes the rows and a row of `waterclock_deliveries` in one transaction of the destination: a claim that has
its row is not delivered again. REPLACE replaces the table's rows; MERGE deletes the keys that went and puts the others
in place; from a partitioned table, and by APPEND, the destination has a column `timelabel`, and a label's rows replace
the rows of that label alone. A table that is not there is made by the first delivery. Of one that is there
[a value that its column cannot store](../howto/publish.md#values-that-a-column-cannot-store) is refused (E812).""",
    "duckdb": """\
It needs a driver: `pip install '.[duckdb]'`, on the machines of a cluster's workers too.

A unit is a table or view, with its schema where that is not `main`, or a query. One process writes a file, or several
read it: a batch waits for as long as `timeout` says, and is tried again (E811). All that a batch reads is of one
transaction; more than 50,000 rows or 64 MB are read by a worker of Spark's, and the file stays open until they are.
Windows are read by `t >= start AND t < end`; the time is a timestamp, a date, or a whole number since 1970.

Types are those that are declared, else those of the columns: unsigned numbers become wider ones, HUGEINT DECIMAL(38,0),
`TIMESTAMP` without a zone is read in the cadence's; lists, structs and maps of plain values are nested ones, others
JSON; UUID, ENUM, TIME and JSON are STRING. INTERVAL, UNION and TIMESTAMP_NS are refused until they are declared. A
value that does not fit (E812) stops the batch. No extension of DuckDB's is fetched.

Publishing brings rows as Arrow, with a row of `waterclock_deliveries`, in one transaction. Modes are those of
[sqlite](#sqlite). What is made anew has Spark's own types, nested values are JSON. A destination that is there keeps
its types, and its lists take arrays as they are; [a value that they cannot
store](../howto/publish.md#values-that-a-column-cannot-store) is refused (E812).""",
    "postgres": """\
It needs a driver: `pip install '.[postgres]'`, on the machines of a cluster's workers too.

A unit is a table or view, `FROM ops.planes` or with a schema, `FROM ops.fleet.planes`; or a query. The source's clock
is the server's. Windows are read by `t >= start AND t < end`, so that an index on the time is used; the time is a
timestamp, a date (midnight of its day), or a number since 1970. All that a batch reads is of one moment: more than
50,000 rows or 64 MB are read by Spark's workers side by side, a part for each half million rows that the server
expects, and all of them see the snapshot of the first transaction. For windows the parts are spans of time, for a table
ranges of its blocks; a view or a query without windows is one part.

Types are those that are declared, else those of the columns: `numeric(p,s)` is DECIMAL, `timestamptz` and `timestamp`
(read in the cadence's zone) TIMESTAMP, `bytea` BINARY, arrays of numbers, texts and booleans ARRAY; `json`, `jsonb`,
`uuid`, enums, `time`, `inet` and their like are STRING. `numeric` without a precision, `money`, intervals, ranges,
geometry and other arrays are refused until they are declared, and STRING takes any of them as its text. A value that
does not fit (E812) stops the batch: none is rounded, cut or left out unseen, but for zeros that end a fraction. FLOAT
and DOUBLE hold the number that is nearest, from every source. A text is no time to read windows by, as no index would
find it: a QUERY can cast it.

By changes a plain table is followed by a replication slot of the collect's own, which is named in the ledger before it
is made. The first batch, and the one after a new text of `snapshot`, take all rows as of the slot's beginning; the
others peek what was committed since, up to the end of the log or of the window, and move the slot on behind the commit.
pgoutput decodes the log, by a publication of the slot's name, or wal2json where pgoutput cannot. NULL is a value,
also in a TEMPORAL. See [replicate a database](../howto/replicate-a-database.md).

Publishing brings rows by COPY, with a row of `waterclock_deliveries`, in one transaction. Modes are those of
[sqlite](#sqlite). REPLACE deletes and copies in one transaction: whoever reads sees the rows of before or of after,
never none, and grants, views and keys stay. Deleted rows are the server's autovacuum's to remove. A destination that
is there keeps its own types and columns;
[a value that its column cannot store](../howto/publish.md#values-that-a-column-cannot-store) is refused (E812). What is
made anew gets NUMERIC, TIMESTAMPTZ, BYTEA, arrays, JSONB for nested
values; a name has 63 bytes at most. A claim that is taken over ends the connection that still works for it, so all
runners connect as one user.""",
    "mysql": """\
It needs a driver: `pip install '.[mysql]'`, on the machines of a cluster's workers too. It speaks to MariaDB
and to MySQL; its tests run on MariaDB.

A unit is a table or view, with its database where that is another than the connection's; or a query. The source's clock
is the server's. Windows are read by `t >= start AND t < end`, so that an index on the time is used; the time is a
TIMESTAMP, a DATETIME or a DATE (read in the cadence's zone), or a whole number since 1970. A batch reads in one
transaction, WITH CONSISTENT SNAPSHOT: of tables of InnoDB all that it reads is of one moment, of MyISAM each statement.
Rows come through a cursor without a buffer; more than 50,000, or 64 MB, are read by a worker of Spark's, in a
transaction of its own. With `partitions` several read side by side: spans of time for windows, ranges of a primary key
that is one whole number for a table; else there is one part. No server lends the moment of a transaction to others, so
the server adds up the rows of each part (a hash of each) first, and each part again in its own transaction: where one
comes to something else, the batch stops and is tried again (E814). The session's zone is UTC, so a TIMESTAMP is the
instant that it is.

Types are those that are declared, else those of the columns: numbers without a sign become wider ones, BIGINT UNSIGNED
DECIMAL(20,0); BIT(1) is BOOLEAN, other BITs are whole numbers, TINYINT(1) is TINYINT until BOOLEAN is declared; BLOB
and BINARY are BINARY; JSON, ENUM, SET, TIME, UUID and texts of any character set are STRING. DECIMAL beyond 38 digits
and geometry are refused until they are declared. A value that does not fit (E812) stops the batch, 0000-00-00 too:
declare the column STRING, or make it NULL in a QUERY. Rows whose data time is NULL or 0000-00-00 are counted and set
aside.

Publishing brings rows by INSERT, with a row of `waterclock_deliveries`, in one transaction, in a strict mode whatever
the server's own is. Modes are those of [sqlite](#sqlite). The table has to be of InnoDB (E875). CREATE, ALTER and DROP
end a transaction here: the table is made to fit before it begins, so a delivery that fails may leave an empty table or
columns that are NULL; behind a view, the view is switched once the rows and the record are kept, and whoever takes the
claim over switches it. A value that would be rounded or cut is refused (E812), also where the server has no more than
a note for it; so are two keys that the column's collation takes for one (E876). What is made anew is of utf8mb4:
instants are DATETIME(6) in UTC, nested values JSON, texts LONGTEXT, those of keys VARCHAR(255) of which every sign
counts. A claim that is taken over ends the connection that still works for it, so all runners connect as one user, who
has the rights CREATE, ALTER, DROP, CREATE TEMPORARY TABLES, and CREATE VIEW where there are views.""",
    "kafka": """\
It needs a client: `pip install '.[kafka]'`, on the machines of a cluster's workers too.

A unit is a topic. Each label owns a range of offsets by partition, written down with its claim, up to the last stable
offset of that moment; records that were not committed are never read. `raw` gives the columns key, value, headers
(`ARRAY<STRUCT<key, value>>`), partition, offset, timestamp and timestamp_type (`create` or `append`); `text` gives
value; `json` the fields of an object, as text unless they are declared otherwise; `avro` those of its schema.
`metadata` puts `kafka_key`, `kafka_headers`, `kafka_partition`, `kafka_offset`, `kafka_timestamp` and
`kafka_timestamp_type` beside them. A tombstone is a row whose value, or whose every field, is NULL.

A claim is delivered in one transaction, the record of it within. Values are JSON objects of all columns but those that
are `headers`; `text` is one column beside key and headers, `raw` takes the columns `key`, `value` and, if there,
`headers`. With `ends` each partition is told where a label ends. What is secret is named and never written out
(`E322`). [Collect from Kafka, and publish to it](../howto/collect-kafka.md) tells more.""",
    "rest": """\
It needs a library: `pip install '.[rest]'`. Secrets are named and never written out (`E313`); what is said
of pages on the connection holds for all that is collected from it, a COLLECT says otherwise for itself.

A unit is a resource: `api.orders` is `<url>/orders`, `api.shop.orders` `<url>/shop/orders`, unless `path` says
another. `rows` is the path of the records in an answer; an array or one object. An API's pages are asked for one
after the other:

| `paging` | The next page | The last one |
|---|---|---|
| `page` | its number, `page_param` | `more` is false; unsaid: empty, not full (`stop 'short'`), or ends `total` |
| `offset` | as many records further as came | the same |
| `cursor` | the cursor at `next` | names no cursor |
| `link` | the address at `next`, or in the header Link | names none |

**Windows.** Each is asked for by itself, by the parameters `since` and `until` in `time_format`, so that all of it
comes: an hour in an API of days is its day. What comes beyond the window is left to the window it belongs to; a row
at the edge is in one of them, whether the API's ends count in or not. Without `since` all records are read for each
batch, and sorted. Rows without a time are set aside and counted; a bare number is a time since 1970, in `epoch`. The
source's clock is the server's, from the header Date of one answer; `clock 'machine'` takes ours.

**For each row of a table** (FOR EACH): the table's columns stand in braces, `path 'users/{user_id}'` or
`params.ids '{user_id}'`, and each distinct combination is asked for once a label. `batch` puts several values, with
commas between them (in a body: as a list), into one request, and `match` is the path in a record of the value that
it answers; a record of none of them is refused (`E868`). A 404 or 410 fails the batch (`E869`), or is no row with
`not_found 'skip'`; a request for several that is answered so is asked again one by one. With `cache '7 days'` an
answer that is no older serves later labels too, but for one that brought no record. Answers are kept as pages are,
those of each label beside each other: to make it again asks only for what was not answered. A page of answers is
kept about each second, later after each hundredth of the time so far: what came since is asked for again after a kill.

**Pages are kept** below the storage's `archive/<connection>/`, each record as it was written, before anything is read
of them; nobody removes them. A collect that was stopped, by a kill or an API that went away, goes on behind the last
page that is there, if that is not older than `resume` seconds. Without `since` it does so for the same newest window
alone, and a snapshot only where its last page was not there yet. What failed for good, or was read to its end, is asked
for anew. A source that moves while its pages are turned may bring a record twice, or leave one out, as with any
reader: [KEY](../howto/keep-each-key-once.md) keeps one of them.

**Values.** A declared type is held (`E846` names page and record), nested ones are STRUCT, ARRAY and MAP; what has no
type is text, nested values as JSON. A record leaves out what it has no value of: a column that the unit brought
before is NULL then, one that it never brought stops the batch (`E805`).

**Tried again**, `tries` times with a growing wait: 408, 425, 429, 5xx, no answer, a broken one. `Retry-After` is
kept, in seconds or as a date of the server's own clock, up to `patience`. No other 4xx is tried again, and no
redirect followed. `rate` holds for all threads and processes of a user on one machine: in no period are there more
requests than it says. Runners on several machines share it out by hand.

**Publishing** sends each label of an APPEND, in requests of `chunk` rows. The journal of what was accepted lies below
`archive/<connection>/_waterclock/`; keep it. A request that was accepted is never sent again; one of which nobody
knows is sent again with the same `Idempotency-Key`: with an API that minds keys each row is there once, with one that
does not (or `idempotency ''`) a request whose answer was lost is there twice. What was begun is finished by the next
run (`E848`); rows that are refused are told (`E847`), the others are there, and `retry` sends what is left. A label
that is made again is sent again whole: an API that can replace goes by the headers `Waterclock-Label` and
`Waterclock-Delivery` (of a label the highest number counts), one that cannot gets the rows of both, unless the
PUBLISH says `ON RESTATE REPORT`. `APPEND ORDER BY ... PER (...)` keeps the order of each entity with `in_flight`
requests on their way; ordered labels are sorted in memory.
""",
    "receiver": """\
A unit is a stream: what senders POST to `/<connection>/<stream>` while `waterclock receive` runs. It is collected BY
ARRIVAL TIME. The source is its own clock: a window is sealed by the run that reads it, however idle the stream is.

Columns are the keys of the events, and `_received` (when it was written), `_request` (the header `Idempotency-Key`,
else a name of the request's own), `_event` (its number in the request, from 1), `_headers` and `_raw` where they are
asked for. Events are collected as files of JSON lines, and archived as such.
[Receive events](../howto/receive-events.md) tells more.""",
    "waterclock": """\
A unit is a table of another project, as it is named there: `FROM upstream.shop.orders`. `path` alone will do where the
other project's folder is at hand: its `waterclock.toml` says where storage and ledger are. Else give `storage`, and
`ledger` where that is no file in it. Nothing of that project is ever written.

A window takes what one flow would read: by labels the slices in it, whose windows must fit (E835); without a BY the
state as of the table's last boundary at or before the window's end. It waits until that is settled there; what is
restated there is collected again here. [Link two projects](../howto/link-two-projects.md) tells more.""",
}
OF_YOUR_OWN = """\
## One of your own

A connector is one object that has `capabilities`, `collector` and `deliverer`; `waterclock.connectors.interface` has
the protocols and what passes through them. A package names it by an entry point:

```toml
[project.entry-points."waterclock.connectors"]
mysystem = "my_package.mysystem:CONNECTOR"
```

`waterclock.testing` has the suites of tests that these connectors pass. Subclass those of the protocols you offer, give
them a fixture `system`, and run pytest. [Write a connector](../howto/write-a-connector.md) makes one, and lists them.
"""
OPTIONS = {
    "On the connection": "connection_options",
    "On a COLLECT": "collect_options",
    "On a PUBLISH": "publish_options",
}


def commands_page() -> str:
    """The commands with their arguments, options and JSON, as `--help` has them."""
    group: Any = typer.main.get_command(app)
    lines = [
        "# Commands",
        "",
        MADE,
        "",
        f"`waterclock COMMAND --help` says the same on the terminal. {EPILOG}",
        "",
        "Every command takes `--json`: it then prints one JSON object on stdout and nothing else there. An error, also",
        'of an invalid command line, is `{"error": ...}` with an [OneError](#oneerror). Instants are',
        "`2013-01-05T05:00:00Z`, labels `20130105050000`; `local` is a label's date or time in its table's zone.",
        f"Each object has a `version`, now {JSON_VERSION}. Keys may be added; the version is raised if a key is",
        "removed or changes its meaning. [The objects in JSON](#objects-in-json) are listed at the end. Colours heed",
        "`NO_COLOR`, and `WATERCLOCK_THEME` (`light` or `dark`) where the terminal does not tell its ground.",
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
        yield from (f"| {_cell(what)} | {_cell(says)} |" for what, says in rows)
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
    if parameter.default not in {None, False} and not parameter.required:
        says += f" Default: `{parameter.default}`."
    return ", ".join(f"`{option}{takes}`" for option in reversed(parameter.opts)), says


def _answers(name: str) -> Iterator[str]:
    for answer in ANSWERS[name]:
        schema = _schema(answer)
        alike = next(other for other, answers in ANSWERS.items() if answer in answers)
        if alike != name:
            yield from (f"`--json`: as [{alike}](#{alike}). {schema['description']}", "")
            continue
        keys = {key: kind for key, kind in schema["properties"].items() if key != "version"}
        yield from (f"`--json`: {schema['description']}", "")
        yield from _keys(keys)


def _keys(keys: Mapping[str, Any]) -> Iterator[str]:
    """The keys of an object as a table: name, type and description."""
    yield from ("| key | | |", "|---|---|---|")
    yield from (
        f"| `{key}` | {_json_type(kind)} | {_cell(kind.get('description', ''))} |" for key, kind in keys.items()
    )
    yield ""


def _schema(answer: type[Answer]) -> dict[str, Any]:
    return answer.model_json_schema(mode="serialization")


def _parts() -> Iterator[str]:
    """The objects within the answers of commands, each once."""
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
    """Return the page of declarations in Python, with its table of arguments made anew."""
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    start = page.index("| argument | clause |")
    end = page.index("\n\n", start)
    return page[:start] + "\n".join(_arguments()) + page[end:]


def _arguments() -> Iterator[str]:
    kinds = [kind for kind in StatementKind if kind is not StatementKind.GRANT]
    yield f"| argument | clause | example | {' | '.join(kind.value.lower().split()[-1] for kind in kinds)} |"
    yield f"|{'---|' * (3 + len(kinds))}"
    for clause in DEFINITIONS:
        marks = " ".join("| x" if kind in clause.statements - clause.later else "|" for kind in kinds)
        for argument in clause.python_arguments if not clause.is_later else ():
            words = argument.clause or argument.name.strip("_").replace("_", " ").upper()
            yield f"| `{argument.name}` | {words} | `{argument.example}` {marks} |"


def errors_page() -> str:
    """Every error code with what it means, by the layer that raises it."""
    lines = [
        "# Errors",
        "",
        MADE,
        "",
        "Every error says the same four things: **what** is wrong, **where** (`file:line:column`, `table@label` or a",
        "path), **why**, and a **fix**. Its code stands for ever, and this page says what it stands for. All errors of",
        "a project are found together; those of a batch name its table and label. With `--json` an error also says",
        "whether it is `transient`: then `run` tries again by itself, three times with a growing wait.",
        "",
    ]
    for layer, known in LAYERS.items():
        lines += [f"## {layer}", ""]
        for code, said in known.items():
            lines += [f"### {code}: {said.title}", "", said.text, ""]
    return "\n".join(lines)


def connectors_page() -> str:
    """What each connector can do, and its options."""
    lines = [
        "# Connectors",
        "",
        MADE,
        "",
        "`CREATE CONNECTION name TYPE type` names a system; where it is stands in `waterclock.toml`, below",
        "`[env.<name>]` as `connections.<connection> = { ... }`. Options said in both are taken from the file. The",
        "connection `project` (files below the project's folder) is always there.",
        "",
    ]
    for known in (FILES, SQLITE, DUCKDB, POSTGRES, MYSQL, KAFKA, REST, RECEIVER, WATERCLOCK):
        lines += _connector(known)
    return "\n".join([*lines, OF_YOUR_OWN])


def _connector(known: Capabilities) -> Iterator[str]:
    batching = {
        "data time": "BY DATA TIME",
        "arrival time": "BY ARRIVAL TIME",
        "changes": "BY CHANGES",
        "snapshot": "without BY: as it is now",
        "each row of a table": "FOR EACH row of a table",
        "labels": "BY DATA TIME timelabel",
        "state": "without BY: as it stands at each window's end",
    }
    yield from (f"## {known.type}", "", f"*Collects* {_joined(batching[each] for each in known.collects)}.")
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
    return f"{kind}, needed" if option.is_required else kind


def json_page() -> str:
    """What the pages of `waterclock ui` take and tell as JSON."""
    told = describe_api()
    lines = [
        "# JSON of the pages",
        "",
        MADE,
        "",
        "`waterclock ui` serves each page as JSON too ([how](../howto/look-in-a-browser.md#for-scripts)), and",
        "describes it at `/openapi.json` (OpenAPI 3.1), from which this page is made. Labels are `20130105050000`,",
        "instants `2013-01-05T05:00:00Z`; `words` and the like are for people and may change. An answer may have",
        f"more keys than stand here. Each has a `version`, now {JSON_VERSION}: it is raised where a key is taken",
        "away or given another meaning. What is wrong is [Errors](#errors), with the status 404 (not",
        "found), 422 (the request is not valid) or 503 (the project or its ledger cannot be read now); without the",
        "token the status is 401, and the answer a line of text.",
        "",
        "## Addresses",
        "",
        "| | takes | tells |",
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


PAGES: Mapping[str, Callable[[], str]] = {
    "images/house.svg": drawings.house,
    "images/road.svg": drawings.road,
    "images/windows.svg": drawings.windows,
    "reference/commands.md": commands_page,
    "reference/connectors.md": connectors_page,
    "reference/errors.md": errors_page,
    "reference/json.md": json_page,
    "reference/python.md": python_page,
}


def main() -> int:
    """Write the pages, or say which are not up to date."""
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
