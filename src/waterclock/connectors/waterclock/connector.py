"""The connection type `waterclock`: tables of another project, collected at its ticks.

Connection      `path`: the other project's folder, whose file names its storage and its ledger; or `storage` and
                `ledger` themselves.
Unit            A table by its name in the other project, `schema.table`.
Data time       BY DATA TIME timelabel of a PARTITIONED or an APPEND table: each window reads the slices in it.
Without a BY    A REPLACE, MERGE or TEMPORAL table: its state as of its last boundary at or before the window's end.

Nothing is ever written to the other project; see `waterclock.ledger.store.read_only` for how its ledger is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from waterclock.batches.linked_projects import LinkFacts
from waterclock.batches.records import Pin
from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import Collected, ConnectionType, ProjectPlace, Setting
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities, Option
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.enums import FOLDS, Batching

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.ledger.ledger import Ledger
    from waterclock.timelabel.window import Window

R = TypeVar("R")
Span = tuple["datetime", "datetime"]
_RETRYABLE = frozenset({"E415", "E423"})  # a ledger that is locked, or whose server is down: a retry may succeed
# errors caused by values of unexpected types, as other programs may write to that ledger
_VALUE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
CAPABILITIES = Capabilities(
    type="waterclock",
    connection_options={
        "path": Option(help="the folder of the other project, with its waterclock.toml"),
        "env": Option(help="the environment of the other project; default the one its file chooses"),
        "storage": Option(help="the other project's storage, if its folder is not accessible"),
        "ledger": Option(
            is_address=True, help="the URL of its ledger, or a secret; default sqlite:///<storage>/ledger.db"
        ),
    },
    collects=frozenset({Batching.LABELS, Batching.STATE}),
)


def _open_source(setting: Setting) -> WaterclockCollector:
    return WaterclockCollector(setting)


def _open_destination(setting: Setting) -> Deliverer:
    """Raise an error, because only the other project writes its tables. `waterclock check` reports it before."""
    raise AssertionError(f"{setting.name} takes no publishes, which check refuses")


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)


@dataclass(slots=True)
class WaterclockCollector:
    """Collects tables of another project."""

    setting: Setting
    _facts: dict[str, tuple[int, LinkFacts]] = field(default_factory=dict)

    def place(self) -> ProjectPlace:
        """Return the location of the other project."""
        from waterclock.connectors.waterclock.project_location import locate_project

        return locate_project(self.setting)

    def clock(self, unit: Unit) -> None:
        """Return None: the ledger of the other project shows which windows may be read."""

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Return an error if Spark did not find or could not read a file of the other project; else None."""
        from waterclock.connectors.waterclock.linked_table_rows import missing_file_error

        del columns
        return missing_file_error(str(unit), error)

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return the columns of the table after its last batch; None before its first batch."""
        from waterclock.connectors.waterclock.linked_table_rows import columns_of

        facts = self.facts(unit)
        if facts.problem is not None:
            raise facts.problem
        return columns_of(self._table_folder(unit))

    def facts(self, unit: Unit) -> LinkFacts:
        """Return the progress of a table in the other project, such as its settled windows.

        Cost: some milliseconds if the other project has written nothing since the last call.
        """
        known = self._facts.get(unit.path)
        try:
            found = self._read_ledger(lambda ledger: self._facts_of(ledger, unit, known))
        except WaterclockError as error:
            return LinkFacts(str(unit), problem=error)
        if found is None:
            return LinkFacts(str(unit))
        self._facts[unit.path] = found
        return found[1]

    def contents(self, unit: Unit, spans: Sequence[Span]) -> Sequence[str]:
        """Return for each interval of `spans` a text that identifies the current content of the table."""
        found = self._read_ledger(lambda ledger: _query_contents(ledger, unit, spans)) or ()
        return list(found)

    def pins(self, unit: Unit, spans: Sequence[Span]) -> Sequence[Pin]:
        """Return the versions and slices of a table to read for each interval of `spans`, as of one moment."""
        found = (
            self._read_ledger(
                lambda ledger: ledger.reads.pins([(_current_name(ledger, unit), *span) for span in spans])
            )
            or []
        )
        return [replace(pin, table=str(unit)) for pin in found]

    def read_pinned(
        self, spark: SparkSession, unit: Unit, pins: Sequence[tuple[Window, Pin]], columns: Columns, *, by_label: bool
    ) -> Collected:
        """Read the versions `pins` of the table. The other table's own column `timelabel` is left out."""
        from waterclock.connectors.waterclock.linked_table_rows import Read, collect_pinned_rows

        folds = self.facts(unit).mode in FOLDS
        read = Read(spark, self.place().storage, self._table_folder(unit), unit)
        return collect_pinned_rows(read, pins, columns, by_label=by_label, folds=folds)

    def circle(self, unit: Unit, own: ProjectPlace, reading: frozenset[str]) -> str | None:
        """Return one of the tables `reading` of this project that the unit's table reads, directly or indirectly.

        Return None if it reads none of them. Otherwise the two projects would wait for each other.
        """
        from waterclock.connectors.waterclock.project_location import leads_to

        place = self.place()
        leading = [name for name, options in place.connections.items() if leads_to(place, options, own)]
        if not leading:
            return None
        from waterclock.connectors.waterclock.linked_declarations import LinkedTables

        found = self._read_ledger(
            lambda ledger: (_current_name(ledger, unit), LinkedTables(ledger.reads.declarations()))
        )
        if found is None or found[0] not in found[1].declarations.tables:
            return None
        name, upstream = found
        collected = upstream.find_collected_tables(leading)
        above = {name, *upstream.find_upstream_tables(name)}
        return next((ours for name, ours in sorted(collected.items()) if name in above and ours in reading), None)

    def _table_folder(self, unit: Unit) -> str:
        """Return the storage folder of the table. A renamed table keeps its old folder.

        Raises E838 if the folder leads out of the storage.
        """
        from waterclock.connectors.waterclock.outside_links import require_folder_within
        from waterclock.storage.lake import Lake

        place = self._read_ledger(lambda ledger: (_current_name(ledger, unit), ledger.declared.former().folders)) or (
            unit.path,
            {},
        )
        storage = self.place().storage
        folder = Lake(storage, folders=place[1]).folder(place[0])
        require_folder_within(storage, folder)
        return folder

    def _read_ledger(self, query: Callable[[Ledger], R]) -> R | None:
        """Call `ask` with the ledger of the other project; None if that project has not run yet.

        Raises E833 if there is no such project, E837 for a ledger of another version, E838 if it cannot be read.
        """
        from waterclock.connectors.waterclock.project_location import invalid_value_error, unreadable_project_error
        from waterclock.ledger.ledger import Ledger
        from waterclock.ledger.store.locations import redact_url_text
        from waterclock.ledger.store.read_only import OlderSchema

        place = self.place()
        try:
            answer = Ledger.query(place.ledger, partial(_query_unmoved, query))
        except OlderSchema as older:
            why = f"its schema is {older.found}, this version reads {older.known}"
            fix = "run the other project once with this version: this upgrades its ledger"
            raise _other_version_error(redact_url_text(place.ledger), why, fix) from older
        except _VALUE_ERRORS as error:
            raise invalid_value_error(redact_url_text(place.ledger), error) from error
        except OSError as error:
            raise unreadable_project_error(redact_url_text(place.ledger), error) from error
        except WaterclockError as error:
            if error.code == "E402":
                fix = "install that version here too, or a later one"
                raise _other_version_error(redact_url_text(place.ledger), error.why or error.what, fix) from error
            if error.code == "E425":
                raise self._missing_project_error(
                    f"{error.what}: {error.why}", "set ledger to its current URL"
                ) from error
            if not error.code.startswith("E4") or error.code in _RETRYABLE:
                raise
            raise unreadable_project_error(redact_url_text(place.ledger), error) from error
        if answer is None and place.root is None:
            fix = "set storage and ledger as in its own waterclock.toml, or set path to its folder"
            raise self._missing_project_error(f"there is no ledger at {redact_url_text(place.ledger)}", fix)
        return answer

    def _missing_project_error(self, why: str, fix: str) -> WaterclockError:
        where = f"connection {self.setting.name}"
        return WaterclockError("E833", "the other project cannot be found", where=where, why=why, fix=fix)

    def _facts_of(self, ledger: Ledger, unit: Unit, known: tuple[int, LinkFacts] | None) -> tuple[int, LinkFacts]:
        sequence = ledger.sequence()
        if known is not None and known[0] == sequence and known[1].problem is None:
            return known
        from waterclock.connectors.waterclock.linked_declarations import LinkedTables, graph_of
        from waterclock.planner.settlement import find_unsettled

        upstream = LinkedTables(ledger.reads.declarations())
        table = upstream.table(_current_name(ledger, unit), str(unit))
        flow = upstream.flow()
        snapshot = ledger.reads.snapshot(flow)
        cadences = {name: each.cadence for name, each in flow.tables.items()}
        starts = {name: cadences[name].floor(it.start) for name, it in snapshot.tables.items() if it.start is not None}
        settled = find_unsettled(graph_of(flow), snapshot, {}, starts).settled
        facts = LinkFacts(
            str(unit),
            table.cadence,
            table.mode,
            settled[table.name],
            snapshot.of(table.name),
            is_dropped=upstream.is_dropped(table.name),
            sequence=sequence,
        )
        return sequence, facts


def _query_unmoved(query: Callable[[Ledger], R], ledger: Ledger) -> R:
    """Call `ask` with the ledger. Raises an error if the ledger was moved, because its old copy is outdated."""
    ledger.maintenance.require_not_moved()
    return query(ledger)


def _current_name(ledger: Ledger, unit: Unit) -> str:
    """Return the current name of a table, which may have been renamed in the other project."""
    if ledger.reads.find_table(unit.path) is not None:
        return unit.path
    return ledger.declared.former().tables.get(unit.path, unit.path)


def _query_contents(ledger: Ledger, unit: Unit, spans: Sequence[Span]) -> Sequence[str]:
    requests = [(_current_name(ledger, unit), *span) for span in spans]
    found = ledger.reads.contents(requests)
    return [found[each] for each in requests]


def _other_version_error(where: str, why: str, fix: str) -> WaterclockError:
    return WaterclockError("E837", "the other project's ledger has another version", where=where, why=why, fix=fix)
