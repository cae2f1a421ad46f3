"""Records the offline measurements of tables.

These writes do not concern batches, so they leave the ledger's sequence unchanged and wake no runner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from waterclock.batches.offline import NEVER, LabelMeasures, SpanMeasures
from waterclock.flow.measures import MeasuredValue
from waterclock.ledger.store.database import LedgerDatabase
from waterclock.ledger.store.instants import Instant
from waterclock.ledger.store.schema import NAME, offline_looks, offline_measures, offline_spans
from waterclock.ledger.store.texts import storable


def _build_upsert(table: sa.Table, columns: str, keys: str) -> sa.TextClause:
    names = columns.split()
    updates = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys.split())
    text = (
        f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"
        f" ON CONFLICT ({', '.join(keys.split())}) DO UPDATE SET {updates}"
    )
    return sa.text(text).bindparams(*(sa.bindparam(name, type_=table.c[name].type) for name in names))


_FIRST = sa.text(
    "INSERT INTO offline_looks (table_name, code, looked_at, at, labels, seconds)"
    " VALUES (:of, '', :never, :never, 0, 0) ON CONFLICT (table_name) DO NOTHING"
).bindparams(sa.bindparam("never", type_=Instant()), sa.bindparam("of", type_=NAME))
_OF = offline_looks.c.table_name == sa.bindparam("of")
_TAKE = (
    sa.update(offline_looks)
    .where(
        _OF,
        offline_looks.c.looked_at == sa.bindparam("seen"),
        sa.or_(offline_looks.c.taken_until.is_(None), offline_looks.c.taken_until < sa.bindparam("now")),
    )
    .values(taken_until=sa.bindparam("until"))
)
_END = (
    sa.update(offline_looks)
    .where(_OF)
    .values(
        code=sa.bindparam("by"),
        looked_at=sa.bindparam("as_of"),
        at=sa.bindparam("now"),
        labels=sa.bindparam("count"),
        seconds=sa.bindparam("took"),
        error=sa.bindparam("error_text"),
        taken_until=None,
    )
)
_LABEL = _build_upsert(offline_measures, "table_name label claim code found states at", "table_name label")
_SPAN = _build_upsert(offline_spans, "table_name low high labels code found at", "table_name low")
_OLD_SPANS = sa.delete(offline_spans).where(
    offline_spans.c.table_name == sa.bindparam("of"), offline_spans.c.code != sa.bindparam("by")
)
_FORGET = (
    sa.update(offline_measures)
    .where(
        offline_measures.c.table_name == sa.bindparam("of"),
        offline_measures.c.label < sa.bindparam("before"),
        offline_measures.c.states.is_not(None),
    )
    .values(states=sa.null())
)


def reserve_measurement(database: LedgerDatabase, table: str, *, seen: datetime | None, lease: timedelta) -> bool:
    """Reserve the next offline measurement of a table. Return False if another runner has reserved or made it.

    `seen` is the logical time of the last measurement that the caller knows; the reservation lasts for `lease`.
    """
    with database.write_unordered() as (connection, now):
        connection.execute(_FIRST, {"of": table, "never": NEVER})
        values = {"of": table, "seen": seen or NEVER, "now": now, "until": now + lease}
        return connection.execute(_TAKE, values).rowcount == 1


def record_measurements(database: LedgerDatabase, table: str, code: str, found: Iterable[LabelMeasures]) -> None:
    """Record the measurements of labels, replacing those recorded before."""
    with database.write_unordered() as (connection, now):
        rows = [
            {
                "table_name": table,
                "label": each.label,
                "claim": each.claim,
                "code": code,
                "found": _build_json(each.found),
                "states": each.states,
                "at": now,
            }
            for each in found
        ]
        if rows:
            connection.execute(_LABEL, rows)


def finish_measurement(  # noqa: PLR0913 - each is a part of the outcome
    database: LedgerDatabase,
    table: str,
    code: str,
    *,
    looked_at: datetime,
    labels: int,
    seconds: float,
    spans: Iterable[SpanMeasures] = (),
    forget_before: datetime | None = None,
    error: str | None = None,
) -> None:
    """Record the outcome of a measurement and end its reservation.

    Without an `error`, also store the results for periods (`spans`), and delete the partial aggregates of labels before
    `forget_before`.
    """
    with database.write_unordered() as (connection, now):
        values = {"of": table, "by": code, "as_of": looked_at, "now": now, "count": labels, "took": seconds}
        connection.execute(_END, {**values, "error_text": error})
        if error is not None:
            return
        connection.execute(_OLD_SPANS, {"of": table, "by": code})
        rows = [
            {
                "table_name": table,
                "low": each.low,
                "high": each.high,
                "labels": each.labels,
                "code": code,
                "found": _build_json(each.found),
                "at": now,
            }
            for each in spans
        ]
        if rows:
            connection.execute(_SPAN, rows)
        if forget_before is not None:
            connection.execute(_FORGET, {"of": table, "before": forget_before})


def _build_json(found: Mapping[str, MeasuredValue]) -> dict[str, Any]:
    texts = {name: None if it.value is None else storable(it.value) for name, it in found.items()}
    return {name: {"value": texts[name], "type": it.type} for name, it in found.items()}
