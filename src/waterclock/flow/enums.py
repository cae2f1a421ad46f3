"""The enumerations of declarations: kinds of statements, modes, kinds of reads, actions of rules and others."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The three kinds of statements that have batches."""

    COLLECT = "collect"
    TRANSFORM = "transform"
    PUBLISH = "publish"


class TableType(StrEnum):
    """The type of a table. REGULAR: one state, with one claim at a time. PARTITIONED: a part and a claim per label.

    Labels of a PARTITIONED publish do not have separate claims.
    """

    REGULAR = "regular"
    PARTITIONED = "partitioned"


class Mode(StrEnum):
    """The way in which a batch changes its table."""

    APPEND = "append"
    REPLACE = "replace"
    MERGE = "merge"
    TEMPORAL = "temporal"


# modes in which a table combines the slices of all labels by key
FOLDS = frozenset({Mode.MERGE, Mode.TEMPORAL})


class OnRestate(StrEnum):
    """The reaction to changed inputs of a done batch: run the batch again, or only report the change."""

    RECOMPUTE = "recompute"
    REPORT = "report"


class Batching(StrEnum):
    """The way in which collected rows are assigned to windows."""

    DATA_TIME = "data time"
    ARRIVAL_TIME = "arrival time"
    CHANGES = "changes"
    SNAPSHOT = "snapshot"
    LABELS = "labels"
    STATE = "state"
    AS_OF = "as of"
    EACH = "each row of a table"


# reads of a table of another project: its slices by their labels, or its state at the end of each window
LINKED = frozenset({Batching.LABELS, Batching.STATE})


class WindowSignal(StrEnum):
    """The signal that a window of a source is complete: a marker file, a later file, or a query's result."""

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
    """The action if rows, or a batch, break a rule."""

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
