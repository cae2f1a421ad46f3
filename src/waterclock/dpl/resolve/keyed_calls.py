"""Checks that calls of functions with a secret key, such as `hash_keyed`, name an existing connection and key."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.query.builtins import KEYED, STRINGS, find_calls, named_arguments
from waterclock.dpl.resolve.connections import ValidConnections
from waterclock.dpl.resolve.variables import list_expressions
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import ParsedQuery, Statement
from waterclock.dpl.syntax.tokens import dialect
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Connection
from waterclock.flow.key_connections import CURRENT, KEYS, names_of_keys
from waterclock.masking.token_sql import DETOKENIZE, DETOKENIZE_PARAMETERS
from waterclock.similar_names import did_you_mean


def check_keyed_calls(
    queries: Iterable[ParsedQuery], statements: Iterable[Statement], systems: ValidConnections
) -> Iterator[WaterclockError]:
    """Yield an error for each call of a function with a secret key that does not name a valid connection and key."""
    for expression in (*queries, *chain.from_iterable(map(list_expressions, statements))):
        yield from _check_calls(expression.span.source, expression.tokens, systems)


def _check_calls(source: SourceText, tokens: Sequence[Token], systems: ValidConnections) -> Iterator[WaterclockError]:
    connections = systems.connections
    for function, call in find_calls(tokens, KEYED):
        given = named_arguments(tokens, tokens.index(call) + 1, KEYED[function])
        argument = given.get("keys")
        if argument is None:
            continue  # reported as a wrong number of arguments
        connection = _text_of(argument)
        if connection is None:
            yield _span_of(source, argument).refuse(
                "E238",
                f"{function} needs the name of a connection as a text",
                why="which key a batch uses is known before it runs",
                fix=_suggest_connection(connections),
            )
        elif connection not in connections:
            if connection not in systems.declared:
                yield _unknown_connection_error(source, argument, connection, connections)
        elif connections[connection].type != KEYS:
            yield _span_of(source, argument).refuse(
                "E238",
                f"{connection} is a connection of type {connections[connection].type}",
                why=f"{function} takes its key from a connection of type keys",
                fix=did_you_mean(connection, _key_connections(connections), otherwise=_suggest_connection(connections)),
            )
        elif "key" in given:
            yield from _check_key(source, given["key"], function, connections[connection])


def check_token_calls(
    queries: Iterable[ParsedQuery], statements: Iterable[Statement], subjects: Collection[str]
) -> Iterator[WaterclockError]:
    """Yield an error for each call of `detokenize` that does not name one of the subjects with TOKENS."""
    for expression in (*queries, *chain.from_iterable(map(list_expressions, statements))):
        source, tokens = expression.span.source, expression.tokens
        for function, call in find_calls(tokens, [DETOKENIZE]):
            argument = named_arguments(tokens, tokens.index(call) + 1, list(DETOKENIZE_PARAMETERS)).get("subject")
            if argument is None or _text_of(argument) in subjects:
                continue  # without one, it is reported as a wrong number of arguments
            name = _text_of(argument)
            declare = "declare it on a column: customer_id STRING SUBJECT customer TOKENS"
            yield _span_of(source, argument).refuse(
                "E342",
                f"{function} needs the name of a subject as a text" if name is None else f"no tokens of {name}",
                why=f"subjects with TOKENS are {', '.join(sorted(subjects))}"
                if subjects
                else "no column of the flow has TOKENS",
                fix=did_you_mean(name or "", subjects, otherwise=f"write '{min(subjects)}'" if subjects else declare),
            )


def current_keys(texts: Iterable[str], connections: Mapping[str, Connection]) -> list[str]:
    """Return the current keys, such as `pii/2026`, of the connections that calls use without naming a key.

    They are part of a table's fingerprint, because another current key changes the results of `hash_keyed`.
    """
    found: set[str] = set()
    for text in texts:
        if not any(name in text.lower() for name in KEYED):
            continue
        tokens = dialect().tokenize(text)
        for function, call in find_calls(tokens, KEYED):
            given = named_arguments(tokens, tokens.index(call) + 1, KEYED[function])
            connection = connections.get(_text_of(given.get("keys", ())) or "")
            if connection is not None and "key" in KEYED[function] and "key" not in given:
                found.add(f"{connection.name}/{connection.options.get(CURRENT)}")
    return sorted(found)


def _check_key(
    source: SourceText, argument: Sequence[Token], function: str, connection: Connection
) -> Iterator[WaterclockError]:
    key, names = _text_of(argument), names_of_keys(connection.options)
    if len(argument) == 1 and argument[0].token_type is TokenType.NULL:
        return
    if key is None:
        yield _span_of(source, argument).refuse(
            "E238",
            f"{function} needs the name of a key as a text",
            why="which key a batch uses is known before it runs",
            fix=f"write one of {', '.join(map(repr, names))}, or leave it out for the current one",
        )
    elif key not in names:
        yield _span_of(source, argument).refuse(
            "E221",
            f"unknown key {key} of connection {connection.name}",
            fix=did_you_mean(key, names, otherwise=f"write one of {', '.join(names)}, or add the option key.{key}"),
        )


def _unknown_connection_error(
    source: SourceText, argument: Sequence[Token], name: str, connections: Mapping[str, Connection]
) -> WaterclockError:
    return _span_of(source, argument).refuse(
        "E221",
        f"unknown connection {name}",
        fix=did_you_mean(name, _key_connections(connections), otherwise=_suggest_declaration(name)),
    )


def _key_connections(connections: Mapping[str, Connection]) -> list[str]:
    return [name for name, connection in connections.items() if connection.type == KEYS]


def _suggest_declaration(name: str) -> str:
    return f"declare one: CREATE CONNECTION {name} TYPE keys OPTIONS (key.1 SECRET '{name}/1', current '1');"


def _suggest_connection(connections: Mapping[str, Connection]) -> str:
    names = _key_connections(connections)
    return f"write {' or '.join(map(repr, names))}" if names else _suggest_declaration("pii")


def _text_of(tokens: Sequence[Token]) -> str | None:
    """Return the text of an argument that is one string literal; None for any other argument."""
    return tokens[0].text if len(tokens) == 1 and tokens[0].token_type in STRINGS else None


def _span_of(source: SourceText, tokens: Sequence[Token]) -> Span:
    return source.span(tokens[0].start, tokens[-1].end + 1)
