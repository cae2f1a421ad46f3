"""The answers about the content of tables: `show`, `query`, `model` and `files`."""

from __future__ import annotations

from typing import Literal

from waterclock.json_models.parts import Answer, AnswerPart, Instant, JsonValue, Label, Text, TextOrNull, read_from
from waterclock.json_models.plan import PauseOfTables
from waterclock.json_models.timeliness import (
    FirstWindowDue,
    OfflineStatus,
    OpenBooksOfTable,
    OpenWindowsOfTable,
    SourceLog,
    WindowDeadline,
)


class ResultColumn(AnswerPart):
    """A column of a result."""

    name: str
    type: str
    """Spark's name of its type."""


class LabelGap(AnswerPart):
    """Labels of a table that are missing, or for which newer ticks wait."""

    table: str
    first: Label
    last: Label
    labels: int


class LabelsBehind(AnswerPart):
    """The batches of a table that were not made again yet after a restatement of their inputs."""

    table: str
    labels: list[Label]


class QueryResultPart(AnswerPart):
    """The result of a query."""

    columns: list[ResultColumn]
    """The columns."""
    rows: list[list[JsonValue]]
    """The rows, with their values in the order of the columns."""
    is_cut: bool
    """Whether there are more rows than --limit."""
    as_of: str | None
    """The tick; null if the tables were read as they are."""
    known_at: str | None
    """Only commits until then count."""
    has_pending_restatements: bool
    """Whether `known_at` was set because inputs were restated, and some batches were not made again yet."""
    behind: list[LabelsBehind]
    """The batches that were not made again yet."""
    missing: list[LabelGap]
    """With --partial: the missing labels."""
    awaited: list[LabelGap]
    """With --as-of latest: the missing labels for which newer ticks wait."""


class QueryAnswer(QueryResultPart, Answer):
    """JSON output of `query`: the result of the query."""


class TableQuery(AnswerPart):
    """One of several queries of a table."""

    choice: str
    """`WHEN ...`, or `ELSE` for the last."""
    reads: list[Text]


class DescribedColumn(AnswerPart):
    """A column of a table."""

    name: str
    type: str
    properties: str
    """The rules and other properties of the column."""
    comment: str


class ColumnsVersion(AnswerPart):
    """A version of the columns, as a batch introduced it, and its changes from the version before."""

    of: Literal["source", "table"]
    version: int
    label: Label
    claim: int
    at: Instant
    columns: dict[str, str]
    new: dict[str, str]
    gone: dict[str, str]
    changed: dict[str, list[str]]
    """The type before and after, of each changed column."""


class PauseOfTable(PauseOfTables):
    """The pause that keeps the batches of a table from being claimed."""

    all: bool = read_from("is_of_all")
    """Whether it is the pause of all tables."""


class ShowAnswer(Answer):
    """JSON output of `show`: a table with its declaration, its status and some of its rows."""

    table: str
    """The table."""
    kind: Text
    """`collect`, `transform` or `publish`."""
    type: Text
    """`regular` or `partitioned`."""
    mode: Text
    """`append`, `replace`, `merge` or `temporal`."""
    cadence: Text
    """In the words of the language."""
    place: Text
    """`file:line:column` of its statement."""
    comment: str | None
    """The comment of its statement."""
    owner: str | None
    """The owner."""
    tags: list[str]
    """The tags."""
    reads: list[Text]
    """The references to its inputs."""
    choices: list[TableQuery]
    """The queries, if windows choose between several."""
    columns: list[DescribedColumn]
    """The columns."""
    is_open: bool
    """Whether columns that are not named are taken as well."""
    first: FirstWindowDue
    """The first window."""
    newest_label: Label | None
    """The newest done label."""
    newest_end: Instant | None
    """The end of the window of that label."""
    labels: int
    """The number of done labels."""
    rows: int
    """The number of rows that these labels made."""
    due: dict[str, int]
    """The number of due batches by status."""
    left_out: int
    """The number of due labels that later runs make."""
    paused: PauseOfTable | None
    """The pause that keeps its batches from being claimed."""
    open: OpenBooksOfTable | None
    """The oldest due window whose books are open."""
    open_windows: OpenWindowsOfTable | None
    """The open windows that the table keeps."""
    sample: QueryResultPart | None
    """Some rows, as `query` prints them."""
    schemas: list[ColumnsVersion]
    """The versions of the columns of its source and of the table, oldest first."""
    deadline: str | None
    """The deadline, in the words of the language."""
    runtime: str | None
    """The time that a batch may take, in the words of the language."""
    deadlines: list[WindowDeadline]
    """The windows that missed their deadline or are near it, and batches that take long."""
    offline: OfflineStatus | None
    """The status of MEASURE ... OFFLINE."""
    kept_at_source: SourceLog | None
    """The log that its source keeps."""


class ModelColumn(AnswerPart):
    """A column in the data model."""

    name: str
    type: TextOrNull
    is_key: bool
    references: str | None
    """The table that it references."""
    role: str | None
    """The role of the reference."""


class ModelTable(AnswerPart):
    """A table in the data model."""

    table: str
    columns: list[ModelColumn]


class ModelAnswer(Answer):
    """JSON output of `model`: the tables, columns and references."""

    flat: None
    """With --flat: the table."""
    tables: list[ModelTable]
    """The tables and their columns."""
    file: str | None
    """The file of the drawing."""


class JoinedColumn(AnswerPart):
    """A column of a FLAT."""

    name: str
    column: str
    """Its name in the joined table."""
    type: TextOrNull


class FlatTable(AnswerPart):
    """A table that FLAT joins."""

    table: str
    role: TextOrNull
    by: list[str]
    """The columns of the join."""
    chosen: TextOrNull
    """How a version of a TEMPORAL table is chosen."""
    columns: list[JoinedColumn]


class FlatModelAnswer(Answer):
    """JSON output of `model --flat`: the tables that FLAT joins to a table."""

    flat: str
    """The table."""
    tables: list[FlatTable]
    """The joined tables."""
    file: str | None
    """The file of the drawing."""


class TableFile(AnswerPart):
    """A file of a table."""

    path: str
    label: str | None
    """Null if the file contains rows of several labels."""
    bytes: int


class FilesAnswer(Answer):
    """JSON output of `files`: the files of a table, for other engines."""

    table: str
    """The table."""
    as_of: Instant | None
    """The tick; null for the table as it is now."""
    known_at: Instant | None
    """Only commits until then count."""
    files: list[TableFile]
    """The files."""
    statements: list[str]
    """With --format hive: the SQL statements that register its labels."""
