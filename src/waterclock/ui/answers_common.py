"""The parts that the answers of all pages share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Told(BaseModel):
    """An object in an answer."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Answer(Told):
    """A complete answer."""

    version: int
    """Raised if a key is removed or changes its meaning."""


class OneError(Told):
    """An error, as the command line shows it."""

    code: str
    """A code such as `E511`, or the HTTP status of an address without a page."""
    what: str
    where: str | None
    why: str | None
    fix: str | None
    excerpt: str | None
    transient: bool = False
    """Whether a retry may help."""


class Errors(Answer):
    """The errors of the request or of the project."""

    errors: list[OneError] = Field(min_length=1)


class Part(Told):
    """A part of a sentence, with the state that it is about."""

    text: str
    mark: str | None


class Piece(Told):
    """Adjacent columns of a ribbon in one state."""

    column: int
    columns: int
    state: str


class Batch(Told):
    """A batch in a list."""

    table: str
    label: str
    words: str
    state: str
    address: str


class Note(Told):
    """A user's note on a rule."""

    rule: str
    text: str
    who: str
    at: str
