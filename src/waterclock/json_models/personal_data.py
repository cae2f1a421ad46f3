"""The answer of `pii` and of its page: the columns with personal data, the reasons, and missing decisions."""

from __future__ import annotations

from waterclock.json_models.page_parts import PageAnswer
from waterclock.json_models.parts import Answer, AnswerPart, Label, only_if_set


class PersonalReason(AnswerPart):
    """A reason why a column contains personal data."""

    by: str
    """`tag`, `name`, `values` or `lineage`."""
    kind: str | None = only_if_set()
    """The kind of personal data, such as `email`."""
    pattern: str | None = only_if_set()
    """The pattern of the values."""
    share: float | None = only_if_set()
    """The share of the sampled values that contain the pattern."""
    values: int | None = only_if_set()
    """How many values were sampled."""
    columns: list[str] | None = only_if_set()
    """The columns from which it derives."""
    is_sure: bool | None = only_if_set()
    """Whether it certainly derives from them."""


class PersonalColumnPart(AnswerPart):
    """A column with personal data."""

    column: str
    """The column; `*` stands for columns whose names are not known."""
    tag: str | None
    """The tag that it declares: `pii`, or null."""
    reasons: list[PersonalReason]
    missing: str | None
    """What to declare, or null if nothing is missing."""


class PersonalTable(AnswerPart):
    """A table or PUBLISH with personal data."""

    table: str
    kind: str
    sampled_label: Label | None
    """The label of the sampled rows, or null."""
    sampled_rows: int
    columns: list[PersonalColumnPart]


class PersonalDataAnswer(Answer):
    """JSON output of `pii`: the columns with personal data."""

    tables: list[PersonalTable]
    """The tables and PUBLISHes that were searched or have such columns."""
    missing: int
    """The number of columns for which a declaration is missing."""


class PersonalDataPage(PageAnswer):
    """The columns with personal data, as `pii` without `--rows` finds them."""

    tables: list[PersonalTable]
    """The selected tables and PUBLISHes that have such columns."""
    missing: int
    """The number of columns for which a declaration is missing."""
