"""The answer of `diff`: the differences of tables between two environments, two times or two revisions."""

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
