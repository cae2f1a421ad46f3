"""Delivers keys to a form (`PUBLISH … TO forms.x MERGE`), where people add the values: a mapping queue.

Only keys that the form never had are inserted. No row is changed or deleted, so a publish never overwrites what a
person entered, and a key that a person deleted does not return. The other columns are hints, which are shown next to
the row and are not part of it. The record of deliveries is that of databases (`sql/database_delivery`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waterclock.connectors.delivering import Delivered, Delivery, DeliveryOutcome
from waterclock.connectors.forms.changes import NewBatch, Origin, key_text, write_batch, write_json
from waterclock.connectors.forms.database import CHANGES, ENTITIES, ROWS, FormsDatabase, FormsSession
from waterclock.connectors.postgres.delivery import PostgresDeliverer
from waterclock.connectors.slice_rows import to_portable_types
from waterclock.connectors.sql.database_delivery import SingleTransactionDeliverer
from waterclock.connectors.sql.delivery_record import missing_record_message
from waterclock.connectors.sql.slice_tuples import row_batches_of_slice
from waterclock.connectors.sqlite.delivery import SqliteDeliverer
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Unit

if TYPE_CHECKING:
    import pyarrow as pa

_KEYS_OF_A_QUERY = 500


class _KeyDelivery(SingleTransactionDeliverer[Any, Mapping[str, Any]]):
    """Inserts new keys, in the transaction and with the record of the deliverer that is the next base class."""

    __slots__ = ()

    of_forms: FormsDatabase

    def deliver(self, unit: Unit, deliveries: Sequence[Delivery]) -> tuple[Delivered, ...]:
        """Insert the new keys of the slices of one claim, in one transaction, once."""
        self.of_forms.require_tables(str(unit))
        return super().deliver(unit, deliveries)

    def kill(self, unit: Unit, project: str, publish: str, claim: int) -> Delivered:
        """Record the claim as killed, unless it has an outcome. A connection that delivers it is ended first."""
        self.of_forms.require_tables(str(unit))
        return super().kill(unit, project, publish, claim)

    def find_loss(self, unit: Unit, project: str, publish: str, claim: int) -> str | None:
        """Return a message if the record of a claim is missing. Rows cannot be lost: history refuses deletes."""
        found = self.find(unit, project, publish, claim)
        return missing_record_message(claim) if found is None or found.outcome is DeliveryOutcome.KILLED else None

    def require_privileges(self, unit: Unit, *, is_merge: bool) -> None:
        """Do nothing: the login creates the tables of the forms, and so may write to them."""

    def _prepare_table(self, connection: Any, unit: Unit, delivery: Delivery, *, is_ours: bool) -> Mapping[str, Any]:
        del unit, delivery, is_ours
        FormsSession(connection, self.of_forms.is_server).take_turn()
        return {}

    def _deliver_rows(self, connection: Any, unit: Unit, delivery: Delivery, there: Mapping[str, Any]) -> Delivered:
        del there
        session = FormsSession(connection, self.of_forms.is_server)
        keys, required = _registered(session, unit, delivery)
        new = NewBatch(
            unit.path, f"publish {delivery.publish}", f"{delivery.publish}@{delivery.label_text}", Origin.PUBLISH
        )
        count = 0
        for rows in _rows_of(delivery, keys):
            hints = {key: write_json(of_key) for key, (_, of_key) in rows.items()}
            known = _known_keys(session, unit.path, list(rows))
            inserted = {key: content for key, (content, _) in rows.items() if key not in known}
            if inserted:
                write_batch(self.of_forms, session, new, inserted, {}, required)
            update = f"UPDATE {ROWS} SET hints = ? WHERE entity = ? AND key = ?"
            session.execute_many(update, [(text, unit.path, key) for key, text in hints.items()])
            count += len(inserted)
        return Delivered(delivery.claim, DeliveryOutcome.DELIVERED, delivery.label_text, count, 0, delivery.note)


@dataclass(frozen=True, slots=True)
class FormsSqliteDeliverer(_KeyDelivery, SqliteDeliverer):
    """Delivers keys to the forms in a SQLite file."""

    of_forms: FormsDatabase


@dataclass(frozen=True, slots=True)
class FormsPostgresDeliverer(_KeyDelivery, PostgresDeliverer):
    """Delivers keys to the forms in a PostgreSQL database."""

    of_forms: FormsDatabase


def _registered(session: FormsSession, unit: Unit, delivery: Delivery) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the key columns and required columns of the form; record those of the publish if there are none yet.

    Raises E897 if the publish has another key.
    """
    known = session.first_of(f"SELECT keys, required FROM {ENTITIES} WHERE entity = ?", (unit.path,))
    if known is None:
        session.execute(f"INSERT INTO {ENTITIES} VALUES (?, ?, ?)", (unit.path, json.dumps(list(delivery.keys)), "[]"))
        return delivery.keys, ()
    keys, required = tuple(json.loads(known[0])), tuple(json.loads(known[1]))
    if {key.lower() for key in keys} != {key.lower() for key in delivery.keys}:
        raise WaterclockError(
            "E897",
            f"{delivery.publish} has the key {', '.join(delivery.keys)}, and the form has {', '.join(keys)}",
            where=f"{delivery.publish}@{delivery.label_text}",
            why="a publish to a form inserts its keys",
            fix=f"publish MERGE ON ({', '.join(keys)}) columns of these names",
        )
    return keys, required


def _rows_of(
    delivery: Delivery, keys: Sequence[str]
) -> Iterator[dict[str, tuple[dict[str, str | None], dict[str, str | None]]]]:
    """Yield the rows of a slice in batches, as key columns and hints by the text of the key.

    Deleted rows and rows with an empty key are left out.
    """

    def convert(values: pa.Array, name: str, kind: str) -> list[Any]:
        del name
        plain = to_portable_types(values, kind, mark="Z").to_pylist()
        return [None if value is None else _text_of(value) for value in plain]

    names = [name for name, _ in delivery.columns]
    lower = [name.lower() for name in names]
    places = [lower.index(key.lower()) for key in keys]
    for rows in row_batches_of_slice(delivery, convert, with_marks=True):
        found = {}
        for row in rows:
            values = [row[at] for at in places]
            if row[-1] or not all(values):
                continue
            hints = {name: row[at] for at, name in enumerate(names) if at not in places}
            found[key_text(values)] = (dict(zip(keys, values, strict=True)), hints)
        yield found


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.hex() if isinstance(value, bytes) else str(value)


def _known_keys(session: FormsSession, entity: str, keys: Sequence[str]) -> set[str]:
    """Return those of the keys that the form has, or had."""
    known: set[str] = set()
    for begin in range(0, len(keys), _KEYS_OF_A_QUERY):
        part = keys[begin : begin + _KEYS_OF_A_QUERY]
        places = ", ".join("?" * len(part))
        sql = f"SELECT DISTINCT key FROM {CHANGES} WHERE entity = ? AND key IN ({places})"
        known.update(str(key) for (key,) in session.rows_of(sql, (entity, *part)))
    return known
