"""Writes closed and open windows to the tables under a view, each label in one transaction (OPTIONS (speed true))."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from waterclock.connectors.delivering import Delivered, Delivery, OpenWindowReader, OpenWindowRows
from waterclock.connectors.sql.union_views import (
    CHANGING,
    OpenLabelRecord,
    closed_unit,
    hash_query,
    open_unit,
    remove_open_rows,
    union_query,
)
from waterclock.connectors.sql.versioned_views import require_replaceable_object
from waterclock.connectors.sql.view_tables import SqlViewTables
from waterclock.faults import fault
from waterclock.flow.declarations import Unit
from waterclock.timelabel.label import TIMELABEL

_Columns = TypeVar("_Columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionWriter(Generic[_Columns]):
    """The functions of an open connection that write to the tables under a view.

    - `prepare` creates or alters a table for a delivery, and returns its columns. The last argument: this publish wrote
      the table before.
    - `write` replaces the rows of a delivery's label in a prepared table.
    - `transaction` runs the writing steps in a transaction, if the connection has none yet.
    """

    tables: SqlViewTables
    prepare: Callable[[Unit, Delivery, bool], _Columns]
    write: Callable[[Unit, Delivery, _Columns], Delivered]
    transaction: Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class PreparedUnion(Generic[_Columns]):
    """The columns of the two tables under a view. `label` is the name of the open table's label column."""

    closed: _Columns
    opened: _Columns
    label: str


def prepare_union(writer: UnionWriter[_Columns], unit: Unit, delivery: Delivery) -> PreparedUnion[_Columns]:
    """Create or alter both tables for a delivery's columns, and the view over them.

    Raises E829 if the name of the view is in use, E820 if one of the tables has rows of others.
    """
    tables = writer.tables
    record = OpenLabelRecord(tables.session, delivery.project, delivery.publish)
    known, kind = record.view(), tables.kind_at(unit)
    newest = tables.session.record.newest(delivery.project, delivery.publish)
    require_replaceable_object(unit, delivery, kind, newest, has_union=bool(known))
    parts = closed_unit(unit), open_unit(unit)
    closed, opened = (writer.prepare(part, delivery, bool(known)) for part in parts)
    columns = tables.columns(parts)
    query = union_query(tables.session, unit, delivery, *(columns[part.path] for part in parts))
    if known != hash_query(query) or not kind:
        record.put_view(CHANGING)
        tables.show_query(unit, query)
        record.put_view(hash_query(query))
    return PreparedUnion(closed, opened, _find_label_column(writer, unit))


def record_closed(
    writer: UnionWriter[_Columns], unit: Unit, delivery: Delivery, prepared: PreparedUnion[_Columns]
) -> None:
    """Remove the open rows of a label in the transaction that delivers its closed rows."""
    remove_open_rows(writer.tables.session, unit, delivery.label_text, prepared.label)
    OpenLabelRecord(writer.tables.session, delivery.project, delivery.publish).remove(delivery.label_text)


def show_open_windows(
    writer: UnionWriter[_Columns], unit: Unit, project: str, publish: str, read: OpenWindowReader
) -> int:
    """Write the open windows that `read` returns, in one transaction. Return the number of changed labels.

    The caller holds the lock of the publish. `read` gets the labels that the destination shows.
    """
    session = writer.tables.session
    record = OpenLabelRecord(session, project, publish)
    there = record.slices()
    opened = read(there.keys())
    done = record.delivered([*there, *(each.label_text for each in opened.shown)])
    made = [
        _choose_rows(opened, each, there.get(each.label_text))
        for each in opened.shown
        if each.label_text not in done and there.get(each.label_text, ("", 0))[0] != each.note
    ]
    stays = ({each.label_text for each in opened.shown} | opened.kept) - done
    gone = sorted(there.keys() - stays)
    if not made and not gone:
        return 0
    prepared = [prepare_union(writer, unit, each) for each in made]
    with writer.transaction():
        for label in gone:
            remove_open_rows(session, unit, label, _find_label_column(writer, unit))
            record.remove(label)
        for delivery, of_label in zip(made, prepared, strict=True):
            written = writer.write(open_unit(unit), delivery, of_label.opened)
            known = there[delivery.label_text][1] if delivery.appended_to else 0
            record.remove(delivery.label_text)
            record.put(delivery.label_text, delivery.note, known + written.rows)
        fault("open.written")
    return len(made) + len(gone)


def _choose_rows(opened: OpenWindowRows, whole: Delivery, shown: tuple[str, int] | None) -> Delivery:
    """Return the new rows of a label if the destination shows the slice that they were appended to, else all rows."""
    new = opened.appended.get(whole.label_text)
    return whole if new is None or shown is None or new.appended_to != shown[0] else new


def _find_label_column(writer: UnionWriter[_Columns], unit: Unit) -> str:
    part = open_unit(unit)
    names = [name for name, _ in writer.tables.columns([part]).get(part.path, ())]
    return next((name for name in names if name.lower() == TIMELABEL), TIMELABEL)
