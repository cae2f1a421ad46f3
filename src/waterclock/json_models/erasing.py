"""The answer of `erase`, which is also the certificate of an erasure."""

from __future__ import annotations

from pydantic import Field

from waterclock.json_models.parts import Answer, AnswerPart, Instant, Label


class ErasureTable(AnswerPart):
    """The rows that were found in a table before this command."""

    table: str
    kind: str
    columns: list[str]
    """The columns that identify the persons."""
    rows: int
    """The number of rows in current slices."""
    quarantined: int
    """The number of quarantined rows."""
    labels: list[Label]
    """The labels with such rows."""
    older_slices: int
    """The number of slices of older revisions with rows."""
    older_rows: int
    held: list[Label]
    """The labels of held batches with rows."""


class ErasureOriginals(AnswerPart):
    """The originals of a collect with rows of the persons, before this command."""

    table: str
    files: int
    rows: int


class ErasureSearch(AnswerPart):
    """The search of all files of the project for the persons' values, after the erasure."""

    files: int
    bytes: int
    hits: int
    """The number of values that were found."""
    possible: int
    """Short values and numbers that were found where they may mean something else."""


class ErasureStep(AnswerPart):
    """A finished step of the erasure, of this command or of an earlier one that it continues."""

    step: str
    result: dict[str, int]
    """What was removed, counted by kind."""


class ErasurePseudonym(AnswerPart):
    """A table with APART, which keeps its rows. No table has the values of its pseudonyms of the persons any more."""

    table: str
    column: str
    """The column with the pseudonyms."""


class ErasureLeft(AnswerPart):
    """A place that is not erased, or that cannot be searched."""

    place: str
    why: str
    fix: str


class ErasureAnswer(Answer):
    """JSON output of `erase`: what was found, done and left. No value of a person is in it."""

    number: int | None
    """The number of the erasure; null with --dry-run."""
    subject: str
    """The declared subject, such as `customer`."""
    persons: int
    """The number of persons."""
    key: str
    """The name of the secret key of the hashes."""
    hashes: list[str]
    """The keyed hashes of the persons' values."""
    why: str
    """The reason."""
    who: str
    """The user who began the erasure; empty with --dry-run."""
    at: Instant | None
    """The instant at which it began; null with --dry-run."""
    finished_at: Instant | None
    """The instant since which nothing is left; null while places are left."""
    tables: list[ErasureTable]
    """The tables with rows of the persons."""
    originals: list[ErasureOriginals]
    """The originals with rows of the persons, by table."""
    pseudonyms: list[ErasurePseudonym]
    """The tables that keep the persons' rows with pseudonyms."""
    search: ErasureSearch | None
    """null with --dry-run."""
    steps: list[ErasureStep] = Field(default_factory=list)
    """The finished steps."""
    left: list[ErasureLeft]
    """The places that are not erased; empty if nothing is left."""
    not_reached: list[str]
    """Places outside of the project, which no command can erase."""
