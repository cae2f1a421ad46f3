"""Extracts the records at a path of JSON documents, with Spark SQL. Lists on the path are expanded.

Spark converts numbers to text through a double, except when its reader reads a file in UTF-8. A VARIANT preserves the
digits, but sorts the keys of objects. So only values with a number that a double may round are read as VARIANT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from waterclock.connectors.files.reading_options import ReadOptions
from waterclock.connectors.files.type_errors import PATH, build_raise_sql
from waterclock.connectors.spark_file_metadata import show_metadata
from waterclock.spark_sql import ddl_of, quote_name, sql_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD = "_waterclock_record"
VALUE = "value"
_KINDS = ("STRING", "VARIANT")
WHOLE = "_waterclock_whole"
_PLAIN = '{"value": 0}'
_AT, _BAD, _EXACT = "_waterclock_at", "_waterclock_bad", "_waterclock_exact"
_MAY_BE_ROUNDED = "RLIKE '[0-9][0-9.]{15}'"


def extract_records(
    read: Callable[[str], DataFrame], reading: ReadOptions, types: Mapping[str, str], variants: Mapping[str, str]
) -> DataFrame:
    """Return the records at the path `reading.rows`, each as the struct `RECORD`, with the file's path as `PATH`.

    `read` reads the documents with a schema. `types` are the Spark types of the records' fields, and `variants` the
    same types with VARIANT in place of texts that may be numbers. A record that is not an object has its value in the
    field `VALUE`. The struct also has the fields of enclosing objects that `reading.outer` declares. If `types`
    contains `WHOLE`, the struct's only field is a list of the record's keys. A document without the path has no
    records.
    """
    first = dict.fromkeys([reading.rows[0], *(outer.rest[0] for outer in reading.outer if outer.depth == 0)])
    kept = [f"_waterclock_outer_{at}" for at in range(len(reading.outer))]
    kind = "STRING" if reading.is_utf8 else "VARIANT"
    fields = ", ".join(f"{quote_name(name)} {kind}" for name in first)
    texts = {name: quote_name(name) if reading.is_utf8 else f"CAST({quote_name(name)} AS STRING)" for name in first}
    now = {at: _text_at_sql(texts[o.rest[0]], o.rest[1:]) for at, o in enumerate(reading.outer) if o.depth == 0}
    documents, file = show_metadata(read(fields), first)
    frame = documents.selectExpr(
        f"{file}.file_path AS {PATH}",
        f"{texts[reading.rows[0]]} AS {_AT}",
        *(f"{now.get(at, 'CAST(NULL AS STRING)')} AS {name}" for at, name in enumerate(kept)),
    )
    for depth in range(1, len(reading.rows) + 1):
        frame = frame.selectExpr(PATH, f"explode({_list_elements_sql(_AT)}) AS {_AT}", *kept).where(
            f"{_AT} IS NOT NULL"
        )
        if depth < len(reading.rows):
            frame = _descend(frame, reading, depth, kept)
    if WHOLE in types:
        keys = f"json_object_keys(CASE WHEN {_AT} LIKE '{{%' THEN {_AT} ELSE '{_PLAIN}' END)"
        return frame.selectExpr(PATH, f"named_struct('{WHOLE}', {keys}) AS {RECORD}")
    own = {name: kind for name, kind in types.items() if name not in {outer.name for outer in reading.outer}}
    value = f"CASE WHEN {_AT} LIKE '{{%' THEN {_AT} ELSE to_json(named_struct('{VALUE}', {_AT})) END"
    exact = {name: variants[name] for name in own}
    read_as = {f"CASE WHEN NOT {_AT} {_MAY_BE_ROUNDED} THEN {_from_json_sql(value, own)} END": RECORD}
    read_as |= {f"CASE WHEN {_AT} {_MAY_BE_ROUNDED} THEN {_from_json_sql(value, exact)} END": _EXACT}
    parsed = frame.selectExpr(PATH, *kept, *(f"{text} AS {name}" for text, name in read_as.items()))
    bad = f"coalesce({RECORD}.{_BAD}, {_EXACT}.{_BAD})"
    parts = [
        f"{sql_text(name)}, coalesce({RECORD}.{quote_name(name)}, CAST({_EXACT}.{quote_name(name)} AS {kind}))"
        for name, kind in own.items()
    ]
    parts += [f"{sql_text(outer.name)}, {name}" for outer, name in zip(reading.outer, kept, strict=True)]
    made, broken = f"named_struct({', '.join(parts)})", build_raise_sql(PATH, "a record", bad)
    return parsed.selectExpr(PATH, f"CASE WHEN {bad} IS NULL THEN {made} ELSE {broken} END AS {RECORD}")


def _list_elements_sql(text: str) -> str:
    """Return SQL for the elements of a JSON list as texts, or for the text itself if it is not a valid list.

    The text is wrapped in another list to detect trailing text, which Spark would otherwise ignore.
    """
    within = f"concat('[', {text}, ']')"
    plain = f"from_json({within}, 'ARRAY<ARRAY<STRING>>')"
    exact = f"from_json({within}, 'ARRAY<ARRAY<VARIANT>>')"
    cast = f"transform({exact}[0], each -> CAST(each AS STRING))"
    return (
        f"CASE WHEN {text} NOT LIKE '[%]' OR NOT coalesce(size({plain}) = 1 AND {plain}[0] IS NOT NULL, FALSE) "
        f"THEN array({text}) WHEN {text} {_MAY_BE_ROUNDED} THEN {cast} ELSE {plain}[0] END"
    )


def _from_json_sql(value: str, types: Mapping[str, str]) -> str:
    ddl = ", ".join(f"{quote_name(name)} {kind}" for name, kind in {**types, _BAD: "STRING"}.items())
    return f"from_json({value}, {sql_text(ddl)}, map('columnNameOfCorruptRecord', '{_BAD}'))"


def _descend(frame: DataFrame, reading: ReadOptions, depth: int, kept: list[str]) -> DataFrame:
    """Replace the objects at a depth of the path by their values at the next step, and extract fields of `outer`."""
    outer = {at: one for at, one in enumerate(reading.outer) if one.depth == depth}
    fields = dict.fromkeys([reading.rows[depth], *(one.rest[0] for one in outer.values())])
    plain, exact = (f"from_json({_AT}, {sql_text(ddl_of((name, kind) for name in fields))})" for kind in _KINDS)
    texts = ", ".join(f"{sql_text(name)}, CAST({_EXACT}.{quote_name(name)} AS STRING)" for name in fields)
    both = frame.selectExpr(
        PATH,
        *kept,
        f"CASE WHEN NOT {_AT} {_MAY_BE_ROUNDED} THEN {plain} END AS {_AT}",
        f"CASE WHEN {_AT} {_MAY_BE_ROUNDED} THEN {exact} END AS {_EXACT}",
    )
    held = both.selectExpr(
        PATH, *kept, f"CASE WHEN {_EXACT} IS NULL THEN {_AT} ELSE named_struct({texts}) END AS {_AT}"
    )
    values = {at: _text_at_sql(f"{_AT}.{quote_name(one.rest[0])}", one.rest[1:]) for at, one in outer.items()}
    return held.selectExpr(
        PATH,
        f"{_AT}.{quote_name(reading.rows[depth])} AS {_AT}",
        *(f"{values.get(at, name)} AS {name}" for at, name in enumerate(kept)),
    )


def _text_at_sql(text: str, rest: tuple[str, ...]) -> str:
    if not rest:
        return text
    path = sql_text("$" + "".join(f"['{step}']" for step in rest))
    exact = f"try_variant_get(try_parse_json({text}), {path}, 'string')"
    return f"CASE WHEN {text} {_MAY_BE_ROUNDED} THEN {exact} ELSE get_json_object({text}, {path}) END"


def find_records(document: Mapping[str, Any], reading: ReadOptions) -> Iterator[dict[str, Any] | None]:
    """Yield the records of a parsed document as Spark extracts them; None for an object without the path."""
    yield from _find_below([document], reading.rows, {outer.name: None for outer in reading.outer})


def _find_below(
    values: list[Any], steps: tuple[str, ...], outer: Mapping[str, None]
) -> Iterator[dict[str, Any] | None]:
    if not steps:
        for value in values:
            if value is not None:
                yield {**(value if isinstance(value, dict) else {VALUE: value}), **outer}
        return
    for value in values:
        if not isinstance(value, dict) or steps[0] not in value:
            yield None
            continue
        inner = value[steps[0]]
        yield from _find_below(inner if isinstance(inner, list) else [inner], steps[1:], outer)
