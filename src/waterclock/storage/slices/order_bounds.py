"""Records bounds of MERGE's ORDER BY values in manifests, and compares them: many slices need not be read then."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from waterclock.flow.merge_settings import Merge, Temporal
from waterclock.spark_sql import quote_name
from waterclock.storage.slices.digest import JSON_OPTIONS_SQL
from waterclock.timelabel.label import TIMELABEL

if TYPE_CHECKING:
    from pyspark.sql import Column

    from waterclock.storage.slices.manifest import Manifest

_UNKNOWN = "unknown"
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")
_TEXTS = ("string", "date", "timestamp", "timestamp_ntz")
_Order = tuple[tuple[int, Any], ...]


def order_measures(merge: Merge) -> list[tuple[str, Column]]:
    """Return the aggregates that bound a slice's ORDER BY values, as JSON, and count its deletes."""
    deleted = deletes_sql(merge)
    texts = {"_deletes": f"count_if({deleted})"}
    if merge.order_by:
        order = order_sql(merge.order_by)
        texts |= {
            "_order_high": _json_sql(f"max({order})"),
            "_order_low": _json_sql(f"min({order})"),
            "_delete_high": _json_sql(f"max(if({deleted}, {order}, NULL))"),
        }
    return [(name, F.expr(text)) for name, text in texts.items()]


def fold_signature(fold: Merge | Temporal | None) -> str:
    """Return a text that changes whenever a declaration turns the same rows into another state. Manifests store it.

    For a MERGE it has ORDER BY and DELETE WHEN, for which the bounds are computed. For a TEMPORAL table it has only the
    parts that the ledger does not compare: the HIDDEN columns, and the code of functions in DELETE WHEN.
    """
    if fold is None:
        return ""
    if isinstance(fold, Temporal):
        return json.dumps({"hidden": fold.untracked, "calls": fold.calls})
    return json.dumps([fold.order_by, fold.delete_when, *([fold.calls] if fold.calls else [])])


def is_measured_for(manifest: Manifest, fold: Merge | Temporal) -> bool:
    """Return whether a slice was sealed under a declaration that gives the same state. Always True without rows."""
    return not manifest.rows or manifest.measured_for in {"", fold_signature(fold)}


def clear_foreign_bounds(manifest: Manifest, merge: Merge) -> Manifest:
    """Return a slice's manifest, with unknown bounds if they were computed for another ORDER BY or DELETE WHEN.

    Without bounds, each row of the slice may be a delete, and may sort before or after any other row.
    """
    if is_measured_for(manifest, merge):
        return manifest
    bounds = dict.fromkeys(("order_high", "order_low", "delete_high"), _UNKNOWN if merge.order_by else None)
    return replace(manifest, has_deletes=merge.delete_when is not None, **bounds)


def deletes_sql(merge: Merge) -> str:
    """Return SQL that is TRUE for a row that deletes its key (DELETE WHEN), and FALSE for any other."""
    # the line break ends a comment in the user's own expression
    return f"(({merge.delete_when}\n) IS TRUE)" if merge.delete_when else "false"


def order_sql(order_by: Sequence[str]) -> str:
    """Return the ORDER BY columns as one value: Spark compares structs field by field, NULL lowest, NaN highest."""
    return "struct(" + ", ".join(f"{quote_name(name)} AS o{index}" for index, name in enumerate(order_by)) + ")"


def order_struct(order_by: Sequence[str]) -> Column:
    """Return `order_sql` as a column of a frame."""
    return F.expr(order_sql(order_by))


def place_sql(order_by: Sequence[str], side: str = "") -> str:
    """Return SQL for the value whose maximum determines the last row of a key: ORDER BY, then label.

    `side` is the prefix of the columns, such as 's.'.
    """
    return "struct(" + ", ".join(f"{side}{quote_name(name)}" for name in (*order_by, TIMELABEL)) + ")"


def may_delete_later_row(
    delete_high: str | None, order_low: str | None, types: Sequence[Any], *, is_later: bool = False
) -> bool:
    """Return whether a delete ordered at most `delete_high` may sort after a row of another label, and so remove it.

    `order_low` is the lowest order of that label's rows. At equal order the later label wins: that of the rows, or that
    of the delete if `is_later` is set. Return True if it is unknown. `types` are those of the ORDER BY columns, as in a
    schema's JSON.
    """
    if delete_high is None or order_low is None:
        return False
    high, low = _parse_order(delete_high, types), _parse_order(order_low, types)
    return high is None or low is None or high > low or (is_later and high == low)


def _json_sql(text: str) -> str:
    return f"to_json({text}, {JSON_OPTIONS_SQL})"


def _parse_order(text: str, types: Sequence[Any]) -> _Order | None:
    if text == _UNKNOWN:
        return None
    values = json.loads(text, parse_float=Decimal)
    parts = [_parse_order_value(values.get(f"o{index}"), type_) for index, type_ in enumerate(types)]
    known = tuple(part for part in parts if part is not None)
    return known if len(known) == len(parts) else None


def _parse_order_value(value: Any, type_: Any) -> tuple[int, Any] | None:
    name = "" if isinstance(type_, Mapping) else str(type_).split("(", 1)[0]
    if value is None:
        return (0, 0)
    if name == "boolean":
        return (1, value)
    if name in _NUMBERS:
        return (2, 0) if value == "NaN" else (1, Decimal(value))
    # a year beyond 9999 is written with a sign, and does not compare as text
    if name in _TEXTS and (name == "string" or value[0] not in "+-"):
        return (1, value)
    return None
