"""Parses and resolves selections of tables and labels, with the same grammar for every command.

tables    = item { separator item } [ "except" item { separator item } ]
item      = [ "+" ] ( name | pattern | "tag:" word ) [ "+" ] [ "@" labels ]
labels    = point | [ point ] ".." [ point ]
point     = YYYYMMDDHHmm00 | YYYY-MM-DD | YYYYMMDD | YYYY-MM | YYYY | YYYY-MM-DDTHH:MM [ Z | +HH:MM ]

Items are separated by blanks or a comma. A + before an item adds all upstream tables, a + after it all downstream
tables. A pattern contains * or ?, such as marts.*. A range includes both ends. A date, month or year means every label
in it, in the table's time zone. Names with other characters need `backticks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from fnmatch import fnmatchcase

from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow, Table
from waterclock.flow.graph import closure, other_part, parents_of
from waterclock.flow.open_windows import tables_by_view
from waterclock.similar_names import did_you_mean, find_similar
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.instant import out_of_range_error
from waterclock.timelabel.label import instant_of, label_of
from waterclock.timelabel.zone import local_text, parse_instant

_MINUTE = timedelta(minutes=1)
_TOKEN = re.compile(
    r"(?P<blank>\s+)|(?P<comma>,)|(?P<plus>\+)|(?P<at>@(?P<labels>[^\s,]*))|`(?P<quoted>[^`]+)`|(?P<word>[^\s,+@`]+)"
)
_POINT = re.compile(
    r"(?P<label>[0-9]{14})|(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?)"
    r"|(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8})|(?P<month>[0-9]{4}-[0-9]{2})|(?P<year>[0-9]{4})"
)
_FORMS = (
    "a label is 20130105000000, 2013-01-05, 20130105, 2013-01, 2013 or 2013-01-05T06:00, a range 2013-01-01..2013-01-07"
)


@dataclass(frozen=True, slots=True)
class LabelPoint:
    """One end of a label range, as the user wrote it. `kind` is label, time, date, month or year."""

    text: str
    kind: str

    def span(self, zone: str) -> tuple[datetime, datetime]:
        """Return the time range `[low, high)` that the point covers in a time zone. Raises E106 after year 9999."""
        try:
            return self._span(zone)
        except OverflowError:
            raise out_of_range_error(self.text) from None

    def _span(self, zone: str) -> tuple[datetime, datetime]:
        if self.kind == "label":
            low = instant_of(self.text)
            return low, low + _MINUTE
        if self.kind == "time":
            low = parse_instant(self.text.upper(), zone)
            return low, low + _MINUTE
        if self.kind == "year":
            first = date(int(self.text), 1, 1)
            return _date_start(first, zone), _date_start((first + timedelta(days=366)).replace(month=1, day=1), zone)
        if self.kind == "month":
            first = date.fromisoformat(f"{self.text}-01")
            return _date_start(first, zone), _date_start((first + timedelta(days=31)).replace(day=1), zone)
        day = date.fromisoformat(self.text)
        return _date_start(day, zone), _date_start(day + timedelta(days=1), zone)


@dataclass(frozen=True, slots=True)
class Labels:
    """A range of labels that includes both ends. An end that is None is open; `Labels()` means all labels."""

    low: LabelPoint | None = None
    high: LabelPoint | None = None

    @classmethod
    def from_range(cls, first: datetime, last: datetime) -> Labels:
        """Return the range of labels from `first` to `last`."""
        return cls(LabelPoint(label_of(first), "label"), LabelPoint(label_of(last), "label"))

    def __str__(self) -> str:
        low, high = (self.low.text if self.low else ""), (self.high.text if self.high else "")
        return low if low and low == high else f"{low}..{high}"

    def bounds(self, cadence: Cadence) -> tuple[datetime | None, datetime | None]:
        """Return the range `[low, high)` of selected labels, rounded up to window starts; None for an open end."""
        low = self.low.span(cadence.zone)[0] if self.low else None
        high = self.high.span(cadence.zone)[1] if self.high else None
        return (low and cadence.ceil(low)), (high and cadence.ceil(high))

    def contains(self, label: datetime, cadence: Cadence) -> bool:
        """Return whether the window that starts at `label` is selected."""
        low, high = self.bounds(cadence)
        return (low is None or low <= label) and (high is None or label < high)

    def limit_to(self, table: Table, start: datetime, end: datetime) -> tuple[datetime, datetime]:
        """Return the range `[low, high)` of selected labels, limited to the table's windows in `[start, end)`.

        Raises E513 if no label remains; the error lists the nearest ones.
        """
        low, high = self.bounds(table.cadence)
        low, high = max(low or start, start), min(high or end, end)
        if low >= high:
            raise _no_label_error(self, table, start, end)
        return low, high


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected tables, upstream first, and the label ranges of the tables that were selected with an `@`.

    `added` are those that no text selects: the other tables of declarations with APART.
    """

    tables: tuple[str, ...]
    labels: Mapping[str, Labels] = field(default_factory=dict)
    added: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Item:
    text: str
    column: int
    is_tag: bool
    is_exact: bool
    with_upstream: bool
    with_downstream: bool
    labels: Labels | None


