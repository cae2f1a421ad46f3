"""Error codes of texts that cannot be checked, and of queries that are refused or stopped."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

TEXTS: Mapping[str, Code] = {
    "E279": Code(
        "text that Spark reads differently",
        "The checks and Spark would split this text into different tokens, so a check could miss code that Spark runs. "
        "The usual causes are an unclosed quotation, a letter that resembles an ASCII letter, or x:// outside of "
        "quotes.",
    ),
    "E267": Code(
        "text nested too deeply",
        "The text exceeds the nesting limit of 100 levels. Brackets, CASE and consecutive operators count. The limit "
        "applies to queries and expressions; deeper texts could crash the process that parses them.",
    ),
}
QUERIES: Mapping[str, Code] = {
    "E730": Code(
        "Spark refuses the query",
        "The place is the one in your file. Spark's own name of the condition is given, and a way to mend it if known. "
        "Where a value of a row fails, the expression is given as it is written, and how to find such rows.",
    ),
    "E731": Code(
        "a query that was stopped",
        "A query of the pages is stopped when its time is over (60 seconds, or WATERCLOCK_UI_QUERY_SECONDS), when its "
        "reader leaves, when its answer is larger than 64 MiB, or when the pages or its process end. The next query "
        "starts another process.",
    ),
    "E732": Code(
        "too many queries",
        "Queries of the pages run one after another. At most eight wait, and at most three of one browser or token. "
        "`waterclock query` starts a Spark of its own.",
    ),
    "E733": Code(
        "a query that does more than read",
        "Queries read tables and compute. This one would run a program, call Java by its name, or open a file; or "
        "Spark's plan of it, which is checked before anything runs, contains a part that is not on the list of those "
        "that read and compute.",
    ),
    "E734": Code(
        "a user-defined type",
        "The schema of a file or of a query names a Python class for its values. PySpark would import it, and with it "
        "run code that is not the project's. Classes that are loaded already, and those of PySpark, are taken.",
    ),
}
