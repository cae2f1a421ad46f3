"""Checks the rules of a project: SQL queries in `rules/*.sql` whose rows are places that break the rule.

A file starts with comments: what breaks the rule (`-- message: …`), and optionally `-- severity: warning` and
`-- fix: …`. Text in braces is replaced by columns of the row, as in `{name} has no owner`.
"""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.dpl.config.file_name import RULES_FOLDER
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.errors import WaterclockError
from waterclock.operations.rule_database import RuleDatabase, RuleRefused, RuleRows, RuleStopped
from waterclock.operations.rule_relations import LEDGER_RELATIONS, RELATIONS, ProjectFacts, SqlValue
from waterclock.similar_names import did_you_mean, find_similar

if TYPE_CHECKING:
    from waterclock.dpl.project import Project

ERROR, WARNING = "error", "warning"
_CODES = {ERROR: "E395", WARNING: "W207"}
_INVALID, _STOPPED = "E396", "E397"
_KEYS = ("message", "severity", "fix")
_LONGEST_FILE = 100_000  # bytes
_HEADER_LINE = re.compile(r"[ \t]*(?:--[ \t]*(?:(?P<key>\w+)[ \t]*:[ \t]*(?P<value>[^\n]*?))?[^\n]*)?(?:\n|\Z)")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_UNKNOWN_COLUMN = re.compile(r"no such column: (?:\w+\.)?(?P<name>.+)")
_AMBIGUOUS_COLUMN = re.compile(r"ambiguous column name: (?P<name>.+)")
_UNKNOWN_TABLE = re.compile(r"no such table: (?:main\.)?(?P<name>.+)")
_UNKNOWN_FUNCTION = re.compile(r"(?:no such function|wrong number of arguments to function):? (?P<name>\w+)")
_SYNTAX = re.compile(r'near "(?P<name>.+)": syntax error', re.DOTALL)


@dataclass(frozen=True, slots=True)
class ProjectRule:
    """A rule of the project: its name, its text, and the parts of its header."""

    name: str
    source: SourceText
    message: Span
    severity: str = ERROR
    fix: Span | None = None


@dataclass(frozen=True, slots=True)
class RuleFindings:
    """The errors and warnings of all rules. Invalid rules are errors."""

    errors: tuple[WaterclockError, ...] = ()
    warnings: tuple[WaterclockError, ...] = ()


def check_project_rules(project: Project, *, connect: bool = False) -> RuleFindings:
    """Run the rules of a project. Without `connect`, a ledger on a server is not read, and its relations are empty."""
    files = sorted((project.root / RULES_FOLDER).glob("*.sql"))
    if not files:
        return RuleFindings()
    errors, warnings = list[WaterclockError](), list[WaterclockError]()
    with closing(RuleDatabase(ProjectFacts(project, connect))) as database:
        for file in files:
            try:
                rule = read_rule(file)
                found = [*_describe_rows(rule, _ask(database, rule))]
            except WaterclockError as error:
                errors.append(error)
            else:
                (errors if rule.severity == ERROR else warnings).extend(found)
    return RuleFindings(tuple(errors), tuple(warnings))


def read_rule(file: Path) -> ProjectRule:
    """Read the file of a rule. Raises E396 if it is no text, or if its header is invalid."""
    name = f"{RULES_FOLDER}/{file.name}"
    try:
        content = _read_start(file)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise WaterclockError(_INVALID, f"the rule {file.stem} cannot be read", where=name, why=str(error)) from error
    if len(content) > _LONGEST_FILE or "\0" in text:
        why = f"it has more than {_LONGEST_FILE:,} bytes" if len(content) > _LONGEST_FILE else "it has a NUL"
        raise WaterclockError(_INVALID, f"the rule {file.stem} cannot be read", where=name, why=why)
    source = SourceText(name, text.replace("\r\n", "\n"))
    header = _read_header(source)
    if "message" not in header:
        raise source.span(0).refuse(
            _INVALID,
            f"the rule {file.stem} has no message",
            fix="start the file with `-- message: {name} has no owner`",
        )
    severity = header.get("severity")
    if severity is not None and severity.text not in _CODES:
        raise severity.refuse(_INVALID, f"unknown severity {severity.text}", fix="write error or warning")
    return ProjectRule(
        file.stem, source, header["message"], ERROR if severity is None else severity.text, header.get("fix")
    )


