"""Builds the errors with which the ledger refuses a request, in the common format of all errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from waterclock.batches.ledger_snapshot import OpenClaim, Pause
from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command
from waterclock.similar_names import did_you_mean, find_similar
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    import sqlalchemy as sa

REOPENED_SINCE = "E456"
"""The error code of a claim that is refused because late rows reopened its window after it was planned."""


class ClaimRefused(WaterclockError):
    """A runner's request for a claim was refused."""


class ClaimClosed(WaterclockError):
    """The claim is no longer open, so nothing was recorded. `is_done`: the claim's batches were recorded earlier."""

    is_done: bool = False


def too_many_batches_error(most: int) -> WaterclockError:
    """Build the error for a request of the web UI that affects more than `most` batches."""
    return WaterclockError(
        "E525",
        f"that is more than {most:,} batches",
        why="a page does not list more at once",
        fix="name fewer tables or labels, or use the command line, which has no limit",
    )


_KINDS = frozenset(
    {"sqlite", "postgres", "postgresql", "mysql", "mariadb", "duckdb", "mssql", "oracle", "http", "https", "s3", "file"}
)
_SHOWN_OPTIONS = frozenset(
    {"schema", "host", "hostaddr", "port", "dbname", "user", "application_name", "connect_timeout", "sslmode",
     "sslrootcert", "sslcert", "sslkey", "target_session_attrs", "service", "options", "gssencmode", "channel_binding"}
)  # fmt: skip
_HIDDEN_OPTIONS = ("password", "sslpassword")
_ESCAPES = "signs of a user or a password such as / ? # @ % and blanks are written as %2F %3F %23 %40 %25 and %20"


def no_ledger(url: sa.URL, detail: str) -> WaterclockError:
    """Build the error for a database that is not a ledger."""
    return WaterclockError(
        "E401",
        f"{redact_url(url)} is not a ledger",
        why=detail,
        fix="set another file for the ledger, or move this one away",
    )


def lost_ledger_error(url: str, tables: Sequence[str], others: Sequence[str] = ()) -> WaterclockError:
    """Build the error for a project whose storage has tables or exports, but whose ledger is gone.

    `others` are other schemas of the database with a ledger of the project.
    """
    there = f"{_first_three(tables)} and no ledger" if tables else "only its exports"
    return WaterclockError(
        "E421",
        "the ledger is gone",
        where=url,
        why=f"the storage has {there}: with an empty ledger, all batches would be made again",
        fix=_other_schema_fix(url, others)
        + "`waterclock ledger rebuild` makes it again from its newest export and the commits since",
    )


def _other_schema_fix(url: str, others: Sequence[str]) -> str:
    if url.startswith("sqlite:"):
        return ""
    if others:
        held = _first_three(others)
        return f"set ?schema={others[0]} ({held} has a ledger of the project); if that is another environment's, "
    return "check that the URL has the right database and schema; if it has, "


def _first_three(names: Sequence[str]) -> str:
    return f"{', '.join(names[:3])}{', …' if len(names) > 3 else ''}"


def damaged_ledger_error(url: sa.URL, error: Exception) -> WaterclockError:
    """Build the error for a file that is damaged or no database."""
    return WaterclockError(
        "E422",
        f"the ledger {redact_url(url)} is damaged",
        why=cause_of(error, url),
        fix=(
            "`waterclock ledger rebuild --force` moves it aside and makes it again; if the file is not a ledger, "
            "set another one in waterclock.toml"
        ),
    )


def build_newer_schema_error(url: sa.URL, found: str, known: str) -> WaterclockError:
    """Build the error for a ledger that newer code has changed."""
    return WaterclockError(
        "E402",
        f"{redact_url(url)} was written by a newer version of waterclock",
        why=f"its schema is {found}, this version knows {known}",
        fix="install that version or a later one",
    )


def unreleased_ledger_error(url: sa.URL, found: str, first: str) -> WaterclockError:
    """Build the error for a ledger of a development version before 0.1.0, whose schema cannot be upgraded."""
    return WaterclockError(
        "E402",
        f"{redact_url(url)} was written by a development version of waterclock",
        why=f"its schema is {found}, and upgrades begin at {first}, the schema of version 0.1.0",
        fix="run `waterclock ledger export` with the version that wrote it, then `waterclock ledger rebuild --force` "
        "with this one: it moves this ledger aside, and makes a new one from the export and the commits",
    )


def no_driver(url: sa.URL, error: ImportError) -> WaterclockError:
    """Build the error for a database server whose Python driver is not installed."""
    return WaterclockError(
        "E424",
        f"the ledger {redact_url(url)} needs a driver that is not installed",
        why=str(error),
        fix=extra_install_command("postgres"),
    )


