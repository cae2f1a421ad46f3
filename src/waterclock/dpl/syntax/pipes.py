"""Rewrites pipe steps (`|>`) and window() for sqlglot's parser, and corrects the syntax tree that it returns.

- `|> SET` and `|> DROP`, which sqlglot does not parse, are rewritten as the `|> SELECT` that they abbreviate.
- `|> SELECT` is rewritten as an `|> EXTEND` of a marker and the columns; in the tree, only the columns remain. For a
  `|> SELECT`, sqlglot would copy all steps before it, at a cost that grows with the square of their number.
- `|> LIMIT` takes an expression in Spark, and a number in sqlglot. The parser gets a number that has the position of
  the expression, and the tree gets the expression.
- `|> AS t` becomes a FROM without a table in sqlglot's tree. The table is added.
- `window` is always a keyword for sqlglot, and also a function in Spark. Calls of it are rewritten.

Only the parser gets the rewritten tokens. Spark runs the user's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

PIPED = "__tmp"
"""The prefix of the names that sqlglot generates for the input of a step after |>. `|> AS t` is an alias of one."""
_SELECTED = f"{PIPED}_select"
"""The marker column: the first column of each EXTEND that was rewritten from a SELECT."""
_NUMBER_AT = "0e"
"""The number 0, with the position of an expression as its exponent. sqlglot keeps the least of consecutive limits."""
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_BEGINS_A_QUERY = frozenset({TokenType.SELECT, TokenType.FROM, TokenType.VALUES, TokenType.TABLE})
_REWRITTEN = frozenset({TokenType.PIPE_GT, TokenType.WINDOW})
_NO_WORDS = frozenset({TokenType.IDENTIFIER, TokenType.STRING, TokenType.RAW_STRING})
_BEFORE_COLUMNS = frozenset({TokenType.DISTINCT, TokenType.ALL, TokenType.HINT})
_AFTER_COLUMNS = frozenset(
    {TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY, TokenType.WINDOW,
     TokenType.JOIN, TokenType.LATERAL, TokenType.PIVOT, TokenType.UNPIVOT, TokenType.INTO}
)  # fmt: skip
_ENDS_A_STEP = frozenset({TokenType.PIPE_GT, TokenType.SEMICOLON, *_CLOSING})
_BEHIND_A_STEP = frozenset(
    {TokenType.PIPE_GT, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.ORDER_BY, TokenType.SORT_BY,
     TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.SEMICOLON}
)  # fmt: skip


def tokens_for_parser(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens rewritten for sqlglot's parser. New tokens have the position of the word that they replace."""
    if not any(token.token_type in _REWRITTEN for token in tokens):
        return list(tokens)
    return _rewrite_steps(_queries_before_steps(tokens))


def _rewrite_steps(tokens: Sequence[Token]) -> list[Token]:
    found: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.token_type is TokenType.WINDOW and not _begins_window_clause(tokens, index):
            found.append(_token_at(token, TokenType.VAR, token.text))
        elif token.token_type is TokenType.PIPE_GT and (step := _rewrite_step(tokens, index)) is not None:
            end, rewritten = step
            found.extend(rewritten)
            index = end
            continue
        else:
            found.append(token)
        index += 1
    return found


