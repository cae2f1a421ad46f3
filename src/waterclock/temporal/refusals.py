"""The error codes of the temporal functions, each with its title and its explanation."""

from __future__ import annotations

from collections.abc import Mapping

REFUSALS: Mapping[str, tuple[str, str]] = {
    "E301": (
        "a column that is not there",
        (
            "A key, a time, an attribute or a column of sequence is named that the frame does not have. Names are "
            "taken as they are spelt."
        ),
    ),
    "E302": (
        "a time without a zone",
        (
            "Times are of type TIMESTAMP. A TIMESTAMP_NTZ, a DATE or a text is an instant only in a zone, and Spark "
            "would take its session's in silence. `zone` says which one is meant."
        ),
    ),
    "E303": (
        "a type that cannot be compared",
        ("Spark can neither order nor compare maps, variants and intervals, so nobody can say whether one changed."),
    ),
    "E304": (
        "a row without key or time",
        (
            "Such a row has no place in a history, nor has one whose time is no time (`soon`), lies before the year 1, "
            "or at or after the open end, 9999-12-31: a version would end before it begins. It is left out only where "
            "somebody counts it: with `counts`; else the query stops."
        ),
    ),
    "E305": (
        "keys that do not pair",
        ("A key is one or more columns. Those of child and parent are as many, and of the same types, pair by pair."),
    ),
    "E306": (
        "a frame that is not temporal",
        (
            "A temporal frame has its key and the columns rec_eff_time, rec_exp_time (both TIMESTAMP) and "
            "rec_is_current, as `compute_temporal` gives them."
        ),
    ),
    "E307": (
        "a role used twice",
        ("The columns of that role are there already. Each role of a parent has its own name."),
    ),
    "E308": (
        "names that clash",
        (
            "A column would be there twice. Names differ by more than their case, and those of the record belong to "
            "the temporal functions."
        ),
    ),
    "E309": (
        "periods that overlap",
        (
            "At any time a key has one version at most, and a period ends after it starts. `compute_temporal` makes "
            "such periods from raw rows."
        ),
    ),
    "E310": (
        "an unknown choice",
        ("An argument takes one of a few words, or the name of a zone. The near ones are named."),
    ),
    "E311": (
        "sources of different types",
        (
            "A column of several sources has one type in all of them. Spark would turn one into the other in silence, "
            "and times through the zone of its session."
        ),
    ),
    "E312": (
        "counts of another result",
        (
            "Counts belong to one result of one function: a second one would hide the first. Those of compute_temporal "
            "alone have the numbers by which joins are planned."
        ),
    ),
}
