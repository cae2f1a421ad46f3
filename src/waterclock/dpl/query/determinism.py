"""Reports calls whose result differs between runs. They are refused: the same inputs must give the same output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.query.builtins import arguments
from waterclock.dpl.syntax.source_text import SourceText
from waterclock.errors import WaterclockError

_WINDOW = "use WINDOW_END() or WINDOW_START(), the time of the batch"
_RANDOM = "choose rows by a hash of a key, as in pmod(xxhash64(id), 100) < 10"
_ID = "compute it from columns of the row, as in sha2(concat_ws('|', a, b), 256)"
_PLACE = "leave it out: a row must not depend on where it is computed"
_SESSION = "leave it out: rows must not depend on the user or session of a batch"
_SKETCH = "use percentile(column, 0.5)"
_KLL = [
    f"KLL_{part}_{kind}"
    for part in ("SKETCH_AGG", "MERGE_AGG", "SKETCH_MERGE")
    for kind in ("BIGINT", "DOUBLE", "FLOAT")
]
_CALLS = {
    "NOW": _WINDOW, "CURDATE": _WINDOW, "CURRENT_TIMESTAMP": _WINDOW, "CURRENT_DATE": _WINDOW, "CURRENT_TIME": _WINDOW,
    "LOCALTIMESTAMP": _WINDOW, "SYSDATE": _WINDOW, "GETDATE": _WINDOW, "SYSTIMESTAMP": _WINDOW, "TODAY": _WINDOW,
    "RAND": _RANDOM, "RANDN": _RANDOM, "RANDOM": _RANDOM, "RANDSTR": _RANDOM, "UNIFORM": _RANDOM, "SHUFFLE": _RANDOM,
    "UUID": _ID, "MONOTONICALLY_INCREASING_ID": _ID,
    "INPUT_FILE_NAME": _PLACE, "INPUT_FILE_BLOCK_START": _PLACE, "INPUT_FILE_BLOCK_LENGTH": _PLACE,
    "SPARK_PARTITION_ID": _PLACE,
    "CURRENT_USER": _SESSION, "SESSION_USER": _SESSION, "CURRENT_DATABASE": _SESSION, "CURRENT_SCHEMA": _SESSION,
    "USER": _SESSION, "CURRENT_PATH": _SESSION, "VERSION": _SESSION,
    **dict.fromkeys(_KLL, _SKETCH),  # more values than a sketch keeps are thinned out at random
    "CURRENT_CATALOG": _SESSION, "REFLECT": _SESSION, "JAVA_METHOD": _SESSION, "TRY_REFLECT": _SESSION,
}  # fmt: skip
_ENCRYPT = "AES_ENCRYPT"
WATCHED = frozenset({*_CALLS, _ENCRYPT, "UNIX_TIMESTAMP", "TABLESAMPLE"})
_BARE = frozenset(
    {"CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP", "CURRENT_USER", "SESSION_USER"}
)
_UNLESS_COLUMNS = frozenset({*_BARE, "USER"})
_BUILTIN = (["BUILTIN"], ["SYSTEM", "BUILTIN"])
_TEXTS = frozenset({TokenType.STRING, TokenType.RAW_STRING})
_VECTOR = "pass an initialization vector as the fifth argument, another one for each value"
_WHY = "the same inputs and the same code must give the same output, or a batch cannot be repeated"
_ALIAS_FOLLOWS = frozenset(
    {TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.NUMBER, TokenType.STRING, TokenType.ALIAS,
     TokenType.DOT}
)  # fmt: skip


def check_deterministic_call(
    source: SourceText, tokens: Sequence[Token], index: int, upper: str
) -> WaterclockError | None:
    """Return the error if the token at `index` begins a nondeterministic call, such as `now()`; else None.

    `upper` is the token in capitals.
    """
    if tokens[index].token_type in _TEXTS:
        return None
    if upper == "UNIX_TIMESTAMP":
        fix: str | None = _WINDOW
    elif upper == _ENCRYPT:
        fix = None if _has_fixed_vector(tokens, index) else _VECTOR
    elif upper == "TABLESAMPLE":
        return _check_sample(source, tokens, index)
    else:
        fix = _CALLS.get(upper)
    if fix is None:
        return None
    before = tokens[index - 1].token_type if index else None
    following = tokens[index + 1].token_type if index + 1 < len(tokens) else None
    is_call = following is TokenType.L_PAREN and (before is not TokenType.DOT or _qualifier(tokens, index) in _BUILTIN)
    if upper == "UNIX_TIMESTAMP":
        is_call = is_call and index + 2 < len(tokens) and tokens[index + 2].token_type is TokenType.R_PAREN
    is_bare = upper in _BARE and before not in _ALIAS_FOLLOWS and following is not TokenType.DOT
    if not (is_call or is_bare):
        return None
    is_quoted = tokens[index].token_type is TokenType.IDENTIFIER and not is_call
    return source.span(tokens[index].start, tokens[index].end + 1).refuse(
        "E215",
        f"{tokens[index].text} returns another value each time",
        why=_WHY,
        fix=f"{fix}; for a column, write its table's alias before it" if is_quoted else fix,
    )


def check_bare_call(source: SourceText, name: Any) -> WaterclockError | None:
    """Return the error for a name without brackets that Spark calls if no column has it, as in `SELECT user`."""
    start, upper = name.meta.get("start"), name.name.upper()
    if start is None or upper not in _UNLESS_COLUMNS:
        return None
    span = source.span(start, name.meta.get("end", start) + 1)
    return span.refuse("E215", f"{name.name} returns another value each time", why=_WHY, fix=_CALLS[upper])


def _has_fixed_vector(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a call of `aes_encrypt` is deterministic: it has an initialization vector, or needs none (ECB)."""
    given = [[token.text.upper() for token in argument] for argument in arguments(tokens, index + 1)]
    is_without = len(given) > 2 and given[2] == ["ECB"]
    return is_without or (len(given) > 4 and given[4] != [""])


def _qualifier(tokens: Sequence[Token], index: int) -> list[str]:
    """Return the upper-case qualifiers of a call: `system.builtin.rand()` → SYSTEM, BUILTIN."""
    names: list[str] = []
    while index >= 2 and tokens[index - 1].token_type is TokenType.DOT:
        index -= 2
        names.insert(0, tokens[index].text.upper())
    return names


def _check_sample(source: SourceText, tokens: Sequence[Token], index: int) -> WaterclockError | None:
    """Return the error for TABLESAMPLE, whose rows depend on how Spark divides the input into tasks."""
    if index + 1 >= len(tokens) or tokens[index + 1].token_type is not TokenType.L_PAREN:
        return None
    return source.span(tokens[index].start, tokens[index].end + 1).refuse(
        "E215",
        "TABLESAMPLE returns other rows each time",
        why=f"{_WHY}; even with REPEATABLE the rows depend on how Spark divides them into tasks",
        fix="choose rows by a hash of a key: WHERE pmod(xxhash64(id), 100) < 10; or a number: ORDER BY id LIMIT 5",
    )
