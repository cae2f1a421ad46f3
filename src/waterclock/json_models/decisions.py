"""The answers of commands that record a user's decision about batches or tables."""

from __future__ import annotations

from pydantic import Field

from waterclock.json_models.parts import Answer, AnswerPart, Instant, Label, TextOrNull


class CloseAnswer(Answer):
    """JSON output of `close`: the closed window."""

    table: str
    """The table."""
    label: Label
    """The window."""
    tick: Instant
    """The boundary at which its books are closed."""
    why: str
    """The reason."""


class SkipAnswer(Answer):
    """JSON output of `skip`: the skipped batches."""

    table: str
    """The table."""
    skipped: list[Label]
    """The skipped labels."""
    given_up: list[Label]
    """The done labels with damaged slices, whose rows the next run removes."""
    others: dict[str, list[Label]]
    """The labels of the other table of APART, which are skipped as well."""
    why: str
    """The reason."""


class ReleaseAnswer(Answer):
    """JSON output of `release`: the released batches."""

    table: str
    """The table."""
    released: list[str]
    """The labels."""
    rows: int
    """The number of rows that they added to the table."""
    others: dict[str, list[str]] = Field(default_factory=dict)
    """The labels of the other table of APART, which are released as well."""
    why: str
    """The reason."""


class RevertedLabelPart(AnswerPart):
    """A label that becomes an earlier revision again. Revisions are named by the claim that committed them."""

    label: Label
    revision: int
    """The revision that it becomes again."""
    replaced: int
    """The revision that was current before."""
    rows: int
    """The number of rows of the revision."""
    replaced_rows: int
    """The number of rows of the replaced revision."""


class RevertAnswer(Answer):
    """JSON output of `revert --dry-run`, `revert --no-run`, or if there is nothing to revert."""

    table: str
    """The table."""
    dry_run: bool
    """Whether nothing was changed (--dry-run)."""
    reverted: list[RevertedLabelPart]
    """The labels that are reverted."""
    others: dict[str, list[RevertedLabelPart]]
    """The labels of the other table of APART, which become the revisions that the same query made."""
    unchanged: list[Label]
    """The selected labels that have the revision already."""
    without: list[Label]
    """The selected labels that have no such revision, and stay as they are."""
    adopted: dict[str, list[Label]]
    """The labels of each table that follow without a computation: they take earlier revisions back."""
    computed: dict[str, list[Label]]
    """The labels of each table that are computed again, if rows differ."""
    notes: list[str]
    """What to know about the revisions."""
    why: str
    """The reason."""


class WithdrawAnswer(Answer):
    """JSON output of `withdraw`: the cancelled requests."""

    withdrawn: dict[str, list[str]]
    """The labels of each table that are no longer requested."""
    why: str
    """The reason."""


class PauseAnswer(Answer):
    """JSON output of `pause`: the paused tables."""

    all: bool
    """Whether the whole project was paused."""
    tables: list[str]
    """The tables that were paused by name."""
    already: list[str]
    """The tables that were paused before, and keep their reason."""
    why: str
    """The reason."""


class ResumeAnswer(Answer):
    """JSON output of `resume`: the resumed tables."""

    all: bool
    """Whether the pause of the whole project ended."""
    tables: list[str]
    """The tables whose own pause ended."""
    still_paused: list[str]
    """The tables among those resumed that are still paused, by name or because all tables are paused."""
    why: str
    """The reason, or empty."""


class DropAnswer(Answer):
    """JSON output of `drop`: the dropped labels."""

    table: str
    """The table."""
    dropped: list[str]
    """The labels."""
    rows: int
    """The number of their rows."""
    behind: int
    """The number of tables at destinations, one for each label behind a view, that were dropped too."""
    why: str
    """The reason."""


class DeclaredChange(AnswerPart):
    """A change of a declaration."""

    what: str
    from_: TextOrNull = Field(alias="from")
    to: TextOrNull


class ResetAnswer(Answer):
    """JSON output of `reset`: the reset table, and the contents that it had."""

    table: str
    """The table."""
    labels: int
    """The number of done labels that it had."""
    rows: int
    """The number of their rows."""
    changed: list[DeclaredChange]
    """The changes of its declaration."""
    readers: list[str]
    """The tables that read it."""
    publishes: list[str]
    """The deliveries of it."""
    late: list[str]
    """The tables of its late rows, which are reset with it."""
    others: list[str]
    """The other table of APART, if it is reset as well."""
    why: str
    """The reason, or empty."""
