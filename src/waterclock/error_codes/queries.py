"""Error codes of SQL that cannot be checked, and of ad hoc queries that are refused or stopped."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

TEXTS: Mapping[str, Code] = {
    "E279": Code(
        "text with ambiguous tokens",
        "Waterclock and Spark would split this text into different tokens, so the check could miss code that Spark "
        "runs. Nothing was executed. The usual causes are an unclosed quotation, a letter that resembles an ASCII "
        "letter, or x:// outside of quotes.",
    ),
    "E267": Code(
        "text nested too deeply or too long",
        "The text exceeds the nesting limit of 100 levels. Brackets, CASE and consecutive operators count. The limit "
        "applies to queries and expressions; deeper texts could crash the process that parses them. An "
        "ad hoc query also has at most 100,000 characters.",
    ),
}
QUERIES: Mapping[str, Code] = {
    "E730": Code(
        "query refused by Spark",
        "Spark refuses the query. The error shows the place in your file, Spark's error condition and, if known, a "
        "fix. If the value of a row fails, the error shows the expression as written, and a way to find such rows.",
    ),
    "E731": Code(
        "stopped query",
        "A query of the pages was stopped. The time limit is 60 seconds, or WATERCLOCK_UI_QUERY_SECONDS. A query also "
        "stops if its reader leaves, its result exceeds 64 MiB, or the pages or its process end. The next query starts "
        "another process.",
    ),
    "E732": Code(
        "too many queries",
        "The queue for queries of the pages is full. Queries run one after another; at most eight wait, and at most "
        "three per browser or token. `waterclock query` starts its own Spark.",
    ),
    "E733": Code(
        "query not permitted",
        "Queries can only read tables and compute values. This query was refused because it would run a program, call "
        "Java, open a file, or use an operator of Spark that is not permitted. Nothing was executed.",
    ),
    "E734": Code(
        "user-defined type",
        "The schema of a file or a query names a Python class for its values. PySpark would import the class, and so "
        "run code that is not part of the project. Only classes of PySpark and classes that are already imported are "
        "accepted.",
    ),
    "E735": Code(
        "missing key",
        "`decrypt` got a text that was encrypted with a key that its connection does not have any more. Texts of a "
        "lost key cannot be read by anyone. Keep old keys in the connection until no text of them is left.",
    ),
    "E736": Code(
        "text that cannot be decrypted",
        "`decrypt` got a text that `encrypt` did not make, that was changed, or that was encrypted with another "
        "connection, context or secret. The error contains no part of the text.",
    ),
}
