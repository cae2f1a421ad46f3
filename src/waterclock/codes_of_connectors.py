"""Codes of errors of connectors: what their options say, and what goes wrong with their systems."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

RECEIVER: Mapping[str, Code] = {
    "E330": Code(
        "a stream without a name of its own",
        "What senders POST to is /connection/stream: a stream's name has letters, digits, `_` and `-`, and there is "
        "nothing to declare of it but the COLLECT.",
    ),
    "E331": Code(
        "events that are not kept on a disk",
        "Events are answered when they are on disk, and those who write them and who seals them tell each other by "
        "locks of files. An object store has neither: the storage and the archive may lie there.",
    ),
    "E332": Code(
        "a limit on requests that is none",
        "A request holds at least a byte, and no more than Spark reads as one row. The largest one can wait.",
    ),
    "E333": Code(
        "a token that everybody can read",
        "What stands in a project's files is seen by all who see these. A token is named there, as a secret, and kept "
        "elsewhere.",
    ),
}
RECEIVER_AT_WORK: Mapping[str, Code] = {
    "E870": Code(
        "no events to receive",
        "`receive` takes the streams that tables collect from, by connections of TYPE receiver. There are none.",
    ),
    "E871": Code(
        "a segment that was whole and is damaged",
        "What was received lies in frames with checksums. One of them does not add up in a segment that its writer had "
        "ended: the disk, or somebody, changed it. What stands before it was taken; the segment is kept beside.",
    ),
    "E872": Code(
        "a disk that failed under events",
        "After a failed sync nobody can tell what the disk holds: those whose requests waited were told to send them "
        "again, and the receiver ended.",
    ),
    "E873": Code(
        "a door that is open to everybody",
        "Who can reach the address could send events. Beyond this machine each connection has a token.",
    ),
    "E874": Code(
        "a folder of events that cannot be written",
        "Before it listens, the receiver writes to the folder of each stream, so that it is not the first sender who "
        "finds out.",
    ),
}
