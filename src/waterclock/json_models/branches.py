"""The answers of `branch`."""

from __future__ import annotations

from waterclock.json_models.parts import Answer, AnswerPart, Instant


class BranchPart(AnswerPart):
    """A branch: an environment that borrows the tables of another one."""

    name: str
    base: str
    """The environment that it borrows from."""
    storage: str
    """The storage of the tables that it makes."""
    tick: Instant
    """The instant as of which it borrows."""
    created_at: Instant
    expires_at: Instant
    """The end of its lease. It makes nothing after that."""
    tables: int
    """The number of tables that the other environment had made."""
    is_complete: bool
    """False if its creation or deletion was interrupted."""


class BranchAnswer(Answer):
    """JSON output of `branch create`: the new branch."""

    name: str
    """Its name, for `--env`."""
    base: str
    """The environment that it borrows from."""
    storage: str
    """The storage of the tables that it makes."""
    tick: Instant
    """The instant as of which it borrows."""
    created_at: Instant
    """The time of its creation."""
    expires_at: Instant
    """The end of its lease."""
    tables: int
    """The number of tables that the other environment had made."""
    is_complete: bool
    """True."""


class BranchesAnswer(Answer):
    """JSON output of `branch list`: the branches of the project."""

    branches: list[BranchPart]
    """The branches, those of the project file first."""


class DeletedBranchAnswer(Answer):
    """JSON output of `branch delete`: the deleted branch."""

    deleted: str
    """Its name."""
