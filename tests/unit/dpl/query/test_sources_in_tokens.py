"""The tables after FROM, found by tokens alone."""

from __future__ import annotations

import pytest

from waterclock.dpl.query.sources_in_tokens import sources_in
from waterclock.dpl.syntax.tokens import dialect


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT a FROM raw.t JOIN raw.u USING (id)", ["raw"]),
        ("SELECT a FROM (SELECT b FROM raw.t) x, (raw.u JOIN raw.v)", ["raw"]),
        ("SELECT a FROM (raw.t JOIN raw.u USING (id))", ["raw"]),
        ("SELECT extract(YEAR FROM at), trim(BOTH ' ' FROM a) FROM `my`.t WHERE a IS NOT DISTINCT FROM b", ["my"]),
        ("SELECT substring(a FROM 2 FOR 3) FROM range(3)", []),
        ("SELECT a FROM read_files('/etc/passwd')", ["read_files"]),
        ("FROM raw.t |> SELECT a UNION ALL SELECT a FROM text.`/etc/passwd`", ["raw", "text"]),
        ("SELECT trim((SELECT a FROM secret) FROM b) FROM VALUES (1) AS v(b)", ["secret"]),
        ("TABLE raw.t UNION ALL TABLE raw.u", ["raw", "raw"]),
    ],
)
def test_each_name_behind_from_is_found(text: str, names: list[str]) -> None:
    tokens = dialect().tokenize(text)
    assert [tokens[index].text for index in sources_in(tokens)] == names
