"""The answers of `branch`, of `plan` in a branch, of `promote`, and of the page of branches."""

from __future__ import annotations

from waterclock.json_models.page_parts import PageAnswer, PagePart
from waterclock.json_models.parts import Answer, AnswerPart, Instant, Label, OneError


class BranchPart(AnswerPart):
    """A branch: an environment that borrows the tables of another one."""

    name: str
    base: str
    """The environment that it borrows from. Empty if its file is damaged."""
    storage: str
    """The storage of the tables that it makes."""
    tick: Instant | None
    """The instant as of which it borrows. Null if its creation was interrupted, or its file is damaged."""
    created_at: Instant | None
    expires_at: Instant | None
    """The end of its lease. It makes nothing after that."""
    tables: int
    """The number of tables that the other environment had made."""
    is_complete: bool
    """False if its creation or deletion was interrupted."""
    is_expired: bool
    """True after the end of its lease."""
    problem: str | None
    """Why it cannot be used, for example because its base is gone. It can be deleted."""


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


class BranchPlanAnswer(Answer):
    """JSON output of `plan` in a branch: the tables that differ, and the labels that a run makes."""

    branch: str
    """The branch."""
    base: str
    """The environment that it borrows from."""
    changed: dict[str, list[str]]
    """The transforms with changed code, and the parts that differ: `query`, `upstream` if it reads other tables or
    views, `columns`, `types`, `rules`, or the words of other clauses. Their rows may change."""
    new: list[str]
    """The transforms that the other environment does not have."""
    reworded: list[str]
    """Borrowed tables whose statements differ in a way that cannot change rows: comments, spacing, the case of
    keywords, or clauses such as OWNER."""
    affected: dict[str, str]
    """The unchanged transforms that are made again, and the table that each reads."""
    collects: list[str]
    """New and changed collects, and those FOR EACH row of a changed table. A branch collects nothing."""
    publishes: list[str]
    """Publishes of these tables, and changed ones, that have no sandbox. A branch does not deliver them."""
    delivered: list[str]
    """Publishes that deliver to a sandbox."""
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


class ListedBranchPart(PagePart):
    """A branch in the list of the page."""

    name: str
    base: str
    """The environment that it borrows from."""
    tick: Instant | None
    """The instant as of which it borrows; null before it is created."""
    expires_at: Instant | None
    """The end of its lease."""
    error: OneError | None
    """The error because of which it could not be read."""


class BranchTablePart(PagePart):
    """A table that a branch makes itself."""

    table: str
    change: str
    """How it differs: the changed parts of its code, `new`, or the table that it reads."""
    labels: list[Label]
    """The labels that a run of the branch makes."""
    made: int
    """The number of labels that the branch has made with this code."""
    adopted: int
    """The number of labels that a promotion adopts."""
    computed: int
    """The number of labels that a promotion computes."""
    reason: str
    """Why the first of these is computed."""


class BranchesPage(PageAnswer):
    """The branches of the project, and one of them with its tables."""

    branches: list[ListedBranchPart]
    """The branches, those of the project file first."""
    branch: str
    """The shown branch, or an empty text."""
    tables: list[BranchTablePart]
    """The tables that the shown branch makes itself, upstream first."""
    borrowed: list[str]
    """The tables that it borrows."""
    reworded: list[str]
    """Those of them whose statements differ in a way that cannot change rows."""
    collects: list[str]
    """New and changed collects, and those FOR EACH row of a changed table. A branch collects nothing."""
    publishes: list[str]
    """Publishes of its own tables, and changed ones, that have no sandbox. A branch does not deliver them."""
    delivered: list[str]
    """Publishes that deliver to a sandbox."""
    equal: int
    """The number of its labels that its base has already."""
    error: OneError | None
    """The error because of which the shown branch, or its promotion, could not be read."""
