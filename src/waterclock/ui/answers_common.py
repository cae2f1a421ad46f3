"""What the answers of all pages are made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Told(BaseModel):
    """An object of an answer."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Answer(Told):
    """A whole answer."""

    version: int
    """Raised where a key is taken away or gets another meaning."""


class OneError(Told):
    """An error, as the command line shows it."""

    code: str
    """`E511`, or the status of an address that no page answers."""
    what: str
    where: str | None
    why: str | None
    fix: str | None
    excerpt: str | None
    transient: bool = False
    """Whether trying again may help."""


class Errors(Answer):
    """What is wrong with what was asked for, or with the project."""

    errors: list[OneError] = Field(min_length=1)


class Part(Told):
    """A part of a sentence, with the state that it is about."""

    text: str
    mark: str | None


class Piece(Told):
    """Neighbours of a ribbon in one state."""

    column: int
    columns: int
    state: str


class Batch(Told):
    """A batch among others."""

    table: str
    label: str
    words: str
    state: str
    address: str


class Note(Told):
    """What somebody knows of a rule."""

    rule: str
    text: str
    who: str
    at: str