def pool_full(table: str, label: datetime, pool: str, size: int) -> ClaimRefused:
    """Build the error for a batch that exceeds its pool's size."""
    return ClaimRefused(
        "E427",
        f"the pool {pool} is full",
        where=f"{table}@{label_of(label)}",
        why=f"it allows {size} {'batch' if size == 1 else 'batches'} at a time, of all runners together",
        fix="the batch starts when one of them has ended; [pools] in waterclock.toml sets the size of a pool",
        transient=True,
    )


def collected_meanwhile_error(table: str, label: datetime, claim: int | None) -> ClaimRefused:
    """Build the error for collecting a past window that another runner has collected since its source was checked."""
    return ClaimRefused(
        "E828",
        "another runner has collected a past window in the meantime",
        where=f"{table}@{label_of(label)}",
        why=f"another runner made it under claim {claim}, after this runner had checked its source",
        fix="this runner checks again, and takes later changes",
        transient=True,
    )


def range_taken_error(table: str, label: datetime, other: datetime) -> ClaimRefused:
    """Build the error for a log range that was assigned to another label since it was looked up."""
    return ClaimRefused(
        "E850",
        "another runner has taken the next range",
        where=f"{table}@{label_of(label)}",
        why=f"since this runner checked, the range belongs to {table}@{label_of(other)}",
        fix="this runner checks again, and takes the range after it",
        transient=True,
    )


def build_paused_error(table: str, label: datetime, pause: Pause) -> ClaimRefused:
    """Build the error for a batch of a paused table."""
    which = "" if pause.is_of_all else f" {table}"
    return ClaimRefused(
        "E429",
        "all is paused" if pause.is_of_all else f"{table} is paused",
        where=f"{table}@{label_of(label)}",
        why=pause.words("UTC"),
        fix=f"`waterclock resume{which}` ends the pause",
        transient=True,
    )


def no_pause(what: str, *, why: str, fix: str | None = None) -> WaterclockError:
    """Build the error for pausing a table that is paused already, or resuming one that is not paused."""
    return WaterclockError("E430", what, why=why, fix=fix)


def moved_ledger_error(url: sa.URL, to: str) -> WaterclockError:
    """Build the error for writing to a ledger that was moved."""
    return WaterclockError(
        "E425",
        f"the ledger {redact_url(url)} was moved",
        why=f"new batches are recorded in {to}",
        fix=f'set ledger = "{to}" in waterclock.toml, and restart the runner',
    )


def ledger_in_use_error(url: sa.URL, holders: Sequence[OpenClaim]) -> WaterclockError:
    """Build the error for moving a ledger while batches run."""
    runners = sorted({holder.runner for holder in holders})
    return WaterclockError(
        "E426",
        f"the ledger {redact_url(url)} is in use",
        why=f"{len(holders)} {'claim is' if len(holders) == 1 else 'claims are'} open, of {', '.join(runners[:3])}",
        fix="stop the runners; the next run resolves claims of runners that have ended",
    )


def concurrent_move_error(url: sa.URL) -> WaterclockError:
    """Build the error for a move of a ledger, if another move of it ended meanwhile."""
    return WaterclockError(
        "E426",
        f"the ledger {redact_url(url)} is in use",
        why="another move of it ended in the meantime, and later writes are not in this copy",
        fix="move it again, one at a time",
    )


def unknown_url(url: str) -> WaterclockError:
    """Build the error for a URL of an unknown kind, or an invalid one. Of the URL it shows at most a known scheme.

    A malformed URL may be a secret as a whole, or contain one anywhere.
    """
    kind = url.partition("://")[0].partition("+")[0].lower()
    is_kind = kind in _KINDS and "://" in url
    is_server = is_kind and kind.startswith("postgres")
    return WaterclockError(
        "E403",
        f"no ledger can be opened at {kind}://…" if is_kind else "the URL of the ledger is malformed",
        why=f"its parts cannot be distinguished; {_ESCAPES}"
        if is_server
        else "a ledger is a SQLite file or a schema of a PostgreSQL database",
        fix="write sqlite:///path/to/ledger.db, or postgresql://user@host/database",
    )


def unknown_option(url: sa.URL, name: str, known: Iterable[str]) -> WaterclockError:
    """Build the error for a URL option that neither the ledger nor its driver knows."""
    return WaterclockError(
        "E403",
        f"{redact_url(url)}: there is no option {name}"
        if find_similar(name, known)
        else f"{redact_url(url)}: one of its options is unknown",
        why="a ledger's options are schema and the connection options of libpq",
        fix=did_you_mean(name, known, otherwise="leave it out"),
    )


