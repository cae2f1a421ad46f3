"""Models of the JSON that all pages share. Pages may return more keys than their models declare, for display."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from waterclock.json_models.parts import AnswerPart, OneError


class PagePart(AnswerPart):
    """Base class of the JSON objects in responses of pages. Additional keys are ignored."""

    model_config = ConfigDict(extra="ignore")


class PageAnswer(PagePart):
    """The complete answer of a page."""

    version: int
    """Raised if a key is removed or changes its meaning."""


class Errors(PageAnswer):
    """The errors of the request or of the project."""

    errors: list[OneError] = Field(min_length=1)


class Part(PagePart):
    """A part of a sentence, with the state that it is about."""

    text: str
    mark: str | None


class Piece(PagePart):
    """Adjacent columns of a table's row in the grid that have the same state."""

    column: int
    columns: int
    state: str


class BatchEntry(PagePart):
    """A batch in a list."""

    table: str
    label: str
    words: str
    state: str
    address: str


class Note(PagePart):
    """A user's note on a rule."""

    rule: str
    text: str
    who: str
    at: str
