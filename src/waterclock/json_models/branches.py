"""The answers of `branch`, of `plan` in a branch, and of `promote`."""

from __future__ import annotations

from waterclock.json_models.parts import Answer, AnswerPart, Instant, Label


class BranchPart(AnswerPart):
    """A branch: an environment that borrows the tables of another one."""

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
    """The end of its lease. It makes nothing after that."""
    tables: int
    """The number of tables that the other environment had made."""
    is_complete: bool
    """False if its creation or deletion was interrupted."""


class BranchAnswer(BranchPart, Answer):
    """JSON output of `branch create`: the new branch."""


class BranchesAnswer(Answer):
    """JSON output of `branch list`: the branches of the project."""

    branches: list[BranchPart]
    """The branches, those of the project file first."""


class DeletedBranchAnswer(Answer):
    """JSON output of `branch delete`: the deleted branch."""

    deleted: str
    """Its name."""


class BranchPlanAnswer(Answer):
    """JSON output of `plan` in a branch: the tables that differ, and the labels that a run makes."""

    branch: str
    """The branch."""
    base: str
    """The environment that it borrows from."""
    changed: dict[str, list[str]]
    """The transforms with changed code, and the parts that differ."""
    new: list[str]
    """The transforms that the other environment does not have."""
    affected: dict[str, str]
    """The unchanged transforms that are made again, and the table that each reads."""
    collects: list[str]
    """New and changed collects. A branch collects nothing."""
    publishes: list[str]
    """Publishes of these tables. A branch does not deliver them."""
    borrowed: list[str]
    """The tables that are borrowed."""
    labels: dict[str, list[Label]]
    """The labels that a run makes, by table."""


class PromoteAnswer(Answer):
    """JSON output of `promote --dry-run`, or if nothing is to be promoted: the labels that a promotion makes."""

    branch: str
    """The branch."""
    adopted: dict[str, list[Label]]
    """The labels by table whose slices are adopted."""
    computed: dict[str, list[Label]]
    """The labels by table that are computed."""
    reasons: dict[str, str]
    """Why the first of these labels is computed, by table."""
    equal: int
    """The number of labels that are equal already."""