def _read_start(file: Path) -> bytes:
    """Read a file up to its maximum size. Raises OSError for anything but a file: a pipe would never end."""
    if not file.is_file():
        raise OSError("it is no regular file")
    with file.open("rb") as opened:
        return opened.read(_LONGEST_FILE + 1)


def _read_header(source: SourceText) -> dict[str, Span]:
    """Return the spans of the values in the comments at the start of a file. Other comments are ignored."""
    found: dict[str, Span] = {}
    at = 0
    while at < len(source.text) and (line := _HEADER_LINE.match(source.text, at)) is not None:
        at = line.end()
        key = line["key"]
        if key is None:
            continue
        if key not in _KEYS:
            if find_similar(key, _KEYS):
                raise source.span(line.start("key")).refuse(
                    _INVALID, f"unknown key {key} of a rule", fix=did_you_mean(key, _KEYS)
                )
            continue
        if key in found:
            raise source.span(line.start("key")).refuse(_INVALID, f"{key} is declared twice", fix="remove one of them")
        end = source.text.find("\n", line.start("value"))
        value = source.text[line.start("value") : None if end < 0 else end].rstrip()
        if not value:
            raise source.span(line.start("key")).refuse(_INVALID, f"{key} of a rule is empty", fix=f"write a {key}")
        found[key] = source.span(line.start("value"), line.start("value") + len(value))
    return found


def _ask(database: RuleDatabase, rule: ProjectRule) -> RuleRows:
    """Run the query of a rule. Raises E396 for an invalid query, E397 for one that was stopped."""
    sql = rule.source.text
    try:
        found = database.ask(sql)
    except RuleStopped as stopped:
        raise WaterclockError(
            _STOPPED,
            f"the rule {rule.name} was stopped",
            where=rule.source.file,
            why=str(stopped),
            fix="join relations on names, and end recursive queries",
        ) from stopped
    except RuleRefused as refused:
        raise _find_span(rule, refused.name).refuse(
            _INVALID,
            str(refused),
            why="rules only read the declarations and the ledger of the project",
            fix="write one SELECT with the relations and functions in the reference of rules",
        ) from refused
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _sql_error(database, rule, error) from error
    if "place" not in {name.lower() for name in found.columns}:
        raise _find_span(rule, "select").refuse(
            _INVALID,
            f"the rule {rule.name} returns no column place",
            why="each row is a place that breaks the rule",
            fix="add place to the SELECT; each relation of declarations has it",
        )
    for text in (rule.message, rule.fix):
        _require_placeholders(text, found.columns)
    return found


def _require_placeholders(text: Span | None, columns: Iterable[str]) -> None:
    known = {name.lower() for name in columns}
    for found in _PLACEHOLDER.finditer("" if text is None else text.text):
        if text is not None and found[1].lower() not in known:
            start = text.start + found.start(1)
            raise text.source.span(start, start + len(found[1])).refuse(
                _INVALID,
                f"the query returns no column {found[1]}",
                why=f"it returns {', '.join(columns)}",
                fix=did_you_mean(found[1], columns),
            )