def other_project(found: str, declared: str) -> WaterclockError:
    """Build the error for a flow whose project (`declared`) is not that of the ledger (`found`)."""
    return WaterclockError(
        "E404",
        f"the ledger belongs to project {found}, not {declared}",
        why="each project has its own ledger",
        fix="set another `ledger` or `storage` in waterclock.toml",
    )


def changed_declaration_error(table: str, changes: Iterable[tuple[str, str, str]], where: str) -> WaterclockError:
    """Build the error for a changed declaration that contradicts the table's batches.

    `changes` has the property, its former value and its new one.
    """
    differs = list(changes)
    differences = "; ".join(f"{what} was {old or 'none'}, is now {new or 'none'}" for what, old, new in differs)
    parts = {what for what, _, _ in differs}
    which = "--all`, which makes every table again" if parts & {"cadence", "zone"} else f"{table}`, which makes it"
    rebuild = "" if "kind" in parts else f"`waterclock rebuild {which} from its stage, or "
    return WaterclockError(
        "E405",
        f"{table} has changed, and its batches follow the former declaration",
        where=where,
        why=f"{differences}; until this is resolved, no batch of it or of its readers is made",
        fix=f"restore the declaration, or run {rebuild}`waterclock reset {table}`, which starts it over",
    )


def unapplied_flow_error(own: str, applied: str | None) -> ClaimRefused:
    """Build the error for a claim of a runner whose flow is not the applied one."""
    return ClaimRefused(
        "E406",
        "this runner's flow is not the applied one",
        why=f"the applied flow is {applied or 'none'}, the runner has {own}",
        fix="restart the runner, so that it reads the current flow",
    )


def already_claimed_error(table: str, label: datetime | None, holder: OpenClaim) -> ClaimRefused:
    """Build the error for claiming a batch, or a whole table (`label` None), on which `holder` has an open claim."""
    what = table if label is None else f"{table}@{label_of(label)}"
    return ClaimRefused(
        "E407",
        f"{what} is claimed by {holder.runner}",
        where=what,
        why=f"claim {holder.claim}{_label_words(holder.labels)} is open, "
        f"its lease runs until {holder.lease_until:%Y-%m-%d %H:%M:%S} UTC",
        fix="wait for it to end; the next run takes over a claim whose lease has expired",
        transient=True,
    )


def unfinished_table_error(table: str, what: str, why: str, fix: str) -> WaterclockError:
    """Build the error for a rebuild of all tables while one of them is being reset or rebuilt."""
    return WaterclockError(
        "E407",
        f"{table} is {what}",
        where=table,
        why=why,
        fix=f"wait for its end; if it was killed, {fix}, with the declaration that {table} had then",
    )


def _label_words(labels: Sequence[datetime]) -> str:
    return f" of {', '.join(map(label_of, labels[:3]))}" if labels else ""


def batch_done_error(table: str, label: datetime, claim: int) -> ClaimRefused:
    """Build the error for claiming a done batch that no user requested again and whose inputs did not change."""
    return ClaimRefused(
        "E408",
        f"{table}@{label_of(label)} is done already",
        where=f"{table}@{label_of(label)}",
        why=f"claim {claim} committed it, its inputs have not changed since, and no restatement is requested",
    )


def build_skipped_error(table: str, label: datetime) -> ClaimRefused:
    """Build the error for a batch that a user skipped."""
    return ClaimRefused(
        "E409",
        f"{table}@{label_of(label)} was skipped",
        where=f"{table}@{label_of(label)}",
        fix=f"`waterclock retry {table}@{label_of(label)}` makes it due again",
    )


def reopened_window_error(table: str, label: datetime) -> ClaimRefused:
    """Build the error for a claim on a window that late rows have reopened since it was planned."""
    return ClaimRefused(
        REOPENED_SINCE,
        f"the books of {table}@{label_of(label)} were reopened while it was being claimed",
        where=f"{table}@{label_of(label)}",
        why="late rows arrived for it after its inputs were looked up",
        transient=True,
    )


def inputs_changed(table: str, label: datetime, read: str) -> ClaimRefused:
    """Build the error for a claim whose pinned inputs have changed."""
    return ClaimRefused(
        "E410",
        f"{read} changed while {table}@{label_of(label)} was being claimed",
        where=f"{table}@{label_of(label)}",
        why="the versions to read were looked up before another batch was recorded",
        transient=True,
    )


def closed_claim_error(claim: int, status: str | None) -> ClaimClosed:
    """Build the error for recording under a claim that is not open."""
    error = ClaimClosed(
        "E411",
        f"claim {claim} is {'unknown' if status is None else f'no longer open: {status}'}",
        why="it was recorded before, or its lease expired and another runner took it over",
    )
    error.is_done = status == "done"
    return error


