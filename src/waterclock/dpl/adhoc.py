"""Parses and checks ad hoc queries of a flow's tables and views, by the same rules as declared queries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise

from sqlglot.tokens import Token, TokenType

from waterclock.dpl.query.builtins import FUNCTIONS, SECRET, STRINGS, arguments, called_functions, find_calls
from waterclock.dpl.query.hidden_columns import compute_hiding
from waterclock.dpl.query.names_in_query import NamedTable, QueryNames
from waterclock.dpl.query.references import find_references
from waterclock.dpl.query.spark_functions import CALLS_OF_CODE, MOST_ARGUMENTS
from waterclock.dpl.resolve.views import nearest_table
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.dpl.syntax.statements import ParsedQuery
from waterclock.dpl.syntax.tokens import check_adjacent_strings, statements_of
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.declarations import Flow, Query, Read, TableReference
from waterclock.flow.enums import ReadKind
from waterclock.flow.flats import flats_of
from waterclock.flow.open_windows import has_open_windows, tables_by_view
from waterclock.flow.watermarks import mark_of
from waterclock.similar_names import did_you_mean

_FILE = "query"
HELD = "_held"
"""The suffix of a table's name by which queries read the rows of its held batches."""
STATUS_SCHEMA = "waterclock."
"""Prefix of the names of the status tables, such as `waterclock.batches`. A query by a restricted person has none."""
LONGEST_QUERY = 100_000
"""The most characters of an ad hoc query. Bounds the time of the checks, which no limit of the query ends."""
_MOST_SUGGESTIONS = 10  # of similar names: each takes a comparison with all tables
_ANSWERS_DIFFER = "E215"  # an ad hoc query runs once, so it may read the current time


def adhoc_query(text: str, flow: Flow, *, status_tables: Collection[str] = ()) -> Query:
    """Parse an ad hoc query of a flow's tables and views; it may also read the tables in `status_tables`.

    Raises ProjectErrors with all errors of the query and their positions in the text.
    """
    source = SourceText(_FILE, text.rstrip().removesuffix(";"))
    if len(source.text) > LONGEST_QUERY:
        raise ProjectErrors([_long_query_error(source)])
    statements, errors = statements_of(source)
    if not errors and len(statements) != 1:
        what = "this is more than one query" if statements else "there is no query"
        errors = [source.span(0, len(source.text)).refuse("E210", what, fix="write one SELECT")]
    if errors:
        raise ProjectErrors(errors)
    source = statements[0].source
    span = source.span(0, len(source.text))
    try:
        check_adjacent_strings(source, statements[0].tokens)
    except WaterclockError as error:
        raise ProjectErrors([error]) from None
    found = find_references(ParsedQuery(span, statements[0].tokens))
    errors = [error for error in found.errors if error.code != _ANSWERS_DIFFER]
    if found.tree is None:
        raise ProjectErrors(found.errors)
    errors.extend(_refused_calls(statements[0].tokens, source))
    errors.extend(_keyed_calls(statements[0].tokens, source, flow))
    errors.extend(_keyed_views(found, flow))
    errors.extend(_refused_values(found, source))
    errors.extend(_flat_views(found, flow))
    shown = tables_by_view(flow)
    known = {*flow.tables, *flow.views, *status_tables, *shown}
    errors.extend(_refused_tables(found, flow, known))
    if errors:
        raise ProjectErrors(errors)
    hiding = compute_hiding(
        source, statements[0].tokens, found, lambda table: _find_hidden_columns(table.name, flow, shown)
    )
    if hiding.errors:
        raise ProjectErrors(hiding.errors)
    references = tuple(
        replace(_reference(table, flow, shown), left_out=hiding.left_out.get(table.start, ())) for table in found.tables
    )
    variables = tuple(sorted(found.variables))
    return Query(source.text, span.place, references, (), variables, stars=tuple(sorted(hiding.stars.items())))


def no_table_error(name: str, flow: Flow) -> WaterclockError:
    """Build the error for a table that the flow does not have."""
    return WaterclockError("E511", f"there is no table {name}", fix=did_you_mean(name, flow.tables))


