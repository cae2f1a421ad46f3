"""The answers of commands that maintain, rebuild and move stored tables and the ledger."""

from __future__ import annotations

from pydantic import Field

from waterclock.json_models.decisions import DeclaredChange
from waterclock.json_models.parts import Answer, AnswerPart, Instant, Label


class FileAmount(AnswerPart):
    """A number of files, and their size in bytes."""

    count: int
    bytes: int


class TableMaintenance(AnswerPart):
    """The changes to the files of a table."""

    table: str
    drop_before: Instant | None
    """Windows before this instant are dropped (RETAIN)."""
    is_busy: bool
    """Whether a batch, a rebuild or a reset is running, so that nothing was changed."""
    dropped: FileAmount
    joined: FileAmount
    """Small files that were joined."""
    unneeded: FileAmount
    """Files that no kept version needs."""
    slices: FileAmount
    """Slices that are not needed."""
    left_behind: FileAmount
    """Folders of broken claims."""
    states: FileAmount
    """Old states that were made again."""
    manifests: int
    """The number of outdated symlink manifests."""
    labels: list[str]
    """The labels that were dropped behind a destination's view."""
    failed: list[str]


class UnneededLog(AnswerPart):
    """A log that a source keeps for a removed table, such as a replication slot."""

    name: str
    table: str
    connection: str
    failed: str | None
    """The error, if the log could not be dropped."""


class MaintainAnswer(Answer):
    """JSON output of `maintain`: its changes, or with --dry-run the changes that it would make."""

    now: Instant | None
    """The instant of the check; null without a ledger."""
    dry_run: bool
    """Whether nothing was changed."""
    export: str | None
    """The export of the ledger that was written."""
    freed: int
    """The number of bytes that were freed, or would be."""
    tables: list[TableMaintenance]
    """The tables with changes."""
    kept_at_sources: list[UnneededLog]
    """The logs that sources keep for removed tables."""


class RebuiltTable(AnswerPart):
    """A rebuilt table."""

    table: str
    slices: int
    rows: int
    version: int
    changed: list[DeclaredChange]
    resealed: list[Label]
    """The labels that were sealed again."""
    lost: list[Label]
    """The labels with damaged slices, which are due again."""


class RebuildAnswer(Answer):
    """JSON output of `rebuild TABLE`: the rebuilt tables."""

    tables: list[RebuiltTable]
    """The tables, upstream first."""
    all: None
    """With --all: the totals."""


class RebuiltName(AnswerPart):
    """The name of a rebuilt table."""

    table: str


class RebuildTotals(AnswerPart):
    """The totals of a rebuild of all tables."""

    batches: int
    rows: int
    kept: int
    """The number of labels that stay, since they are before START, or RETAIN dropped their inputs."""
    carried_on: bool
    """Whether the tables of a killed rebuild were moved in."""


class RebuildAllAnswer(Answer):
    """JSON output of `rebuild --all`: the rebuilt tables."""

    tables: list[RebuiltName]
    """The tables."""
    all: RebuildTotals
    """The totals."""


class LedgerAnswer(Answer):
    """JSON output of `ledger export`, `ledger rebuild` and `ledger move`: the result."""

    what: str
    """`export`, `rebuild` or `move`."""
    export: str | None = None
    """The export that was written, or from which the ledger was rebuilt."""
    bytes: int = 0
    """The size of the export that was written."""
    follows: str | None = None
    """The export before it, whose rows it does not repeat."""
    adopted: dict[str, int] = Field(default_factory=dict)
    """The number of claims of each table that were found in commit records."""
    missing: dict[str, int] = Field(default_factory=dict)
    """The number of commits of each table that were cleaned from its log before they were exported."""
    unknown: list[int] = Field(default_factory=list)
    """The claims that committed and left no record."""
    killed: int = 0
    """The number of claims that were sealed and not committed."""
    aside: str | None = None
    """The new place of the ledger that existed before."""
    old: str | None = None
    """move: the old address."""
    new: str | None = None
    """move: the new address."""
    batches: int = 0
    """move: the number of batches in the ledger."""


class WarmAnswer(Answer):
    """JSON output of `warm`: the class archive for later starts of Spark."""

    archive: str
    """The file that later starts of Spark use."""
    bytes: int
    """Its size."""
    is_new: bool
    """Whether it was written now."""