def unknown_table(table: str, known: Iterable[str]) -> WaterclockError:
    """Build the error for a table that no applied flow has declared."""
    return WaterclockError(
        "E412",
        f"the ledger knows no table {table}",
        why="no flow that declares it was applied",
        fix=did_you_mean(table, known, otherwise="`waterclock run` applies the flow"),
    )


def unknown_batch(table: str, label: datetime) -> WaterclockError:
    """Build the error for a batch without stored rows: it was never done, or not by the claim that was given."""
    return WaterclockError(
        "E412",
        f"the ledger knows no rows of {table}@{label_of(label)}",
        where=f"{table}@{label_of(label)}",
        why="the batch was never done, or not by that claim",
        fix=f"`waterclock status {table}` shows its labels",
    )


def build_impossible_error(
    table: str, label: datetime, what: str, *, why: str, fix: str | None = None
) -> WaterclockError:
    """Build the error for a decision, such as a skip or a release, that the state of the batch does not allow."""
    return WaterclockError(
        "E413", f"{table}@{label_of(label)} {what}", where=f"{table}@{label_of(label)}", why=why, fix=fix
    )


def already_closed_error(table: str, label: datetime, tick: datetime) -> WaterclockError:
    """Build the error for closing a window that is already closed."""
    where = f"{table}@{label_of(label)}"
    return WaterclockError(
        "E266",
        f"the books of {where} are closed",
        where=where,
        why=f"they closed at {tick:%Y-%m-%d %H:%MZ}, and stay closed: later rows are late rows",
        fix=f"nothing to fix; `waterclock audit {where}` shows the batch",
    )


def nothing_to_withdraw(where: str, *, why: str, fix: str | None) -> WaterclockError:
    """Build the error for withdrawing a request that does not exist, or that a runner has already started."""
    return WaterclockError("E428", "there is nothing to withdraw", where=where, why=why, fix=fix)


def item_conflict_error(table: str, label: datetime, item: str, other: datetime) -> WaterclockError:
    """Build the error for a source item, such as a file, that another batch of the table has collected."""
    return WaterclockError(
        "E414",
        f"{item} already belongs to {table}@{label_of(other)}",
        where=f"{table}@{label_of(label)}",
        why="an item belongs to one batch of a table, so that no row is duplicated",
        fix="restate the batch: it takes the remaining items",
    )


def existing_ledger_error(place: str, *, may_force: bool = True) -> WaterclockError:
    """Build the error for creating a ledger at a place that has one already."""
    return WaterclockError(
        "E417",
        "a ledger already exists",
        where=place,
        why="a rebuild would lose records that only this ledger has, neither commits nor exports"
        if may_force
        else ("two ledgers cannot be merged"),
        fix="use --force to move it aside first" if may_force else "choose another file or schema",
    )


def ledger_elsewhere(place: str, project: str, others: Sequence[str]) -> WaterclockError:
    """Build the error for creating a second ledger of a project, for example after a misspelt schema name."""
    return WaterclockError(
        "E417",
        f"a ledger of {project} already exists, in another schema",
        where=place,
        why=f"schema {', '.join(others)} of the same database; a second ledger would not know its claims",
        fix=f"set ?schema={others[0]} in the ledger's URL; if that is another environment's, use --force",
    )


def unusable_export(what: str, why: str) -> WaterclockError:
    """Build the error for an export that was cut off, damaged or written by newer code."""
    return WaterclockError(
        "E418",
        f"the export cannot be used: {what}",
        why=why,
        fix="use an earlier one with --from: the later batches are restored from the commit records",
    )


def nothing_to_export(url: str) -> WaterclockError:
    """Build the error for exporting a ledger that does not exist."""
    return WaterclockError(
        "E419",
        "there is no ledger to export",
        where=url,
        fix="run the flow first; `waterclock ledger rebuild` makes a lost ledger again",
    )


def cause_of(error: BaseException, url: sa.URL) -> str:
    """Return a database's own error message, without the credentials of the URL."""
    text = str(getattr(error, "orig", None) or error)
    for secret in sorted(_secrets_of(url), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def redact_url(url: sa.URL) -> str:
    """Return a ledger's URL for display, without its password and with known options only."""
    options = {name: value for name, value in url.query.items() if name in _SHOWN_OPTIONS}
    options |= {name: "***" for name in _HIDDEN_OPTIONS if name in url.query}
    return url.set(query=options).render_as_string(hide_password=True).replace("%2A%2A%2A", "***")


def _secrets_of(url: sa.URL) -> set[str]:
    values = [value for name, value in url.query.items() if name not in _SHOWN_OPTIONS]
    texts = [one for value in values for one in ([value] if isinstance(value, str) else value)]
    found = [one for one in (str(url.password or ""), *texts) if one]
    return {form for one in found for form in (one, quote(one, safe=""), quote_plus(one))}