def tables_of(query: Query) -> tuple[str, ...]:
    """Return the names of the tables that a query reads, directly or through views, each once."""
    found: dict[str, None] = {}
    for reference in query.tables:
        if reference.read is not None:
            found[reference.read.table] = None
        elif reference.view is not None:
            found |= dict.fromkeys(tables_of(reference.view))
    return tuple(found)


def _find_hidden_columns(name: str, flow: Flow, shown: Mapping[str, str]) -> tuple[str, ...]:
    """Return the HIDDEN columns of a table, given its name, or that of its `_view` or `_held` table."""
    of = name if name in flow.tables else shown.get(name, name.removesuffix(HELD))
    return flow.tables[of].hidden_columns if of in flow.tables and name not in flow.views else ()


def _is_plain_and_known(table: NamedTable, known: Collection[str]) -> bool:
    return table.kind is ReadKind.PLAIN and not table.is_flat and not table.mark and table.name in known


def _reference(table: NamedTable, flow: Flow, shown: Mapping[str, str]) -> TableReference:
    at = (table.start, table.end, table.alias, table.alias_at)
    view = flow.views.get(table.name)
    if view is None:
        of = shown.get(table.name) if table.name not in flow.tables else None
        # without open windows, the view is the table
        return TableReference(*at, read=Read(of if of is not None and not has_open_windows(flow, of) else table.name))
    columns = () if view.columns.is_open else tuple(column.name for column in view.columns.named)
    return TableReference(*at, view=view.query, view_columns=columns)


def _long_query_error(source: SourceText) -> WaterclockError:
    return WaterclockError(
        "E267",
        f"this query has {len(source.text):,} characters",
        where=str(source.place(0)),
        why=f"the limit of an ad hoc query is {LONGEST_QUERY:,} characters",
        fix="move parts into views of the flow, or long lists into a table",
    )


def _refused_tables(found: QueryNames, flow: Flow, known: Collection[str]) -> Iterator[WaterclockError]:
    """Yield an error for each table that a query cannot read. Only the first unknown names get similar ones as fix."""
    renamed = {table.was: name for name, table in reversed(list(flow.tables.items())) if table.was}
    has_status = any(name.startswith(STATUS_SCHEMA) for name in known)
    fixes: dict[str, str] = {}
    for table in found.tables:
        if _is_plain_and_known(table, known):
            continue
        error = _refused_read_error(table)
        if error is None and table.name.startswith(STATUS_SCHEMA) and not has_status:
            error = table.span.refuse(
                "E946", f"{table.name} is not granted",
                why="the tables of this schema list the batches and errors of all tables",
                fix="ask an administrator to run the query",
            )  # fmt: skip
        if error is None:
            if table.name in renamed:
                fixes[table.name] = f"it was renamed: write {renamed[table.name]}"
            elif table.name not in fixes:
                fixes[table.name] = nearest_table(table.name, known if len(fixes) < _MOST_SUGGESTIONS else ())
            error = table.span.refuse("E213", f"unknown table {table.name}", fix=fixes[table.name])
        yield error


def _refused_read_error(table: NamedTable) -> WaterclockError | None:
    """Return the error for a read that only queries of the flow may have, such as PAST; None for a plain name."""
    if table.mark:
        return table.span.refuse(
            "E216",
            f"{table.mark}(…) is only for queries of the flow",
            why="it belongs to a batch, and an ad hoc query is not a batch",
            fix=f"read max(watermark) of {mark_of(table.name)}",
        )
    if table.kind is not ReadKind.PLAIN or table.is_flat:
        return table.span.refuse(
            "E216",
            f"{table.words}(…) is only for queries of the flow",
            why="it depends on the window of a batch, and an ad hoc query has no window",
            fix=f"make a TRANSFORM of FLAT({table.name}), and query that"
            if table.is_flat
            else f"read {table.name} and filter on timelabel",
        )
    return None


