"""The connection type `rest`: records of an API over HTTP, and rows that are sent to one.

Connection      `url`, one way of authorization, a rate; what pages look like, for all that is collected from it.
Unit            A resource: `api.orders` is `<url>/orders`, unless `path` says another.
Data time       The parameters `since` and `until` ask for a window; what comes beyond it is left out. Without them
                all is read, and sorted.
Snapshot        All pages, one after the other.
For each row    A request for each, or for some of them at a time; answers are kept by what was asked: see `details`.
Pages           Kept on disk as they came, before they are read: see `pages`. A collect that was stopped goes on.
Publish         See `delivery`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import Collected, EachRequest, Setting, WindowRequest
from waterclock.connectors.rest import declared
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities, Driver
from waterclock.flow.choices import Batching, Mode
from waterclock.flow.declarations import Columns, Unit

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.connectors.rest.asking import Api
    from waterclock.connectors.rest.collection import Reading

CAPABILITIES = Capabilities(
    type="rest",
    driver=Driver("httpx2", extra="rest"),
    connection_options={**declared.OF_ADDRESS, **declared.OF_PAGES},
    collect_options={**declared.OF_COLLECT},
    publish_options={**declared.OF_PUBLISH},
    collects=frozenset({Batching.DATA_TIME, Batching.SNAPSHOT, Batching.EACH}),
    publishes=frozenset({Mode.APPEND}),
    keeps_order=True,
    wrong_options=declared.wrong_options,
    each_parameters=declared.each_parameters,
)


@dataclass(frozen=True, slots=True)
class RestConnector:
    """Opens APIs."""

    capabilities: Capabilities = CAPABILITIES

    def collector(self, setting: Setting) -> RestCollector:
        """Open an API to read."""
        return RestCollector(setting)

    def deliverer(self, setting: Setting) -> Deliverer:
        """Open an API to send to."""
        from waterclock.connectors.rest.delivery import RestDeliverer

        return RestDeliverer(setting)


CONNECTOR = RestConnector()


class RestCollector:
    """Collects from an API. Threads share its connections and its token."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @cached_property
    def api(self) -> Api:
        """The API, known once it is asked for the first time."""
        from waterclock.connectors.rest.asking import Api

        return Api(self.setting)

    def clock(self, unit: Unit) -> datetime | None:
        """The server's own clock, from the header Date of any answer; None where it does not tell, or is not asked.

        Its rows bear its own time, so a window is over when it is over there, however far that clock is off.
        Cost: one request
        """
        if self.setting.options.get("clock", "server") == "machine":
            return None
        answer = self.api.look(self._reading(unit).resource.path)
        return answer.date if answer else None

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Columns of the first page, as text: JSON says no types. Cost: one request."""
        from waterclock.connectors.rest.collection import columns_now

        return dict.fromkeys(columns_now(self._reading(unit)), "STRING") or None

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Name the page and the record that Spark stumbled over."""
        from waterclock.connectors.rest.frames import explain

        del columns
        return explain(error, str(unit))

    def read_windows(
        self, spark: SparkSession, unit: Unit, request: WindowRequest, columns: Columns, zone: str
    ) -> Collected:
        """Ask for each window by itself, and sort its records."""
        from waterclock.connectors.rest.collection import read_windows

        return read_windows(spark, self._reading(unit), request, columns, zone)

    def read_snapshot(
        self,
        spark: SparkSession,
        unit: Unit,
        columns: Columns,
        zone: str,
        *,
        now: datetime | None = None,  # noqa: ARG002 - an API only says what it holds
    ) -> Collected:
        """Ask for all there is."""
        from waterclock.connectors.rest.collection import read_snapshot

        return read_snapshot(spark, self._reading(unit), columns, zone)

    def reach_each(self, unit: Unit) -> None:
        """Ask for the head of what stands before the first column in the path. Raises  E840, E844."""
        self.api.reach(self._reading(unit).resource.path.partition("{")[0])

    def read_each(
        self, spark: SparkSession, unit: Unit, request: EachRequest, columns: Columns, zone: str
    ) -> Collected:
        """Ask for each row of a table."""
        from waterclock.connectors.rest.details import read_each

        return read_each(spark, self._reading(unit), request, columns, zone)

    def _reading(self, unit: Unit) -> Reading:
        from waterclock.connectors.rest.collection import Reading

        resource = declared.resource_of(self.setting.options, unit.path, unit.options)
        return Reading(self.api, self.setting, unit, resource)
