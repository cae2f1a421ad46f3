"""The choices of a declaration, each as an enumeration: kinds of tables, modes, ways to batch and to read."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The three data functions."""

    COLLECT = "collect"
    TRANSFORM = "transform"
    PUBLISH = "publish"


class TableType(StrEnum):
    """Regular tables have one open claim at a time; partitioned ones one per label."""

    REGULAR = "regular"
    PARTITIONED = "partitioned"


class Mode(StrEnum):
    """How a batch changes its table."""

    APPEND = "append"
    REPLACE = "replace"
    MERGE = "merge"
    TEMPORAL = "temporal"


# the state is made of the slices of all labels so far, key by key
FOLDS = frozenset({Mode.MERGE, Mode.TEMPORAL})


class OnRestate(StrEnum):
    """What happens to a done batch when what it read has changed: it is made again, or only reported."""

    RECOMPUTE = "recompute"
    REPORT = "report"


class Batching(StrEnum):
    """What decides the window of a collected row."""

    DATA_TIME = "data time"
    ARRIVAL_TIME = "arrival time"
    CHANGES = "changes"
    SNAPSHOT = "snapshot"
    LABELS = "labels"
    STATE = "state"
    EACH = "each row of a table"


# how a table of another project is read: its slices by their labels, or its state at the end of each window
LINKED = frozenset({Batching.LABELS, Batching.STATE})


class Sign(StrEnum):
    """What tells that a source has all of a window."""

    MARKER = "marker"
    NEXT = "next"
    QUERY = "query"


class ReadKind(StrEnum):
    """How a query reads a table: by its plain name, or by a read function."""

    PLAIN = "plain"
    PAST = "past"
    UNTIL = "until"
    HISTORY = "history"
    PREVIOUS = "previous"
    LATEST = "latest"


class Action(StrEnum):
    """What happens where a rule does not hold."""

    FAIL = "fail"
    WARN = "warn"
    HOLD = "hold"
    QUARANTINE = "quarantine"
    DROP = "drop"


class Scope(StrEnum):
    """A rule is asked of each row, of the batch as a whole (it holds an aggregate), or of the table after the batch."""

    ROW = "row"
    BATCH = "batch"
    TABLE = "table"