def _flat_views(found: QueryNames, flow: Flow) -> Iterator[WaterclockError]:
    for table in found.tables:
        view = flow.views.get(table.name)
        flats = flats_of(view.query) if view else ()
        if flats:
            yield table.span.refuse(
                "E216",
                f"{table.name} reads {flats[0]}, which is only for queries of the flow",
                why="it joins tables as of a batch, and an ad hoc query is not a batch",
                fix=f"make a TRANSFORM of {table.name}, and query that",
            )


def _refused_calls(tokens: Sequence[Token], source: SourceText) -> Iterator[WaterclockError]:
    """Yield an error for each call that can run code or open files, or that is qualified with a schema."""
    for index, (token, following) in enumerate(pairwise(tokens)):
        if following.token_type is not TokenType.L_PAREN or token.token_type in STRINGS:
            continue
        name = token.text.lower()
        is_qualified = index > 0 and tokens[index - 1].token_type is TokenType.DOT
        what, why = "", "queries can only read tables and compute values"
        if name in CALLS_OF_CODE:
            what = f"{token.text} calls Java, which is not allowed in a query"
        elif (
            name in MOST_ARGUMENTS
            and _count_arguments(tokens, index + 1, MOST_ARGUMENTS[name] + 1) > MOST_ARGUMENTS[name]
        ):
            what = f"{token.text} takes {MOST_ARGUMENTS[name]} arguments in a query, without options"
            why = "options can name files that Spark would open"
        elif is_qualified:
            what, why = f"{token.text} is called with a schema", "only functions of Spark and of the flow can be called"
        if what:
            yield source.span(token.start, token.end + 1).refuse(
                "E733", what, why=why, fix="leave the schema out" if is_qualified else "write a function in Python"
            )


def _count_arguments(tokens: Sequence[Token], opening: int, most: int) -> int:
    """Return the number of arguments of a call, at most `most`."""
    return sum(1 for _ in islice(arguments(tokens, opening), most))


def _keyed_calls(tokens: Sequence[Token], source: SourceText, flow: Flow) -> Iterator[WaterclockError]:
    """Yield an error for each call of a function that needs a secret key, directly or through another function."""
    for name, token in find_calls(tokens, {**FUNCTIONS, **flow.functions}):
        keyed = _find_keyed([f"{name}(x)"], flow)
        if keyed is not None:
            what = f"{token.text}(…) is" if name == keyed else f"{token.text}(…) calls {keyed}, which is"
            yield _keyed_error(source.span(token.start, token.end + 1), what, "that")


def _keyed_views(found: QueryNames, flow: Flow) -> Iterator[WaterclockError]:
    """Yield an error for each view whose query calls a function that needs a secret key."""
    for table in found.tables:
        view = flow.views.get(table.name)
        keyed = _find_keyed(_texts_of(view.query), flow) if view is not None else None
        if keyed is not None:
            yield _keyed_error(table.span, f"{table.name} calls {keyed}, which is", table.name)


def _find_keyed(texts: Iterable[str], flow: Flow) -> str | None:
    """Return a function that needs a secret key and that SQL texts call, directly or through the flow's functions."""
    called = called_functions({**FUNCTIONS, **flow.functions}, texts)
    return next((function.name for function in called if function.name in SECRET), None)


def _texts_of(query: Query) -> Iterator[str]:
    """Yield the text of a query, and of the views that it reads."""
    yield query.text
    for reference in query.tables:
        if reference.view is not None:
            yield from _texts_of(reference.view)


def _keyed_error(span: Span, what: str, made_of: str) -> WaterclockError:
    return span.refuse(
        "E216",
        f"{what} only for the flow",
        why="queries get no keys: whoever can run a query could read encrypted columns, or try out hashes",
        fix=f"make a TRANSFORM of {made_of}, and query its table",
    )


def _refused_values(found: QueryNames, source: SourceText) -> Iterator[WaterclockError]:
    for value in found.values:
        yield source.span(value.start, value.end).refuse(
            "E216",
            f"{value.name}() is only for queries of the flow",
            why="an ad hoc query has no window",
            fix="write the instant or the timelabel itself",
        )
