"""The answer of `edit`: rows of master data, their history, and what an import changes."""

from __future__ import annotations

from pydantic import Field

from waterclock.json_models.parts import Answer, AnswerPart, Instant


class FormRowPart(AnswerPart):
    """A current row of a form."""

    key: str
    """The value of the KEY; a JSON list if it has several columns."""
    version: int
    """The number of the change that made the row."""
    values: dict[str, str | None]
    """The stored texts by column."""
    waiting: bool
    """Whether a required value is missing, so that the row is not collected."""
    hints: dict[str, str | None] | None
    """The other columns that a publish sent with the key; null if none did."""


class FormChangePart(AnswerPart):
    """A change of a row."""

    version: int
    """The number of the change."""
    batch: int
    """The batch of changes, which `edit undo` takes."""
    at: Instant
    """The time, by the clock of the database."""
    who: str
    """The person."""
    why: str
    """The reason."""
    origin: str
    """edit, import, publish or undo."""
    before: dict[str, str | None] | None
    """The row before; null for a new row."""
    after: dict[str, str | None] | None
    """The row after; null for a deleted one."""
    approved_by: str | None = None
    """The person who approved the change; null if it needed no approval."""
    proposal: int | None = None
    """The proposal that the change was; null if it needed no approval."""


class FormProposalPart(AnswerPart):
    """A proposed batch of changes."""

    number: int
    """The number, which `edit approve` takes."""
    at: Instant
    """The time of the proposal."""
    who: str
    """The person who proposed it."""
    why: str
    """The reason."""
    origin: str
    """edit, import or undo."""
    rows: int
    """The number of rows that change."""
    state: str
    """open, approved, rejected or withdrawn."""
    decided_by: str | None
    """The person who approved, rejected or withdrew it; null if it is open."""
    decided_why: str | None
    """The reason of that person."""


class FormProposedRowPart(AnswerPart):
    """A row of a proposal."""

    key: str
    """The value of the KEY; a JSON list if it has several columns."""
    before: dict[str, str | None] | None
    """The row when it was proposed; null if there was none."""
    current: dict[str, str | None] | None
    """The row now."""
    after: dict[str, str | None] | None
    """The row as proposed; null to delete it."""
    stale: bool
    """Whether another change since makes approval a conflict."""


class FormSuggestionPart(AnswerPart):
    """Values for the empty required columns of a row, from a row with an alike key."""

    values: dict[str, str | None]
    """The values by column."""
    like: str
    """The KEY of the row that has them."""
    likeness: float
    """How alike the keys are, from 0 to 1."""
    rows: int
    """The number of alike rows with these values."""


class FormReviewPart(AnswerPart):
    """The counts of new, changed, equal and invalid rows of an import."""

    new: int
    """The number of new rows."""
    changed: int
    """The number of changed rows."""
    same: int
    """The number of rows that are there already."""
    invalid: list[str]
    """The rows that cannot be saved, with line and reason."""
    ignored: list[str]
    """The columns that the form does not have."""


class EditAnswer(Answer):
    """JSON output of `edit`: rows, history, proposals, or the batch of changes."""

    table: str
    """The table."""
    batch: int | None = None
    """The batch of changes; null if nothing changed."""
    proposal: int | None = None
    """The proposal, if the change waits for approval or was approved."""
    changed: int = 0
    """The number of changed rows."""
    warnings: list[str] = Field(default_factory=list)
    """Rules that changed rows break, and that only warn: the first 20."""
    rows: list[FormRowPart] = Field(default_factory=list)
    """list: the rows."""
    more: bool = False
    """list: whether more rows follow."""
    changes: list[FormChangePart] = Field(default_factory=list)
    """history: the changes of the row, newest first."""
    proposals: list[FormProposalPart] = Field(default_factory=list)
    """proposals: the open ones, oldest first; or the one with the given number."""
    proposed: list[FormProposedRowPart] = Field(default_factory=list)
    """proposals NUMBER: its rows."""
    suggestions: list[FormSuggestionPart] = Field(default_factory=list)
    """suggest: values of alike keys, the most alike first."""
    review: FormReviewPart | None = None
    """import: what it changes."""