def parse_labels(text: str) -> Labels:
    """Parse a label or a range of labels. Raises E512 for an invalid label, E514 for a reversed range."""
    body = text.strip()
    low, at = _parse_point(body, 0)
    if at == len(body) and low is not None:
        return Labels(low, low)
    if not body.startswith("..", at):
        raise _invalid_labels_error(text, at)
    high, end = _parse_point(body, at + 2)
    if end != len(body):
        raise _invalid_labels_error(text, end)
    if low and high and low.span("UTC")[0] >= high.span("UTC")[1]:
        raise WaterclockError(
            "E514",
            f"the labels {text!r} end before they start",
            why="a range starts with the older label, and includes both",
            fix=f"write {high.text}..{low.text}",
        )
    return Labels(low, high)


def select(flow: Flow, *texts: str, has_both_parts: bool = False) -> Selection:
    """Return the tables and labels that the texts select; all tables without texts. Raises E510 to E512, E514.

    With `has_both_parts`, a text that selects one of the two tables of APART selects the other one as well, with the
    same labels.
    """
    included, excluded = _parse_items(" ".join(texts))
    labels: dict[str, Labels] = {}
    found = set() if included else set(flow.tables)
    named = set(found)
    for item in included:
        names = _match_tables(flow, item)
        others = _other_parts(flow, names) - names if has_both_parts else set()
        named |= names
        found |= names | others
        if item.labels is not None:
            labels = dict.fromkeys(others, item.labels) | labels | dict.fromkeys(names, item.labels)
    for item in excluded:
        names = _match_tables(flow, item)
        found -= names | (_other_parts(flow, names) if has_both_parts else set())
    order = flow.order or tuple(flow.tables)
    kept = tuple(name for name in order if name in found)
    if excluded and not kept:
        raise WaterclockError(
            "E511",
            f"no table matches {' '.join(texts)}",
            why="`except` excludes all of its tables",
            fix="exclude fewer tables",
        )
    of_kept = {name: labels[name] for name in kept if name in labels}
    return Selection(kept, of_kept, frozenset(name for name in kept if name not in named))


def _parse_items(text: str) -> tuple[list[_Item], list[_Item]]:
    """Parse a text into the selected items and those removed by `except`."""
    included: list[_Item] = []
    excluded: list[_Item] = []
    current, at = included, 0
    while at < len(text):
        token = _next_token(text, at)
        if token["blank"] or token["comma"]:
            at = token.end()
        elif token["word"] and token["word"].lower() == "except" and current is included:
            current, at = excluded, token.end()
        else:
            item, at = _parse_item(text, at)
            current.append(item)
    if current is excluded and not excluded:
        raise _invalid_selection_error(text, len(text), "name the tables to leave out after except")
    return included, excluded


