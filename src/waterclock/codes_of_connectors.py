"""Codes of errors of the systems that are reached: logs by position, and each connector's own."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

CONNECTORS_AT_WORK: Mapping[str, Code] = {
    "E850": Code(
        "a range of a log that another label owns",
        "Between the look at the end of a log and the claim, another runner gave what comes next to another label. The "
        "log is looked at once more, so that nothing is taken twice.",
    ),
    "E851": Code(
        "a gap between two labels of a log",
        "Each label owns a range of the log, which begins where that of the label before ends. What the connector "
        "gives next leaves something out or reads it twice. Nothing was read.",
    ),
}
BY_CHANGES: Mapping[str, Code] = {
    "E325": Code(
        "changes without a place",
        "BY CHANGES takes what became of each row of a table from its log: MERGE keeps the last row of each key, "
        "TEMPORAL all versions. A QUERY has no log.",
    ),
    "E326": Code(
        "another order than the log's",
        "The changes of a key come in the order in which they were committed. ORDER BY would let a column decide that.",
    ),
    "E327": Code(
        "a time that deletes do not have",
        "Of a row that was deleted a log tells the key, and when that was committed. So the time of a TEMPORAL "
        "collected BY CHANGES is a column AS (_change.at), or the window's end.",
    ),
    "E328": Code(
        "what no change tells",
        "_change.op is what a change did, _change.at when it was committed, _change.lsn where in the log, _change.xid "
        "by which transaction. A collect BY CHANGES has these, and nothing else.",
    ),
    "E329": Code(
        "single changes left out",
        "A change that is set aside or dropped leaves the table unlike its source, and no later change tells. Rules of "
        "such a collect WARN, HOLD or FAIL; a TRANSFORM of it may QUARANTINE and DROP.",
    ),
}
CHANGES: Mapping[str, Code] = {
    "E860": Code(
        "the log behind the last batch is gone",
        "A replication slot keeps the log of the server until it was collected. It was dropped, moved on by somebody, "
        "or had to let go of more than max_slot_wal_keep_size. What happened since the last batch cannot be read any "
        "more; the table is taken whole once more where OPTIONS (snapshot) says so.",
    ),
    "E861": Code(
        "a server that is not set up for changes",
        "It needs wal_level = logical, a free replication slot, a user with REPLICATION, and wal2json or the right to "
        "make a publication of the table.",
    ),
    "E862": Code(
        "a table whose changes are not told",
        "The log tells of plain tables, by their primary key or, with REPLICA IDENTITY FULL, by all columns. The KEY "
        "of the collect must be among these.",
    ),
    "E863": Code(
        "a table that was altered beside its log",
        "New columns with values, other types and names, or another table of the same name change rows of which the "
        "log does not tell. OPTIONS (snapshot) with a new text takes the table whole with the next batch.",
    ),
    "E865": Code(
        "a log that cannot be read", "The server's output plugin wrote something that is none of its messages."
    ),
    "E866": Code(
        "a slot that is being read", "A replication slot has one reader at a time: it is tried again until it is free."
    ),
    "E867": Code(
        "a table that was emptied under its snapshot",
        "A snapshot that was taken before a TRUNCATE, or before a table was rewritten, sees the table as it is after "
        "it. So that the snapshot and the log do not contradict each other, it is taken anew.",
    ),
}