def complete_pipes(tree: Any, tokens: Sequence[Token]) -> Any:
    """Correct the columns of `|> SELECT` and the sources of `|> AS t` in a tree that was parsed from rewritten tokens.

    Each `|> AS t` gets a source with a unique name and the alias `t`. So no other part of the query can read `t` as a
    table, as in Spark. Return the tree, which is changed in place.
    """
    if tree is None or not any(token.token_type is TokenType.PIPE_GT for token in tokens):
        return tree
    for select in tree.find_all(exp.Select):
        first = select.expressions[1] if len(select.expressions) > 1 else None
        if isinstance(first, exp.Column) and first.name == _SELECTED:
            select.set("expressions", select.expressions[2:])
    written = {token.start: token.text for token in tokens}
    for name in tree.find_all(exp.Identifier):
        if name.name.startswith(PIPED) and written.get(name.meta.get("start")) != name.name:
            name.meta.clear()  # positions in a text that sqlglot generated
    aliases = {
        tokens[index + 2].start
        for index, (pipe, word) in enumerate(pairwise(tokens[:-1]))
        if pipe.token_type is TokenType.PIPE_GT and word.token_type is TokenType.ALIAS
    }
    count = 0
    for clause in reversed(list(tree.find_all(exp.With))):  # the inner ones first
        latest: dict[str, str] = {}
        for part in (*clause.expressions, clause.parent):
            for source in part.find_all(exp.From):
                alias = source.this
                if isinstance(alias, exp.TableAlias) and (name := latest.get(alias.name.lower())) is not None:
                    new_alias = exp.TableAlias(this=exp.to_identifier(alias.name))
                    source.set("this", exp.Table(this=exp.to_identifier(name), alias=new_alias))
            if isinstance(part, exp.CTE) and part.args["alias"].this.meta.get("start") in aliases:
                count += 1
                latest[part.alias.lower()] = f"{PIPED}_as{count}"
                part.set("alias", exp.TableAlias(this=exp.to_identifier(f"{PIPED}_as{count}")))
    return tree


def find_limits(trees: Sequence[Any], tokens: Sequence[Token]) -> Iterator[tuple[Any, list[Token]]]:
    """Yield each `|> LIMIT` of an expression in trees that were parsed from rewritten tokens, and its tokens as SELECT.

    The caller replaces the number in the tree by the expression.
    """
    starts = {
        f"{_NUMBER_AT}{tokens[index + 2].start}": index + 2
        for index, (pipe, word) in enumerate(pairwise(tokens[:-1]))
        if pipe.token_type is TokenType.PIPE_GT and word.token_type is TokenType.LIMIT
    }
    for limit in (node for tree in (trees if starts else ()) if tree is not None for node in tree.find_all(exp.Limit)):
        number = limit.expression
        if isinstance(number, exp.Literal) and (begin := starts.get(number.name)) is not None:
            part = tokens[begin : _end_of_step(tokens, begin)]
            yield limit, [_token_at(part[0], TokenType.SELECT, "SELECT"), *part]


def is_piped(node: Any) -> bool:
    """Return whether a node in FROM is one that sqlglot generated as the input of a step after |>."""
    if isinstance(node, exp.Subquery):
        return node.alias.startswith(PIPED)
    return isinstance(node, exp.Table) and node.name.startswith(PIPED) and "start" not in node.this.meta


