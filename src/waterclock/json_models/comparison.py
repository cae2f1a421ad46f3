"""The answers of `diff`: the differences of tables between two environments, two times or two revisions, and why."""

from __future__ import annotations

from typing import Literal

from waterclock.json_models.parts import Answer, AnswerPart, Instant, JsonValue, Label, OneError


class MeasureDifference(AnswerPart):
    """A measure of a label that differs."""

    name: str
    """The name of the measure, or `quarantined rows`."""
    before: str | None
    after: str | None


class LabelComparison(AnswerPart):
    """A label that differs, or whose measures differ."""

    label: Label
    differs: bool
    """Whether its rows or columns differ, or one side does not have it. Measures alone are no difference."""
    before: int | None
    """The number of its rows before; null if that side does not have the label."""
    after: int | None
    """The number of its rows after; null if that side does not have the label."""
    added: int
    removed: int
    changed: int
    """The rows that both sides have by KEY, with other values."""
    has_other_columns: bool
    """Whether its columns or their types differ."""
    measures: list[MeasureDifference]


class ColumnTypeDifference(AnswerPart):
    """A column with another type, or that one side does not have."""

    column: str
    before: str | None
    """Its type before; null if that side does not have the column."""
    after: str | None
    """Its type after; null if that side does not have the column."""
    labels: int
    """The number of labels."""


class LargestNumberChange(AnswerPart):
    """The row in which a number changed most."""

    label: Label
    key: dict[str, JsonValue]
    before: JsonValue
    after: JsonValue


class ColumnDifference(AnswerPart):
    """A column that differs in changed rows."""

    column: str
    rows: int
    """The number of changed rows in which it differs."""
    largest: LargestNumberChange | None
    """For a number, its largest change."""


class RowDifference(AnswerPart):
    """A row that differs."""

    kind: Literal["changed", "added", "removed"]
    label: Label
    times: int
    """How often the row occurs more on one side than on the other."""
    before: dict[str, JsonValue] | None
    """Its values by column before; null for an added row."""
    after: dict[str, JsonValue] | None
    """Its values by column after; null for a removed row."""


class TableComparisonPart(AnswerPart):
    """The differences of a table."""

    table: str
    differs: bool
    key: list[str]
    """The columns by which rows were matched; empty if they were compared as multisets, or not read."""
    equal: int
    """The number of equal labels."""
    read: int
    """The number of labels whose rows were read. All others are equal by their digests."""
    single: int
    """The number of labels without an earlier revision, which were not compared."""
    dropped_before: Label | None
    """Labels before this one were dropped by RETAIN on one side, and were not compared."""
    held: list[Label]
    """Labels of which a rule holds rows. Held rows are not compared."""
    held_before: list[Label]
    """Labels of which a rule holds rows in the other environment, with --against. These are not compared either."""
    labels: list[LabelComparison]
    """The labels that differ, or whose measures differ."""
    types: list[ColumnTypeDifference]
    """The columns that differ in type, or that one side does not have."""
    unlike: list[str]
    """Columns whose values were not compared, because their types differ too much."""
    columns: list[ColumnDifference]
    """The columns that differ in changed rows, most rows first."""
    rows: list[RowDifference]
    """Some differing rows, at most --limit of each kind."""
    error: OneError | None
    """The error because of which the table could not be compared."""


class DiffAnswer(Answer):
    """JSON output of `diff`: the differences of the compared tables."""

    differs: bool
    """Whether a table differs. The exit code is then 3."""
    env: str
    """The environment of the rows after."""
    against: str | None
    """The environment of the rows before, with --against."""
    as_known: Instant | None
    """The instant as known at which the rows before are taken, with --as-known."""
    tables: list[TableComparisonPart]
    """The compared tables."""


class ComparedRevision(AnswerPart):
    """A revision of a label on one side."""

    claim: int
    """The claim that committed it, as in `audit`."""
    rows: int
    digest: str | None
    """The digest of its rows; null if none is known."""
    made_at: Instant


class BatchOfPath(AnswerPart):
    """A batch through which a difference reaches the explained one."""

    table: str
    label: Label


class RestateRequest(AnswerPart):
    """The request of a user that made a label again."""

    what: str
    """The command, such as `recollect`."""
    by: str
    """The user."""
    why: str
    """The reason that the user gave."""


class DifferenceCause(AnswerPart):
    """What differs first in some labels of a table, while all that they were made from is equal."""

    kind: Literal["code", "source", "revert", "missing", "range", "digest", "rows", "unknown"]
    """`code`: the code of the table; its inputs may differ as well. `source`: the source of a collect. `revert`: one
    side was reverted. `missing`: only one side read the labels. `range`: the same code reads other labels. `digest`: a
    digest is missing, so the rows may be equal. `rows`: only the rows. `unknown`: rows that the trail has lost."""
    table: str
    labels: list[Label]
    """The labels that differ so, oldest first."""
    parts: list[str]
    """The parts of the code that differ: `query`, `columns`, `rules`, or the words of other clauses."""
    source: str | None
    """The source that the table collects."""
    request: RestateRequest | None
    """The last request to make the first of the labels again."""
    before: ComparedRevision | None
    """The revision of the first of the labels before; null if that side did not have it."""
    after: ComparedRevision | None
    """The revision of the first of the labels after; null if that side did not have it."""
    path: list[BatchOfPath]
    """The batches through which the first of the labels reaches the explained one; empty for the latter."""


class WhyAnswer(Answer):
    """JSON output of `diff --why`: the first differences upstream of a label."""

    differs: bool
    """Whether a selected label differs. The exit code is then 3."""
    env: str
    """The environment of the rows after."""
    against: str | None
    """The environment of the rows before, with --against."""
    as_known: Instant | None
    """The instant as known at which the rows before are taken, with --as-known."""
    table: str
    """The explained table."""
    label: Label
    """The explained label: the oldest of the selected ones that differs, else the newest of them."""
    differing: int
    """The number of selected labels that differ."""
    equal: int
    """The number of selected labels that are equal."""
    before: ComparedRevision | None
    """Its revision before; null if that side does not have the label."""
    after: ComparedRevision | None
    """Its revision after; null if that side does not have the label."""
    causes: list[DifferenceCause]
    """What differs first, upstream tables first."""
    compared: int
    """The number of batches that were compared."""
    is_complete: bool
    """False if the search was stopped because there were too many batches. There may be more causes."""