def _parse_item(text: str, at: int) -> tuple[_Item, int]:
    column, token = at + 1, _next_token(text, at)
    with_upstream = bool(token["plus"])
    if with_upstream:
        token = _next_token(text, token.end())
    quoted, word = token["quoted"], token["word"]
    if quoted is None and word is None:
        raise _invalid_selection_error(text, token.start(), "a table name, a pattern or tag:word is expected here")
    is_tag = word is not None and word.startswith("tag:")
    name = quoted or word.removeprefix("tag:")
    at, with_downstream, labels = token.end(), False, None
    if at < len(text) and (token := _next_token(text, at))["plus"]:
        with_downstream, at = True, token.end()
    if at < len(text) and (token := _next_token(text, at))["at"]:
        labels, at = parse_labels(token["labels"]), token.end()
    if at < len(text) and not ((token := _next_token(text, at))["blank"] or token["comma"]):
        raise _invalid_selection_error(text, at, "separate items with spaces or commas")
    return _Item(name, column, is_tag, quoted is not None, with_upstream, with_downstream, labels), at


def _next_token(text: str, at: int) -> re.Match[str]:
    token = _TOKEN.match(text, at)
    if token is None:
        raise _invalid_selection_error(text, at, "a name ends here" if at == len(text) else "a backtick is not closed")
    return token


def _match_tables(flow: Flow, item: _Item) -> set[str]:
    if item.is_tag:
        names = {name for name, table in flow.tables.items() if item.text in table.about.tags}
    elif not item.is_exact and any(mark in item.text for mark in "*?"):
        names = {name for name in flow.tables if fnmatchcase(name, item.text.replace("[", "[[]"))}
    else:
        names = {item.text} & set(flow.tables)
    if not names:
        raise _unknown_table_error(flow, item)
    up = closure(names, parents_of(flow)) if item.with_upstream else set()
    down = closure(names, _readers_by_table(flow)) if item.with_downstream else set()
    return names | up | down


def _other_parts(flow: Flow, names: Iterable[str]) -> set[str]:
    return {other for name in names if (other := other_part(flow, name)) is not None}


def _readers_by_table(flow: Flow) -> dict[str, set[str]]:
    children: dict[str, set[str]] = {name: set() for name in flow.tables}
    for name, parents in parents_of(flow).items():
        for parent in parents:
            children[parent].add(name)
    return children


def _parse_point(text: str, at: int) -> tuple[LabelPoint | None, int]:
    match = _POINT.match(text, at)
    if match is None:
        return None, at
    kind = str(match.lastgroup)
    point = LabelPoint(match[0], kind)
    try:
        point.span("UTC")
    except (WaterclockError, ValueError) as refusal:
        if isinstance(refusal, ValueError):
            raise _invalid_labels_error(text, at, f"{match[0]} is not a date: {refusal}") from None
        is_read_whole = match.end() == len(text) or text.startswith("..", match.end())
        if refusal.code == "E106" and is_read_whole:
            raise  # valid syntax, but outside the supported years
        raise _invalid_labels_error(text, at if is_read_whole else match.end()) from None
    return point, match.end()


def _date_start(day: date, zone: str) -> datetime:
    return parse_instant(day.isoformat(), zone)


def _invalid_labels_error(text: str, at: int, why: str = _FORMS) -> WaterclockError:
    return WaterclockError(
        "E512",
        f"cannot read {text!r} as labels",
        excerpt=f"{text}\n{' ' * at}^",
        why=why,
        fix="write one of these forms" if why == _FORMS else _FORMS,
    )


def _invalid_selection_error(text: str, at: int, why: str) -> WaterclockError:
    return WaterclockError(
        "E510",
        f"cannot read the selection {text!r}",
        excerpt=f"{text}\n{' ' * at}^",
        why=why,
        fix="such as +marts.revenue, marts.*, tag:daily or shop.orders@20130101..20130107",
    )