def _describe_rows(rule: ProjectRule, found: RuleRows) -> Iterator[WaterclockError]:
    """Yield an error or a warning for each place that breaks a rule, once for equal ones."""
    rows = {
        (_fill_in(rule.message.text, row), row["place"], None if rule.fix is None else _fill_in(rule.fix.text, row))
        for row in ({name.lower(): value for name, value in each.items()} for each in found.rows)
    }
    why = f"it breaks the rule {rule.name} of the project in {rule.source.file}"
    for message, place, fix in sorted(rows, key=str):
        where = rule.source.file if place is None else str(place)
        yield WaterclockError(_CODES[rule.severity], message, where=where, why=why, fix=fix)
    if found.is_cut:
        what = f"the rule {rule.name} is broken at more than {len(found.rows):,} places"
        yield WaterclockError(_CODES[rule.severity], what, where=rule.source.file, fix="fix these first")


def _fill_in(text: str, row: Mapping[str, SqlValue]) -> str:
    return _PLACEHOLDER.sub(lambda found: "NULL" if (value := row[found[1].lower()]) is None else str(value), text)


def _sql_error(database: RuleDatabase, rule: ProjectRule, error: Exception) -> WaterclockError:
    """Build the error for a query that SQLite refuses, with its place and the nearest name."""
    text = str(error)
    if wrong := _UNKNOWN_COLUMN.match(text):
        known = {column for relation in database.relations.values() for column in relation.columns}
        fix = did_you_mean(wrong["name"], sorted(known), otherwise="the columns are in the reference of rules")
        return _find_span(rule, wrong["name"]).refuse(_INVALID, text, fix=fix)
    if wrong := _AMBIGUOUS_COLUMN.match(text):
        fix = f"write RELATION.{wrong['name']}"
        return _find_span(rule, wrong["name"], before=r"\w.").refuse(_INVALID, text, fix=fix)
    if wrong := _UNKNOWN_TABLE.match(text):
        known_tables = (*RELATIONS, *LEDGER_RELATIONS)
        fix = did_you_mean(wrong["name"], known_tables, otherwise=f"the relations are {', '.join(known_tables)}")
        return _find_span(rule, wrong["name"]).refuse(_INVALID, f"there is no relation {wrong['name']}", fix=fix)
    if wrong := _UNKNOWN_FUNCTION.match(text):
        return _find_span(rule, wrong["name"]).refuse(_INVALID, text, fix="rules are in the SQL of SQLite")
    if wrong := _SYNTAX.match(text):
        return _syntax_span(rule, wrong["name"], text).refuse(
            _INVALID, f"syntax error near {wrong['name']}", why="rules are in the SQL of SQLite"
        )
    if "bindings" in text:
        text = "a rule has no parameters"
    if "one statement" in text:
        text = "a rule is one SELECT"
    return _find_span(rule, "select").refuse(_INVALID, f"the rule {rule.name} failed: {text}")


def _without_comments(sql: str) -> str:
    """Replace comments and quoted texts by blanks of the same length."""
    pattern = r"--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'"
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), sql, flags=re.DOTALL)


def _find_span(rule: ProjectRule, name: str | None, *, before: str = r"\w") -> Span:
    """Return the first place of a name that no character of `before` precedes, or else the query's first word."""
    code = _without_comments(rule.source.text)
    found = None if name is None else re.search(rf"(?i)(?<![{before}]){re.escape(name)}(?!\w)", code)
    found = found or re.search(r"\w+", code)
    return rule.source.span(0) if found is None else rule.source.span(found.start(), found.end())


def _syntax_span(rule: ProjectRule, near: str, text: str) -> Span:
    """Return the token at which the query stops being valid: SQLite reports the token without its place."""
    found = [*re.finditer(re.escape(near), _without_comments(rule.source.text))]
    with closing(sqlite3.connect(":memory:")) as probe:

        def fails(token: re.Match[str]) -> bool:
            try:
                probe.execute(f"EXPLAIN {rule.source.text[: token.end()]}")
            except (sqlite3.Error, sqlite3.Warning) as error:
                return str(error) == text
            return False

        # a text that fails at a token fails there with all that follows, too
        first = bisect_left(found, x=True, key=fails)
    if first < len(found):
        return rule.source.span(found[first].start(), found[first].end())
    return _find_span(rule, None)
