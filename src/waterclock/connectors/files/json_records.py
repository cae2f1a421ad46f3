"""Finds the records of JSON documents along a path, natively in Spark: lists on the way are gone through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from waterclock.connectors.files.misfits import PATH, refused
from waterclock.connectors.files.reading_options import Reading
from waterclock.spark_sql import quoted, sql_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD = "_waterclock_record"
VALUE = "value"
WHOLE = "_waterclock_whole"
_PLAIN = '{"value": 0}'
_AT, _BAD = "_waterclock_at", "_waterclock_bad"


def records(read: Callable[[str], DataFrame], reading: Reading, types: Mapping[str, str]) -> DataFrame:
    """Return the records at `reading.rows`, each as the struct `RECORD`, with the file's path as `PATH`.

    `read` reads documents by a schema. A record that is no object has its value as `VALUE`. Fields of what encloses
    the records are in the struct as well; of `WHOLE` it has the records' keys alone. A document without the path has no
    records.
    """
    first = dict.fromkeys([reading.rows[0], *(outer.rest[0] for outer in reading.outer if outer.depth == 0)])
    kept = [f"_waterclock_outer_{at}" for at in range(len(reading.outer))]
    asked = ", ".join(f"{quoted(name)} STRING" for name in first)
    now = {at: _text_at(quoted(o.rest[0]), o.rest[1:]) for at, o in enumerate(reading.outer) if o.depth == 0}
    frame = read(asked).selectExpr(
        f"_metadata.file_path AS {PATH}",
        f"{quoted(reading.rows[0])} AS {_AT}",
        *(f"{now.get(at, 'CAST(NULL AS STRING)')} AS {name}" for at, name in enumerate(kept)),
    )
    for depth in range(1, len(reading.rows) + 1):
        # a text may begin as a list does, and is none
        each = f"coalesce(CASE WHEN {_AT} LIKE '[%' THEN from_json({_AT}, 'ARRAY<STRING>') END, array({_AT}))"
        frame = frame.selectExpr(PATH, f"explode({each}) AS {_AT}", *kept).where(f"{_AT} IS NOT NULL")
        if depth < len(reading.rows):
            frame = _step(frame, reading, depth, kept)
    if WHOLE in types:
        keys = f"json_object_keys(CASE WHEN {_AT} LIKE '{{%' THEN {_AT} ELSE '{_PLAIN}' END)"
        return frame.selectExpr(PATH, f"named_struct('{WHOLE}', {keys}) AS {RECORD}")
    own = {name: kind for name, kind in types.items() if name not in {outer.name for outer in reading.outer}}
    ddl = ", ".join(f"{quoted(name)} {kind}" for name, kind in {**own, _BAD: "STRING"}.items())
    options = f"map('columnNameOfCorruptRecord', '{_BAD}')"
    value = f"CASE WHEN {_AT} LIKE '{{%' THEN {_AT} ELSE to_json(named_struct('{VALUE}', {_AT})) END"
    parsed = frame.selectExpr(PATH, *kept, f"from_json({value}, {sql_text(ddl)}, {options}) AS {RECORD}")
    broken = refused(PATH, "a record", f"{RECORD}.{_BAD}")
    parts = [f"{sql_text(name)}, {RECORD}.{quoted(name)}" for name in own]
    parts += [f"{sql_text(outer.name)}, {name}" for outer, name in zip(reading.outer, kept, strict=True)]
    made = f"named_struct({', '.join(parts)})"
    return parsed.selectExpr(PATH, f"CASE WHEN {RECORD}.{_BAD} IS NULL THEN {made} ELSE {broken} END AS {RECORD}")


def _step(frame: DataFrame, reading: Reading, depth: int, kept: list[str]) -> DataFrame:
    """Go on from the objects at a depth to what they hold under the next step."""
    outer = {at: one for at, one in enumerate(reading.outer) if one.depth == depth}
    asked = dict.fromkeys([reading.rows[depth], *(one.rest[0] for one in outer.values())])
    ddl = ", ".join(f"{quoted(name)} STRING" for name in asked)
    held = frame.selectExpr(PATH, *kept, f"from_json({_AT}, {sql_text(ddl)}) AS {_AT}")
    values = {at: _text_at(f"{_AT}.{quoted(one.rest[0])}", one.rest[1:]) for at, one in outer.items()}
    return held.selectExpr(
        PATH,
        f"{_AT}.{quoted(reading.rows[depth])} AS {_AT}",
        *(f"{values.get(at, name)} AS {name}" for at, name in enumerate(kept)),
    )


def _text_at(text: str, rest: tuple[str, ...]) -> str:
    path = "".join(f"['{step}']" for step in rest)
    return f"get_json_object({text}, {sql_text('$' + path)})" if rest else text


def found_in(document: Mapping[str, Any], reading: Reading) -> Iterator[dict[str, Any] | None]:
    """Yield the records of a parsed document as Spark finds them; None once where the document has no such path."""
    yield from _below([document], reading.rows, {outer.name: None for outer in reading.outer})


def _below(values: list[Any], steps: tuple[str, ...], outer: Mapping[str, None]) -> Iterator[dict[str, Any] | None]:
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
        yield from _below(inner if isinstance(inner, list) else [inner], steps[1:], outer)
