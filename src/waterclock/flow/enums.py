"""The enumerations used in declarations: kinds of statements, modes, types of reads, actions of rules."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The three kinds of statements that have batches."""

    COLLECT = "collect"
    TRANSFORM = "transform"
    PUBLISH = "publish"


class TableType(StrEnum):
    """The type of a table. REGULAR: one claim at a time. PARTITIONED: one claim per label, except for a publish."""

    REGULAR = "regular"
    PARTITIONED = "partitioned"


class Mode(StrEnum):
    """How a batch changes its table."""

    APPEND = "append"
    REPLACE = "replace"
    MERGE = "merge"
    TEMPORAL = "temporal"


# modes whose state combines the slices of all labels so far, key by key
FOLDS = frozenset({Mode.MERGE, Mode.TEMPORAL})


class OnRestate(StrEnum):
    """The action if inputs of a done batch change: run the batch again, or only report the change."""

    RECOMPUTE = "recompute"
    REPORT = "report"


class Batching(StrEnum):
    """How the window of a collected row is determined."""

    DATA_TIME = "data time"
    ARRIVAL_TIME = "arrival time"
    CHANGES = "changes"
    SNAPSHOT = "snapshot"
    LABELS = "labels"
    STATE = "state"
    EACH = "each row of a table"


# reads of a table of another project: its slices by their labels, or its state at the end of each window
LINKED = frozenset({Batching.LABELS, Batching.STATE})


class Sign(StrEnum):
    """The kinds of signs that a window of a source is complete."""

    MARKER = "marker"
    NEXT = "next"
    QUERY = "query"


class ReadKind(StrEnum):
    """The kinds of reads in a query: a plain table name, or one of the read functions."""

    PLAIN = "plain"
    PAST = "past"
    UNTIL = "until"
    HISTORY = "history"
    PREVIOUS = "previous"
    LATEST = "latest"


class Action(StrEnum):
    """The action if a rule is broken."""

    FAIL = "fail"
    WARN = "warn"
    HOLD = "hold"
    QUARANTINE = "quarantine"
    DROP = "drop"


class Scope(StrEnum):
    """The scope of a rule: each row, the batch as a whole (an aggregate), or the table after the batch."""

    ROW = "row"
    BATCH = "batch"
    TABLE = "table"