def _queries_before_steps(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with each `SELECT ... |>` replaced by `FROM (SELECT ...) |>`.

    Otherwise sqlglot would replace the columns of the SELECT by those of the first step.
    """
    inserted: dict[int, list[Token]] = {}
    starts: list[int | None] = [None]  # by level of brackets: the start of its query
    done: list[bool] = [False]
    for index, token in enumerate(tokens):
        kind = token.token_type
        if kind in _OPENING:
            starts.append(None)
            done.append(False)
        elif kind in _CLOSING and len(starts) > 1:
            starts.pop()
            done.pop()
        elif kind in _BEGINS_A_QUERY and starts[-1] is None:
            starts[-1] = index
        elif kind is TokenType.PIPE_GT and not done[-1]:
            done[-1] = True
            start = starts[-1]
            if start is not None and tokens[start].token_type is TokenType.SELECT:
                first = tokens[start]
                inserted.setdefault(start, []).extend(
                    [_token_at(first, TokenType.FROM, "FROM"), _token_at(first, TokenType.L_PAREN, "(")]
                )
                inserted[index] = [
                    _token_at(first, TokenType.R_PAREN, ")"),
                    _token_at(first, TokenType.ALIAS, "AS"),
                    _token_at(first, TokenType.VAR, f"{PIPED}_query"),
                ]
    return [each for index, token in enumerate(tokens) for each in (*inserted.get(index, ()), token)]


def _begins_window_clause(tokens: Sequence[Token], index: int) -> bool:
    """Return whether WINDOW begins a clause `WINDOW name AS ...`, and is not a column or a call of window()."""
    following = [token.token_type for token in tokens[index + 1 : index + 3]]
    return len(following) == 2 and following[0] is not TokenType.L_PAREN and following[1] is TokenType.ALIAS


def _rewrite_step(tokens: Sequence[Token], index: int) -> tuple[int, list[Token]] | None:
    """Return the end of a `|> SET`, `|> DROP` or `|> SELECT`, and its tokens rewritten as |> EXTEND.

    For a `|> LIMIT` of an expression, the tokens have a number in its place. Return None for any other step, for an
    incomplete one, which the parser reports, and for a SELECT with DISTINCT or further clauses.
    """
    word = tokens[index + 1] if index + 1 < len(tokens) else None
    if word is not None and word.token_type is TokenType.LIMIT:
        end = _end_of_step(tokens, index + 2)
        part = tokens[index + 2 : end]
        is_plain = len(part) < 2 or any(token.token_type is TokenType.COMMA for token in _outside_brackets(part))
        number = None if is_plain else _token_at(part[0], TokenType.NUMBER, f"{_NUMBER_AT}{part[0].start}")
        return None if number is None else (end, [tokens[index], word, number])
    if word is None or word.token_type in _NO_WORDS or word.text.upper() not in {"SET", "DROP", "SELECT"}:
        return None
    end = _end_of_step(tokens, index + 2)
    if end < len(tokens) and tokens[end].token_type not in _ENDS_A_STEP:
        return None
    selects = _build_selects(word, tokens[index + 2 : end])
    return (end, [token for select in selects for token in (tokens[index], *select)]) if selects else None


def _build_selects(word: Token, tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the tokens of the steps that replace a SET, DROP or SELECT; empty if its `tokens` are not valid."""
    what, parts = word.text.upper(), list(_split_at_commas(tokens))
    if not all(parts):
        return []
    if what == "SET":
        if any(len(part) < 3 or part[1].token_type is not TokenType.EQ for part in parts):
            return []
        named = ([*_rewrite_steps(part[2:]), _token_at(word, TokenType.ALIAS, "AS"), part[0]] for part in parts)
        return [_build_select_star(word, "REPLACE", each) for each in named]
    if what == "DROP":
        return [_build_select_star(word, "EXCEPT", tokens)]
    return [_build_select(word, _rewrite_steps(tokens))] if _are_columns(parts) else []


def _build_select_star(word: Token, how: str, inner: Sequence[Token]) -> list[Token]:
    """Return the tokens of a step that selects `* EXCEPT (...)` or `* REPLACE (...)`."""
    kind = TokenType.EXCEPT if how == "EXCEPT" else TokenType.REPLACE
    star = [_token_at(word, TokenType.STAR, "*"), _token_at(word, kind, how), _token_at(word, TokenType.L_PAREN, "(")]
    return _build_select(word, [*star, *inner, _token_at(word, TokenType.R_PAREN, ")")])


def _build_select(word: Token, columns: Sequence[Token]) -> list[Token]:
    """Return the tokens of an EXTEND with the marker; `complete_pipes` converts it to a SELECT of these columns."""
    marker = [_token_at(word, TokenType.VAR, text) for text in ("EXTEND", _SELECTED)]
    return [*marker, _token_at(word, TokenType.COMMA, ","), *columns]


def _are_columns(parts: Sequence[Sequence[Token]]) -> bool:
    """Return whether the parts of a SELECT are only columns: no DISTINCT, no hint, and no other clause."""
    return parts[0][0].token_type not in _BEFORE_COLUMNS and not any(
        token.token_type in _AFTER_COLUMNS for part in parts for token in _outside_brackets(part)
    )


def _outside_brackets(tokens: Sequence[Token]) -> Iterator[Token]:
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0:
            yield token


def _end_of_step(tokens: Sequence[Token], begin: int) -> int:
    depth = 0
    for index in range(begin, len(tokens)):
        kind = tokens[index].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        is_of_star = kind is TokenType.EXCEPT and tokens[index - 1].token_type is TokenType.STAR
        if depth < 0 or (depth == 0 and kind in _BEHIND_A_STEP and not is_of_star):
            return index
    return len(tokens)


def _split_at_commas(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the tokens between commas outside of brackets; one empty list if there are no tokens."""
    depth, part = 0, list[Token]()
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0 and token.token_type is TokenType.COMMA:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _token_at(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end, [])
