"""Error codes of erasing persons."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

ERASING: Mapping[str, Code] = {
    "E460": Code(
        "unknown subject",
        "No column of the flow is declared as a SUBJECT of this name, so no rows can be found by it.",
    ),
    "E461": Code(
        "no key for erasures",
        "An erasure records a keyed hash of each person's value, never the value. The key is the current key of a "
        "connection of type `keys`. The project needs exactly one such connection, or `--keys` names one.",
    ),
    "E462": Code(
        "invalid keys of persons",
        "`erase` needs at least one value that identifies a person. Values are not empty. Those of a subject with "
        "integer columns are integers.",
    ),
    "E463": Code(
        "unfinished erasure",
        "`erase --continue` finishes an erasure that was killed, or whose remaining places can be erased now. It needs "
        "the same subject and the same persons, because the project does not store who they are. A new erasure of the "
        "same persons cannot begin before.",
    ),
    "E464": Code(
        "missing key of an erasure",
        "Rows of erased persons are recognised by a keyed hash. The connection no longer has the key with which an "
        "erasure was recorded. Without it a batch could bring the persons back, so it fails.",
    ),
    "E465": Code(
        "rows of erased persons",
        "The held batch contains rows of persons that were erased after it was made. It cannot be released.",
    ),
    "E466": Code(
        "value without a token",
        "The rows of a batch are read once to give their values tokens, and are cached. If the cache is lost and the "
        "source has changed, a value may have no token. The batch writes nothing then, and can be retried.",
    ),
    "E467": Code(
        "tokens in a branch",
        "A value has one random token in all tables of a project. A branch would decide another one for a new value, "
        "so tables with TOKENS cannot run there. It can read those of its base.",
    ),
}
