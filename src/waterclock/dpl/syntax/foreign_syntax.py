"""Recognizes statements and clauses of dbt, SQLMesh, Databricks, Snowflake and others, and suggests DPL for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from waterclock.dpl.syntax.cursor import Cursor
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.errors import WaterclockError

_TRANSFORM = "write TRANSFORM schema.name AS SELECT ..."
_STATEMENTS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("CREATE", "OR", "REPLACE"), "CREATE OR REPLACE", "leave OR REPLACE out: a statement is a declaration"),
    (("CREATE", "STREAMING", "TABLE"), "CREATE STREAMING TABLE", "write COLLECT schema.name PARTITIONED FROM ..."),
    (("CREATE", "STREAMING"), "CREATE STREAMING", "write COLLECT schema.name PARTITIONED FROM ..."),
    (("CREATE", "REFRESH"), "CREATE OR REFRESH", _TRANSFORM),
    (("CREATE", "LIVE"), "CREATE LIVE TABLE", _TRANSFORM),
    (("CREATE", "DYNAMIC"), "CREATE DYNAMIC TABLE", _TRANSFORM + ", with EVERY in place of TARGET_LAG"),
    (("CREATE", "MATERIALIZED"), "CREATE MATERIALIZED VIEW", _TRANSFORM),
    (("CREATE", "TEMPORARY"), "CREATE TEMPORARY", "write CREATE VIEW schema.name AS SELECT ..."),
    (("CREATE", "TEMP"), "CREATE TEMP", "write CREATE VIEW schema.name AS SELECT ..."),
    (("CREATE", "EXTERNAL"), "CREATE EXTERNAL TABLE", "write COLLECT schema.name FROM connection.path"),
    (("CREATE", "TABLE"), "CREATE TABLE", f"{_TRANSFORM} or COLLECT schema.name FROM connection.unit"),
    (("CREATE", "SCHEMA"), "CREATE SCHEMA", "leave it out: a schema exists as soon as a table uses it"),
    (("CREATE", "DATABASE"), "CREATE DATABASE", "leave it out: a schema exists as soon as a table uses it"),
    (("INSERT",), "INSERT", "write TRANSFORM schema.name APPEND AS SELECT ..."),
    (("MERGE",), "MERGE INTO", "write TRANSFORM schema.name (id KEY, *) MERGE AS SELECT ..."),
    (("UPDATE",), "UPDATE", "write TRANSFORM schema.name (id KEY, *) MERGE AS SELECT ... with the new rows"),
    (("DELETE",), "DELETE", "write MERGE DELETE WHEN expression where the table is declared"),
    (("COPY",), "COPY INTO", "write COLLECT schema.name FROM connection.path BY ARRIVAL TIME"),
    (("SELECT",), "a bare SELECT", f"{_TRANSFORM}; for an ad hoc query: waterclock query"),
    (("WITH",), "a bare query", f"{_TRANSFORM}; for an ad hoc query: waterclock query"),
    (("FROM",), "a bare query", f"{_TRANSFORM}; for an ad hoc query: waterclock query"),
    (("VALUES",), "a bare query", f"{_TRANSFORM}; for an ad hoc query: waterclock query"),
    (("APPLY", "CHANGES"), "APPLY CHANGES INTO", "write COLLECT ... (id KEY, *) ... MERGE ORDER BY changed_at"),
    (("ALTER",), "ALTER", "change the statement that declares the table"),
    (("DROP",), "DROP", "remove the statement that declares the table"),
    (("USE",), "USE", "write whole names: schema.table"),
    (("SET",), "SET", "add the value below [vars] in waterclock.toml, and use it as :name"),
    (("MODEL",), "MODEL (...)", _TRANSFORM),
)
_COMMANDS = frozenset(
    "CALL SHOW EXPLAIN OPTIMIZE VACUUM FETCH EXECUTE RENAME ANALYZE DESCRIBE DESC REFRESH CACHE TRUNCATE MSCK COMMENT "
    "REVOKE KILL".split()
)
_CLAUSES: dict[str, tuple[str, str]] = {
    "CONSTRAINT": ("CONSTRAINT ... EXPECT", "write EXPECT expression AS name ELSE FAIL (or ELSE WARN)"),
    "TARGET_LAG": ("TARGET_LAG", "write EVERY 15 MINUTES"),
    "REFRESH": ("REFRESH", "write EVERY 15 MINUTES"),
    "LAG": ("LAG", "write EVERY 15 MINUTES"),
    "PARTITIONED": ("PARTITIONED BY (...)", "write PARTITIONED right after the name: it means by timelabel"),
    "USING": ("USING", "leave it out: tables are Delta tables; for files write OPTIONS (format 'csv')"),
    "LOCATION": ("LOCATION", "leave it out: the storage of each environment is set in waterclock.toml"),
    "TBLPROPERTIES": ("TBLPROPERTIES", "leave it out: the table's properties follow from its declaration"),
    "INTO": ("INTO", "write only MERGE ON (id)"),
    "MATERIALIZED": ("materialized", "leave it out: a TRANSFORM is a table, a CREATE VIEW is not"),
    "MERGE": ("MERGE INTO", "write only MERGE ON (id) ORDER BY changed_at"),
    "INCREMENTAL": ("INCREMENTAL", "write a mode: APPEND, REPLACE or MERGE"),
    "PRIMARY": ("PRIMARY KEY (...)", "mark the columns: (id KEY, *)"),
    "ON": ("ON VIOLATION", "write the action after the rule: ELSE FAIL or ELSE WARN"),
    "HOURLY": ("HOURLY", "write EVERY HOUR"),
    "DAILY": ("DAILY", "write EVERY DAY"),
    "NIGHTLY": ("NIGHTLY", "write EVERY DAY, with DELAY if it should run later at night"),
    "WEEKLY": ("WEEKLY", "write EVERY WEEK"),
    "MONTHLY": ("MONTHLY", "write EVERY MONTH"),
    "QUARTERLY": ("QUARTERLY", "write EVERY QUARTER"),
    "YEARLY": ("YEARLY", "write EVERY YEAR"),
    "ANNUALLY": ("ANNUALLY", "write EVERY YEAR"),
    "CRON": ("CRON", "write SCHEDULE '10 * * * *'"),
    "IN": ("IN", "write ZONE 'Asia/Tokyo'"),
    "TIMEZONE": ("TIMEZONE", "write ZONE 'Asia/Tokyo'"),
    "UNIQUE": ("UNIQUE KEY", "mark the columns: (id KEY, *)"),
    "UNIQUE_KEY": ("unique_key", "mark the columns: (id KEY, *)"),
    "DEPENDS": ("DEPENDS ON", "leave it out: a batch waits for the tables of its query"),
    "WITH": ("WITH (...)", "write OPTIONS (name 'value') after the connection or unit"),
}


@dataclass(frozen=True, slots=True)
class _Foreign:
    """SQL syntax of other databases: its sqlglot node, a keyword to find its position, its name, and the fix.

    `has` returns whether a node of that type really has the syntax.
    """

    node: type[exp.Expr]
    word: str
    name: str
    fix: str
    has: Callable[[Any], bool] = lambda _: True


_IN_QUERIES = (
    _Foreign(exp.Unnest, "UNNEST", "UNNEST(...)", "write LATERAL VIEW explode(a) AS b, or explode(a) in the SELECT"),
    _Foreign(exp.Fetch, "FETCH", "FETCH FIRST", "write LIMIT"),
    _Foreign(exp.Limit, "LIMIT", "LIMIT with PERCENT, WITH TIES or BY", "write LIMIT with a number, or use rank()",
             lambda node: bool(node.args.get("limit_options") or node.expressions)),
    _Foreign(exp.Lock, "FOR", "FOR UPDATE", "leave it out: a batch reads slices, which do not change"),
    _Foreign(exp.SimilarTo, "SIMILAR TO", "SIMILAR TO", "write RLIKE and a regular expression"),
    _Foreign(exp.Glob, "GLOB", "GLOB", "write LIKE, or RLIKE and a regular expression"),
    _Foreign(exp.Connect, "CONNECT BY", "CONNECT BY", "write WITH RECURSIVE"),
    _Foreign(exp.Try, "TRY", "TRY(...)", "write the function that returns NULL, such as try_divide or try_cast"),
    _Foreign(exp.Distinct, "DISTINCT", "DISTINCT ON",
             "number the rows by row_number() OVER (PARTITION BY ... ORDER BY ...) in a subquery, and keep number 1",
             lambda node: node.args.get("on") is not None),
    _Foreign(exp.Join, "ASOF", "ASOF JOIN", "join within a bound of time, and keep the last row by row_number()",
             lambda node: node.args.get("method") == "ASOF"),
    _Foreign(exp.Array, "[", "[...] as a value", "write array(1, 2)",
             lambda node: node.args.get("value_constructor") is False),
    _Foreign(exp.AggFunc, "ORDER BY", "ORDER BY within an aggregate", "sort the list: array_sort(array_agg(a))",
             lambda node: isinstance(node.this, exp.Order) and not isinstance(node, exp.GroupConcat)),
    _Foreign(exp.AggFunc, "LIMIT", "LIMIT within an aggregate", "cut the list: slice(array_sort(array_agg(a)), 1, 3)",
             lambda node: isinstance(node.this, exp.Limit)),
    _Foreign(exp.HavingMax, "HAVING", "HAVING within an aggregate", "write max_by(a, b), or min_by(a, b)"),
    _Foreign(exp.Between, "SYMMETRIC", "BETWEEN SYMMETRIC", "write a BETWEEN least(b, c) AND greatest(b, c)",
             lambda node: node.args.get("symmetric") is True),
    _Foreign(exp.Between, "ASYMMETRIC", "BETWEEN ASYMMETRIC", "write BETWEEN, which means the same",
             lambda node: node.args.get("symmetric") is False),
    _Foreign(exp.Star, "RENAME", "* RENAME", "write * EXCEPT (a), a AS b",
             lambda node: bool(node.args.get("rename"))),
    _Foreign(exp.Group, "TOTALS", "WITH TOTALS", "write WITH ROLLUP",
             lambda node: bool(node.args.get("totals"))),
    _Foreign(exp.JSONExtract, "->", "-> for a field of JSON", "write get_json_object(a, '$.field')",
             lambda node: "only_json_types" in node.args),
    _Foreign(exp.JSONBExtract, "#>", "#> for a field of JSON", "write get_json_object(a, '$.field')"),
    _Foreign(exp.JSONBExtractScalar, "#>>", "#>> for a field of JSON", "write get_json_object(a, '$.field')"),
    _Foreign(exp.JSONBContainsTopKey, "?", "? for a field of JSON", "write get_json_object(a, '$.field') IS NOT NULL"),
    _Foreign(exp.JSONExtractScalar, "->>", "->> for a field of JSON", "write get_json_object(a, '$.field')",
             lambda node: "only_json_types" in node.args),
)  # fmt: skip
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_WHY = "Spark has no such syntax"
_NULL_TESTS = {TokenType.ISNULL: "IS NULL", TokenType.NOTNULL: "IS NOT NULL"}
_ENDS_A_VALUE = frozenset(
    {TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.RAW_STRING, TokenType.NULL,
     TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}
)  # fmt: skip
_AFTER_STARS = {"EXCLUDE": "write * EXCEPT (a)", "REPLACE": "write * EXCEPT (a), a + 1 AS a"}
_LISTS = frozenset({"LISTAGG", "STRING_AGG"})
_BEFORE_NAMES = frozenset({TokenType.DOT, TokenType.ALIAS, TokenType.COMMA})
_BEGINS_A_NUMBER = frozenset({TokenType.NUMBER, TokenType.COLON, TokenType.PLACEHOLDER, TokenType.VAR})
_NODES = tuple(each.node for each in _IN_QUERIES)


def check_foreign_syntax(source: SourceText, tokens: Sequence[Token], tree: Any) -> Iterator[WaterclockError]:
    """Yield an error for each construct of other databases that sqlglot parses and Spark does not."""
    for index, (name, fix) in _find_foreign_words(tokens):
        span = source.span(tokens[index].start, tokens[index].end + 1)
        yield span.refuse("E209", f"{name} is not supported", why=_WHY, fix=fix)
    nodes = list(tree.find_all(*_NODES))
    for each in _IN_QUERIES:
        if any(isinstance(node, each.node) and each.has(node) for node in nodes):
            token = next((token for token in tokens if token.text.upper() == each.word), tokens[0])
            span = source.span(token.start, token.end + 1)
            yield span.refuse("E209", f"{each.name} is not supported", why=_WHY, fix=each.fix)


def _find_foreign_words(tokens: Sequence[Token]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield the indexes of tokens that Spark reads in another way than sqlglot, each with the name and the fix."""
    for index, token in enumerate(tokens):
        kind, word = token.token_type, token.text.upper()
        before = tokens[index - 1].token_type if index else None
        after = tokens[index + 1].token_type if index + 1 < len(tokens) else None
        is_call = after is TokenType.L_PAREN and before is not TokenType.DOT
        if is_call and kind is TokenType.VAR and word == "SAFE_CAST":
            yield index, ("SAFE_CAST", "write TRY_CAST")
        elif kind in _NULL_TESTS and after is not TokenType.L_PAREN and before in _ENDS_A_VALUE:
            yield index, (f"{word} after a value", f"write {_NULL_TESTS[kind]}")
        elif is_call and kind is TokenType.VAR and word in _LISTS and _sorts(tokens, index + 2):
            yield index, (f"ORDER BY within {word.lower()}", f"write {word.lower()}(a, ',') WITHIN GROUP (ORDER BY b)")
        elif word in _AFTER_STARS and before is TokenType.STAR and tokens[index - 2].token_type not in _ENDS_A_VALUE:
            yield index, (f"* {word}", _AFTER_STARS[word])
        # sqlglot has one node for this and for from_utc_timestamp
        elif word == "AT" and [each.text.upper() for each in tokens[index + 1 : index + 3]] == ["TIME", "ZONE"]:
            yield index, ("AT TIME ZONE", "write from_utc_timestamp(a, 'Europe/Berlin')")
        elif kind is TokenType.LIMIT and before not in _BEFORE_NAMES and after in _BEGINS_A_NUMBER:
            behind = index + (3 if after is TokenType.COLON else 2)
            if behind < len(tokens) and tokens[behind].token_type is TokenType.COMMA:
                yield index, ("LIMIT with two numbers", "write LIMIT 2 OFFSET 1 for LIMIT 1, 2")


