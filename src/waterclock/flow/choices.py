"""Enumerations of a declaration's choices: kinds of tables, modes, ways to batch and to read."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The three data functions."""

    COLLECT = "collect"
    TRANSFORM = "transform"
    PUBLISH = "publish"


class TableType(StrEnum):
    """The type of a table: regular, one open claim at a time, as for each publish; or partitioned, one per label."""

    REGULAR = "regular"
    PARTITIONED = "partitioned"


class Mode(StrEnum):
    """How a batch changes its table."""

    APPEND = "append"
    REPLACE = "replace"
    MERGE = "merge"
    TEMPORAL = "temporal"


# the state is folded from the slices of all labels so far, key by key
FOLDS = frozenset({Mode.MERGE, Mode.TEMPORAL})


class OnRestate(StrEnum):
    """The reaction of a done batch to changed inputs: it runs again, or the change is only reported."""

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


# how a table of another project is read: its slices by their labels, or its state at the end of each window
LINKED = frozenset({Batching.LABELS, Batching.STATE})


class Sign(StrEnum):
    """The sign by which a source shows that a window is complete."""

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
