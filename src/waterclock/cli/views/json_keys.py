"""The keys of the object that each command prints with --json. Tests check them, and the docs list them.

Instants are `2013-01-05T05:00:00Z`, labels `20130105050000`. `local` is the label's date or time in its table's zone.
Each object starts with `version`. Keys may be added. The version is raised if a key is removed or changes its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SHAPES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "init": {
            "project": "the folder",
            "files": "list of the files made, relative to it",
            "next": "list of the two commands that lead on",
        },
        "check": {
            "ok": "whether there are no errors",
            "env": "the environment that was checked",
            "errors": "list of {code, what, where, why, fix, excerpt, transient}, in the order of their places",
            "warnings": "list of the same, of what can run and may answer otherwise another time",
            "tables": "counts of collect, transform, publish, view, function and connection",
            "seconds": "how long it took",
            "connections": "with --connect: list of {kind, name, ok, said, seconds, error}, in the order they were "
            "tried; `ok` above then says of these too",
        },
        "spec": {
            "project": "the project's name",
            "env": "the environment",
            "ok": "whether all scenarios that were chosen passed",
            "passed": "how many passed",
            "failed": "how many failed",
            "stopped": "whether it was asked to stop",
            "seconds": "how long they took",
            "scenarios": "list of {feature, rule, scenario, place, tags, verdict, seconds, tables, steps}; a step is "
            "{keyword, text, place, verdict}, a failed one with {said, error, rows}",
            "page": "the living document that was written, or null",
        },
        "plan": {
            "env": "the environment",
            "now": "the instant planned for",
            "next_due": "when something becomes due next, or null",
            "summary": "counts: due in all, and by status",
            "batches": "list of {table, label, local, end, status, reason, is_revision, verb, choice, "
            "stands_from, reads, causes}",
            "groups": "list of {table, labels}: what may be claimed now, in order",
            "left_out": "by table, how many due batches are left for later runs",
            "older_code": "by table, how many done labels ran under older code",
            "following": "by table, how many done batches rest on those made again, and follow where rows differ",
            "behind": "by table, the older states whose inputs were restated since, and that nobody needs",
            "reported": "by table, the done labels that read what was restated since (ON RESTATE REPORT)",
            "queries": "by table, {least, most}: how many queries of Spark's make what is ready, waits or is left out",
            "paused": "by table that is paused by name, {since, by, why}",
            "paused_all": "the same where all is paused, or null",
            "partial": "by table and label, what a done batch was made without: list of {table, low, high}",
            "refused": "by table whose batches would mean something else as it is declared now, the error E405",
            "not_needed": "by table, how many due labels nobody reads",
            "stood_for": "by table, how many labels a later snapshot stands for",
            "not_begun": "by table of which no window was due yet, {label, local, end, due} of the first",
            "looked": "by table with LOOKBACK ... CHANGED, {at, changed} of the newest look: past windows, and why",
            "received": "by table whose source a run seals, {files, bytes, since, is_open} of what lies there and was "
            "not collected yet; is_open: it is still written to",
            "kept_at_sources": "list of {table, connection, name, at, stands, held, behind, most, limit, is_needed, "
            "is_troubled}: what sources keep of their logs for collects BY CHANGES, in bytes, as a run saw it last, at "
            "`at`; stands: safe, losing, lost or gone; behind: not collected yet; most: the server keeps no more, or "
            "null; limit: beyond it somebody is told; is_needed: false of a table that went, which maintain lets go of",
            "renames": "by table that the next run renames, what it is called until then",
            "waits_for_source": "list of {table, label, at}: by table the oldest ready window that its source had not "
            "come to when a run looked, at `at`",
            "shared": "by SHARED view, the tables with a due label for which it is read together",
            "deadlines": "list of {table, label, end, by, stands, status, seconds, fresh_to, by_watermark, cause}: "
            "windows that have missed their deadline, are near it, or take long; seconds: what is left usually takes, "
            "or it took; by_watermark: {watermark, slowest, behind}, how far the rows have come and the slowest part "
            "is behind the newest window, in seconds, or null; cause: {table, label, status, detail} of the batch most "
            "upstream for which it waits, or whose rows are old",
            "offline": "list of {table, every, looked_at, labels, seconds, error, next, is_due, waiting, spans}, of "
            "tables with MEASURE ... OFFLINE: the newest look and how many labels it measured, when the next is due "
            "(null where at once), how many labels wait; spans: the newest, {first, until, labels, measured}",
        },
        "run": {
            "now": "the instant it began with",
            "until": "the instant it went up to, or null",
            "done": "how many batches were done",
            "rows": "how many rows they hold",
            "seconds": "how long it took",
            "stopped": "whether it was asked to stop",
            "failed": "list of {table, kind, labels, claim, error}; error as in check",
            "unsettled": "list of errors as in check, of claims that runners left and that cannot be settled yet",
            "away": "the error of an object store that did not answer while the run looked for more to do, or null",
            "left": "counts by status of what is due and not done",
            "paused": "as in plan",
            "paused_all": "as in plan",
            "held_by_source": "list of {table, label, end, clock, awaits}: due, and held back by their source",
            "next_due": "when something becomes due next, or null",
        },
        "alerts": {
            "env": "the environment",
            "tells": "whether it tells anybody",
            "open": "list of {number, kind, severity, code, what, why, fix, batches, blocks, line, opened, "
            "acknowledged, told}; `batches` lists labels by table, `blocks` counts by table what waits for them, "
            "`told` says by target {first, last, times}",
            "waiting": "list of {target, at, attempts, error, title}: messages that are to be sent",
            "targets": "list of {name, kind}; of test, of {name, kind, error}",
            "rules": "list of {name, severity, to, tables}",
            "ok": "test: whether all targets were reached",
            "acknowledged": "acknowledge: the numbers",
            "sent": "send: how many messages were sent; `waiting` is then a count",
            "lost": "send: list of {target, why}",
        },
        "close": {
            "table": "the table",
            "label": "the window",
            "tick": "the boundary at which its books are closed",
            "why": "the reason",
        },
        "skip": {
            "table": "the table",
            "skipped": "list of labels",
            "given_up": "list of labels that were done, whose damaged slices the next run goes on without",
            "why": "the reason",
        },
        "release": {
            "table": "the table",
            "released": "list of labels",
            "rows": "how many rows they have brought into the table",
            "why": "the reason",
        },
        "withdraw": {
            "withdrawn": "by table, the list of labels that are no longer asked for",
            "why": "the reason",
        },
        "pause": {
            "all": "whether the whole project was paused",
            "tables": "list of the tables that were paused by name",
            "already": "list of those that were paused before, and keep their reason",
            "why": "the reason",
        },
        "resume": {
            "all": "whether the pause of the whole project was taken back",
            "tables": "list of the tables whose own pause was taken back",
            "still_paused": "list of those of them, or of all tables, that stay paused: by name, or as all is",
            "why": "the reason, or empty",
        },
        "status": {
            "env": "the environment",
            "now": "the instant seen at",
            "next_due": "when something becomes due next, or null",
            "due": "counts by status of what is due and not done",
            "behind": "by table, the older states whose inputs were restated since, and that nobody needs",
            "paused": "as in plan",
            "paused_all": "as in plan",
            "partial": "as in plan",
            "refused": "as in plan",
            "looked": "as in plan",
            "received": "as in plan",
            "kept_at_sources": "as in plan",
            "waits_for_source": "as in plan",
            "open": "by table that closes books, the oldest due window that is open: {label, windows, reason, looked, "
            "behind, is_stuck}",
            "open_windows": "by table that keeps its open windows: {windows, first, shown}: how many there are, the "
            "first of them, and as of when the view shows them",
            "deadlines": "as in plan",
            "offline": "as in plan",
            "silent": "list of {table, since, labels, expected, rows_to}: collects whose newest labels are empty for "
            "unusually long; expected: of so many labels in which something mostly comes",
            "lag": "with --lag: list of {table, labels, fresh_to, behind, inputs_to, behind_inputs, rows, "
            "rows_are_more, done_after, by_watermark}, else null: spans in seconds; rows: of the inputs, from "
            "fresh_to on; done_after: {labels, p50, p95, max, late} of how long after their windows the newest were "
            "done, or null; by_watermark: as in deadlines",
            "clock_back": "{shows, last_recorded, place} where the ledger's clock is a second or more before the "
            "newest record, else null",
            "by": "the period of a column",
            "zone": "the zone in which columns are cut",
            "columns": "list of {start, label, local}, oldest first",
            "rows": "list of {table, cells}; a cell is null or {state, count, of}: the loudest state, in count labels",
        },
        "show": {
            "table": "the table",
            "kind": "collect, transform or publish",
            "type": "regular or partitioned",
            "mode": "append, replace or merge",
            "cadence": "in the language's words",
            "place": "file:line:column of its statement",
            "comment": "or null",
            "owner": "or null",
            "tags": "list",
            "reads": "list of reads, in the language's words",
            "choices": "list of {choice, reads}, where windows choose between queries: `WHEN ...`, and `ELSE` last",
            "columns": "list of {name, type, says, comment}",
            "is_open": "whether columns that are not named are let in",
            "first": "{label, local, end, due} of its first window",
            "newest_label": "or null",
            "newest_end": "the end of its window, or null",
            "labels": "how many labels are done",
            "rows": "how many rows they made in all",
            "due": "counts by status of what is due and not done",
            "left_out": "how many due labels are left for later runs",
            "paused": "{since, by, why, all} of what keeps its batches from being claimed, or null; all: whether it is "
            "the pause of all",
            "open": "as in status, of this table, or null",
            "open_windows": "as in status, or null",
            "sample": "as query prints it, or null",
            "schemas": "list of {of, version, label, claim, at, columns, new, gone, changed}, oldest first: versions "
            "of the columns `of` its source and of the table",
            "deadline": "how long after a window it is to be done, in the language's words, or null",
            "runtime": "how long its batch may take, or null",
            "deadlines": "as in plan, of this table",
            "offline": "as in plan, of this table, or null",
            "kept_at_source": "as in plan's kept_at_sources, of this table, or null",
        },
        "query": {
            "columns": "list of {name, type}; types are Spark's",
            "rows": "list of lists in the columns' order",
            "is_cut": "whether there were more rows than --limit",
            "as_of": "the tick, or null where the tables were read as they are",
            "known_at": "only what was committed by then counts, or null",
            "is_rippling": "whether known_at was set as what is read was restated, and not all has followed",
            "behind": "list of {table, labels}: the batches that have not followed",
            "missing": "with --partial: list of {table, first, last, labels}: the labels left out, and how many",
            "awaited": "with --as-of latest: list of the same: what newer ticks wait for though later labels are made",
        },
        "model": {
            "flat": "with --flat: the table whose FLAT it is, else null",
            "tables": "list of {table, columns}; a column is {name, type, is_key, references, role}; "
            "with --flat {table, role, by, chosen, columns}, and a column is {name, column, type}",
            "file": "where it was drawn, or null",
        },
        "audit": {
            "table": "the table",
            "label": "the label",
            "start": "of its window",
            "end": "of its window",
            "status": "how it stands now",
            "reason": "why, where that is not plain",
            "code_is_current": "whether its rows were made by today's code",
            "claim": "the claim whose rows are read, or null",
            "rows": "how many, or null",
            "stands_from": "of a snapshot: the start of all it stands for, or null",
            "error": "the newest, or null",
            "attempts": "list of {claim, status, who, runner, run, code, flow, now, claimed_at, closed_at, error, "
            "inputs, revision}, oldest first",
            "events": "list of {at, kind, who, claim, data}, oldest first",
            "made_from": "list of {depth, table, label, claim, rows, code, is_replaced}, nearest first; is_replaced: "
            "other rows took the place of these since",
            "went_into": "the same, of what was made from it; is_replaced: it was made of a revision that is replaced",
            "pauses": "list of {at, kind, all, who, why}, oldest first: when its table, or all, was paused and resumed",
            "closing": "{tick, looked, at, reason, behind, who, why} of its books, or null where none are closed",
            "held": "what was sealed and waits for a release, {rows, bytes, folder, measures}, or null",
            "schemas": "which version of the columns it had: of its `source`, and of its `table`",
        },
        "lineage": {
            "table": "the table (of TABLE.COLUMN: `column`, and both lists are trees of {table, column, expression, "
            "note, is_seen, is_unknown, beyond}, of which is_unknown says that of it and the one before it one may be "
            "made of the other, or not; with --impact `column` and `impact` alone, a list of {table, kind, owner, "
            "comment, to, columns, uses, is_sure, why, through}, of which `columns` says by name "
            "copied, computed or may read)",
            "made_from": "list of tables, nearest first",
            "went_into": "list of tables, nearest first",
            "arrows": "list of {from, to, read}; {choices} as well where windows choose between queries that read",
            "shared": "by SHARED view that they read, the tables that do",
            "collected": "the tables of other projects that these collect, by the table that does",
        },
        "openlineage": {
            "env": "the environment",
            "tells": "whether it sends events of lineage",
            "to": "the address or file they go to, or null",
            "namespace": "what all jobs and tables stand under, or null",
            "waiting": "how many events wait",
            "sent_at": "when the last was sent, or null",
            "error": "why the last try was lost, or null; of send, why the next did not arrive",
            "left_out": "how many were refused, though those behind them were taken; of send, in this sending",
            "refusal": "which was refused last and why, or null",
            "sent": "send: how many arrived",
            "is_busy": "send: whether another runner sends just now",
        },
        "drop": {
            "table": "the table",
            "dropped": "list of the labels that were dropped",
            "rows": "how many rows they held",
            "behind": "how many tables behind views of destinations were dropped with them",
            "why": "the reason",
        },
        "files": {
            "table": "the table",
            "as_of": "the tick, or null: as it is now",
            "known_at": "as known when, or null",
            "files": "list of {path, label, bytes}; label is null where a file is of no one label",
            "statements": "with --format hive: list of the SQL statements that register its labels",
        },
        "maintain": {
            "now": "the instant it looked at, or null where there is no ledger yet",
            "dry_run": "whether nothing was changed",
            "export": "the export of the ledger that was written, or null",
            "freed": "the bytes that were freed, or would be",
            "tables": "list of {table, drop_before, is_busy, dropped, joined, unneeded, slices, left_behind, states, "
            "manifests, labels, failed} where there is something; amounts are {count, bytes}, manifests a number; "
            "labels are those dropped behind a destination's view",
            "kept_at_sources": "list of {name, table, connection, failed}: what sources keep that nobody needs, as the "
            "replication slots of tables that went; failed says why it is there still",
        },
        "rebuild": {
            "tables": "list of {table, slices, rows, version, changed, resealed, lost}; changed is a list of "
            "{what, from, to}, resealed and lost are lists of labels; with --all each has its name alone",
            "all": "with --all {batches, rows, kept, carried_on}, else null",
        },
        "reset": {
            "table": "the table",
            "labels": "how many done labels it had",
            "rows": "how many rows they held",
            "changed": "what of its declaration changed: list of {what, from, to}",
            "readers": "list of the tables that read it",
            "publishes": "list of the deliveries of it",
            "why": "the reason, or empty",
        },
        "ledger": {
            "what": "export, rebuild or move",
            "export": "the name of the export that was written, or begun from; null without one",
            "bytes": "of the export that was written",
            "follows": "the export before it, whose rows it does not repeat, or null",
            "adopted": "by table, how many claims were found in commit records",
            "missing": "by table, how many commits were cleaned from its log before they were exported",
            "unknown": "list of claims that committed and left no record",
            "killed": "how many claims were sealed, and had not committed",
            "aside": "where the ledger lies that was there, or null",
            "old": "move: where the ledger was",
            "new": "move: where it is now",
            "batches": "move: how many batches it knows of",
        },
        "runners": {
            "now": "the instant it looked at, by the ledger's clock, or null where there is no ledger yet",
            "runners": "list of {runner, who, command, since, seen, is_gone, has_applied_flow, holds}, oldest first; "
            "holds is a list of {claim, table, labels, since, lease_until}",
        },
        "receive": {
            "address": "where it listens",
            "streams": "the streams that it takes, connection/stream: one is POSTed to at address + stream",
        },
        "ui": {
            "address": "the first page, for those who send the token; told once, when the pages are served",
            "link": "opens the pages in one browser, within an hour",
            "host": "where they are served",
            "port": "at which port",
        },
        "trust": {
            "trusted": "list of the folders whose projects run although another user can change them",
            "list": "the file of this user that lists them; WATERCLOCK_TRUST may name more",
        },
        "warm": {
            "archive": "the file that later starts of Spark take",
            "bytes": "its size",
            "is_new": "whether it was written now",
        },
    }
)
ALIKE = MappingProxyType(dict.fromkeys(("backfill", "recollect", "recompute", "replay", "retry"), "run"))
