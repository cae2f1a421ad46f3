"""The error codes of the temporal functions, each with its title and its explanation."""

from __future__ import annotations

from collections.abc import Mapping

REFUSALS: Mapping[str, tuple[str, str]] = {
    "E301": (
        "unknown column of a DataFrame",
        ("A key, a time, an attribute or a sequence column is not in the DataFrame. Names are case-sensitive."),
    ),
    "E302": (
        "time without a zone",
        (
            "The column is not of type TIMESTAMP. A TIMESTAMP_NTZ, a DATE or a text is an instant only in a zone, and "
            "Spark would silently use its session's zone. Pass `zone`."
        ),
    ),
    "E303": (
        "non-comparable type",
        (
            "Spark can neither order nor compare maps, variants and intervals, so changes in such a column cannot be "
            "detected."
        ),
    ),
    "E304": (
        "row without key or time",
        (
            "The row has no valid key or time, so it has no place in a history. Invalid times are texts such as "
            "`soon`, and times before the year 1. Times at or after the open end 9999-12-31 are also invalid, because "
            "a version would end before it begins. Such rows are left out if `counts` is passed; otherwise the query "
            "fails."
        ),
    ),
    "E305": (
        "mismatched keys",
        (
            "The keys of child and parent do not match. They need the same number of columns, and each pair of columns "
            "needs the same type."
        ),
    ),
    "E306": (
        "not a temporal DataFrame",
        (
            "A temporal DataFrame needs its key and the columns rec_eff_time, rec_exp_time (both TIMESTAMP) and "
            "rec_is_current. `compute_temporal` returns such a DataFrame."
        ),
    ),
    "E307": (
        "role used twice",
        ("The columns of this role already exist. Give each role of a parent a unique name."),
    ),
    "E308": (
        "duplicate temporal column",
        (
            "A column would exist twice. Names must differ by more than case, and the names of record columns are "
            "reserved for the temporal functions."
        ),
    ),
    "E309": (
        "overlapping periods",
        (
            "A key has at most one version at any time, and a period ends after it starts. The periods here overlap or "
            "are empty. `compute_temporal` makes valid periods from raw rows."
        ),
    ),
    "E310": (
        "unknown argument value",
        ("The argument accepts one of a few words, or the name of a zone. The error lists the nearest ones."),
    ),
    "E311": (
        "sources with different types",
        (
            "A column has different types in several sources. Spark would convert them silently, and times with the "
            "zone of its session. Use one type in all sources."
        ),
    ),
    "E312": (
        "reused Counts",
        (
            "The Counts object was used for another result, or does not have the requested numbers. Counts belong to "
            "one result of one function: a second result would hide the first. Only those of compute_temporal have the "
            "numbers for planning joins."
        ),
    ),
}