def _sorts(tokens: Sequence[Token], begin: int) -> bool:
    """Return whether a call has ORDER BY between its own brackets. `begin` is the index behind the opening one."""
    depth = 1
    for index in range(begin, len(tokens)):
        kind = tokens[index].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0 or (depth == 1 and kind is TokenType.ORDER_BY):
            return depth == 1
    return False


def foreign_statement_error(cursor: Cursor) -> WaterclockError | None:
    """Return the error for a known statement of another tool at the cursor; None for any other text."""
    first = cursor.here()
    if cursor.at("{", "{") or cursor.at("{", "%"):
        return template_error(first)
    for words, name, fix in _STATEMENTS:
        if cursor.at(*words):
            last = cursor.span(cursor.peek(len(words) - 1))
            span = Span(first.source, first.start, last.end)
            return span.refuse("E209", f"{name} is not supported", fix=fix)
    if cursor.peek().upper in _COMMANDS:
        return first.refuse(
            "E202",
            f"{first.text.upper()} is not a declaration",
            why="statements declare a flow; they cannot run commands of a database",
            fix="see waterclock --help for the commands",
        )
    return None


def foreign_clause_error(cursor: Cursor) -> WaterclockError | None:
    """Return the error for a known clause of another tool at the cursor; None for any other text."""
    span = cursor.here()
    if cursor.at("{", "{") or cursor.at("{", "%"):
        return template_error(span)
    known = _CLAUSES.get(cursor.peek().upper)
    if known is None or (cursor.peek().upper == "PARTITIONED" and cursor.peek(1).upper != "BY"):
        return None
    name, fix = known
    return span.refuse("E209", f"{name} is not supported", fix=fix)


def template_error(span: Span) -> WaterclockError:
    """Build the error for the brackets of a template, such as `{{`."""
    return span.refuse(
        "E209",
        "templates are not supported",
        why="a text that is put together from pieces cannot be checked, and its errors have no position",
        fix="write schema.table for a reference and :name for a value of [vars]",
    )


def templates_in(source: SourceText, tokens: Sequence[Token]) -> Iterator[WaterclockError]:
    """Yield an error for each bracket of a template in a query: {{ }}, {% %} and ${ }."""
    text = source.text[tokens[0].start : tokens[-1].end + 1]
    if not any(opening in text for opening in ("{{", "{%", "${")):
        return
    for index in range(len(tokens) - 1):
        kind, following = tokens[index].token_type, tokens[index + 1]
        is_template = following.start == tokens[index].end + 1 and (
            (kind is TokenType.L_BRACE and following.token_type in {TokenType.L_BRACE, TokenType.MOD})
            or (kind is TokenType.PARAMETER and following.token_type is TokenType.L_BRACE)
            or (kind is TokenType.BLOCK_START)
        )
        if is_template or kind is TokenType.BLOCK_START:
            yield template_error(source.span(tokens[index].start, following.end + 1))
