"""The answers of `lineage`: of a table, of a column, and the impact of a column."""

from __future__ import annotations

from pydantic import Field

from waterclock.json_models.parts import Answer, AnswerPart, Text, only_if_set, read_from


class LineageArrow(AnswerPart):
    """An input of a table."""

    from_: str = Field(alias="from")
    to: str
    read: str
    """The reference in the query."""
    choices: list[str] | None = only_if_set()
    """The queries that read it, if windows choose between several."""


class LineageAnswer(Answer):
    """JSON output of `lineage TABLE`: the tables upstream and downstream of a table."""

    table: str
    """The table."""
    made_from: list[str]
    """The tables upstream, nearest first."""
    went_into: list[str]
    """The tables downstream, nearest first."""
    arrows: list[LineageArrow]
    """The inputs of all these tables."""
    shared: dict[str, list[str]]
    """The tables that read each SHARED view."""
    collected: dict[str, str]
    """The source of each table that collects from another project: a table of that project."""


class ColumnBranch(AnswerPart):
    """A column in a tree of lineage. `beyond` has the columns that it is made from, or those that it went into."""

    table: str = read_from("column.table")
    column: str = read_from("column.column")
    expression: str = read_from("made.expression")
    note: str = read_from("made.note")
    is_seen: bool
    """Whether the column occurs earlier in the tree, where its branches are."""
    is_unknown: bool
    """Whether it is uncertain that this column and the one before it are made from each other."""
    beyond: list[ColumnBranch]


class ColumnLineageAnswer(Answer):
    """JSON output of `lineage TABLE.COLUMN`: the columns upstream and downstream of a column."""

    column: str
    """The column."""
    made_from: ColumnBranch
    """The tree of columns upstream."""
    went_into: ColumnBranch
    """The tree of columns downstream."""


class AffectedTable(AnswerPart):
    """A table that depends on a column."""

    table: str
    kind: Text
    owner: str | None
    comment: str | None
    to: str | None
    """The destination of a publish."""
    columns: dict[str, Text]
    """How each column of the table uses it: `copied`, `computed` or `may read`."""
    uses: list[str]
    """The clauses that use the column, such as WHERE."""
    is_sure: bool
    why: list[str]
    """The reasons why it is not sure."""
    through: list[str]
    """The tables between the column's table and this one."""


class ImpactAnswer(Answer):
    """JSON output of `lineage --impact`: all tables that depend on a column."""

    column: str
    """The column."""
    impact: list[AffectedTable]
    """The tables that depend on it."""