def _unknown_table_error(flow: Flow, item: _Item) -> WaterclockError:
    if item.is_tag:
        tags = {tag for table in flow.tables.values() for tag in table.about.tags}
        listed = f"the tags are {', '.join(sorted(tags))}" if tags else "no table has a tag"
        return WaterclockError(
            "E511", f"no table has the tag {item.text}", fix=did_you_mean(item.text, tags), why=listed
        )
    if shown := tables_by_view(flow).get(item.text):
        return WaterclockError(
            "E511",
            f"{item.text} is a view of {shown}, not a table",
            why="a view has no batches",
            fix=f"query it with `waterclock query`, or name {shown}",
        )
    if now := next((name for name, table in flow.tables.items() if table.was == item.text), None):
        why = f"it is declared WAS {item.text}, and has its history"
        return WaterclockError("E511", f"{item.text} is called {now} now", why=why, fix=f"name {now}")
    of = item.text.removesuffix("_quarantine")
    if of != item.text and of in flow.tables:
        return WaterclockError(
            "E511",
            f"{item.text} is the quarantine of {of}, not a table of its own",
            why=f"quarantined rows belong to the batches of {of}",
            fix=f"`waterclock query 'SELECT * FROM {item.text}'` shows its rows, `waterclock replay {of}` retries them",
        )
    if (of := item.text.removesuffix("_held")) != item.text and of in flow.tables:
        return WaterclockError(
            "E511",
            f"{item.text} contains the held rows of {of}, and is not a table of its own",
            why=f"held rows belong to the batches of {of}",
            fix=f"`waterclock query 'SELECT * FROM {item.text}'` shows it, `waterclock release {of}@LABEL` releases "
            "them",
        )
    bare = item.text.replace("*", "").strip(".")
    near = (
        find_similar(item.text, flow.tables)
        or find_similar(bare, flow.tables)
        or _find_similar_tables(bare, flow.tables)
    )
    names = ", ".join(list(flow.tables)[:3]) + (", …" if len(flow.tables) > 3 else "")
    return WaterclockError(
        "E511",
        f"no table matches {item.text}",
        why=f"the project has {len(flow.tables)} tables" if near else f"the project's tables are {names or 'none yet'}",
        fix=f"did you mean {' or '.join(near)}?" if near else "name a table, a pattern such as marts.*, or tag:word",
    )


def _find_similar_tables(text: str, names: Iterable[str]) -> list[str]:
    """Return the tables whose names, compared without their schemas, are similar to the name in `text`."""
    by_last = {name.rpartition(".")[2]: name for name in names}
    return [by_last[part] for part in find_similar(text.rpartition(".")[2], by_last)]


def _no_label_error(labels: Labels, table: Table, start: datetime, end: datetime) -> WaterclockError:
    why = f"its windows are {table.cadence}"
    if start >= end:
        fix = f"its first label {label_of(start)} is not due yet"
    else:
        low, high = labels.bounds(table.cadence)
        if high is not None and high <= start:
            note = "" if table.start is None else ", its START"
            why = f"its first window is {local_text(start, table.cadence.zone)}{note}"
        elif low is not None and low >= end:
            why = f"its newest window that has ended is {local_text(table.cadence.previous(end), table.cadence.zone)}"
        wanted = low or high or start
        near = dict.fromkeys(_adjacent_labels(table.cadence, min(max(wanted, start), end), start, end))
        shown = (f"{label_of(label)} ({local_text(label, table.cadence.zone)})" for label in near)
        fix = f"the nearest: {' or '.join(shown)}"
    return WaterclockError("E513", f"no label of {table.name} is in {labels}", why=why, fix=fix)


def _adjacent_labels(cadence: Cadence, wanted: datetime, start: datetime, end: datetime) -> Iterator[datetime]:
    if wanted > start:
        yield cadence.previous(wanted)
    if wanted < end:
        yield wanted
