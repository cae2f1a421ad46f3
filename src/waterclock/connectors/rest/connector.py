"""The connection type `rest`: collects records of an API over HTTP, and sends rows to one.

Connection      `url`, one way of authorization, a rate; and the paging of all its resources.
Unit            A resource: `api.orders` is `<url>/orders`, unless `path` sets another one.
Data time       The parameters `since` and `until` request a window; records beyond it are left out. Without them
                all records are read and assigned to windows.
Snapshot        All pages, one after the other.
For each row    One request for each row, or for several rows at a time; responses are stored: see `for_each`.
Pages           Stored on disk as received, before they are parsed: see `page_store`. An interrupted collect continues.
Publish         See `delivery`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from waterclock.connectors.delivering import Deliverer
from waterclock.connectors.interface import Collected, ConnectionType, EachRequest, Setting, WindowRequest
from waterclock.connectors.original_erasure import OriginalErasure, Subjects
from waterclock.connectors.rest import option_definitions
from waterclock.connectors.rest.option_checks import wrong_options
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities, Driver
from waterclock.flow.declarations import Columns, Unit
from waterclock.flow.enums import Batching, Mode

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from waterclock.connectors.rest.client import Api
    from waterclock.connectors.rest.collection import RestSource

CAPABILITIES = Capabilities(
    type="rest",
    driver=Driver("httpx2", extra="rest"),
    connection_options={**option_definitions.OF_ADDRESS, **option_definitions.OF_PAGES},
    collect_options={**option_definitions.OF_COLLECT},
    publish_options={**option_definitions.OF_PUBLISH},
    collects=frozenset({Batching.DATA_TIME, Batching.SNAPSHOT, Batching.EACH}),
    publishes=frozenset({Mode.APPEND}),
    keeps_order=True,
    wrong_options=wrong_options,
    each_parameters=option_definitions.each_parameters,
)


def _open_source(setting: Setting) -> RestCollector:
    return RestCollector(setting)


def _open_destination(setting: Setting) -> Deliverer:
    from waterclock.connectors.rest.delivery import RestDeliverer

    return RestDeliverer(setting)


CONNECTOR = ConnectionType(CAPABILITIES, _open_source, _open_destination)


class RestCollector:
    """Collects from an API. All threads share its connections and its token."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @cached_property
    def api(self) -> Api:
        """The client of the API, created on first use."""
        from waterclock.connectors.rest.client import Api

        return Api(self.setting)

    def clock(self, unit: Unit) -> datetime | None:
        """Return the server's clock from the header Date of a response; None without it or with clock 'machine'.

        Times in records are set by the server. So its clock decides when a window is over, even if it is wrong.
        Cost: one request.
        """
        if self.setting.options.get("clock", "server") == "machine":
            return None
        answer = self.api.send_head(self._build_source(unit).resource.path)
        return answer.date if answer else None

    def schema(self, unit: Unit) -> Mapping[str, str] | None:
        """Return the columns of the first page, as STRING, because JSON declares no types. Cost: one request."""
        from waterclock.connectors.rest.collection import columns_now

        return dict.fromkeys(columns_now(self._build_source(unit)), "STRING") or None

    def explain(self, unit: Unit, columns: Columns, error: BaseException) -> WaterclockError | None:
        """Build an error that names the page and the record that Spark failed to read."""
        from waterclock.connectors.rest.frames import explain

        del columns
        return explain(error, str(unit))

    def read_windows(
        self, spark: SparkSession, unit: Unit, request: WindowRequest, columns: Columns, zone: str
    ) -> Collected:
        """Request each window separately, and return its records with the labels of their windows."""
        from waterclock.connectors.rest.collection import read_windows

        return read_windows(spark, self._build_source(unit), request, columns, zone)

    def read_snapshot(
        self,
        spark: SparkSession,
        unit: Unit,
        columns: Columns,
        zone: str,
        *,
        now: datetime | None = None,  # noqa: ARG002 - an API returns only its current content
    ) -> Collected:
        """Request all records."""
        from waterclock.connectors.rest.collection import read_snapshot

        return read_snapshot(spark, self._build_source(unit), columns, zone)

    def reach_each(self, unit: Unit) -> None:
        """Send a HEAD request for the part of the path before its first placeholder.

        Raises E840 without a response, E844 for refused credentials.
        """
        self.api.reach(self._build_source(unit).resource.path.partition("{")[0])

    def read_each(
        self, spark: SparkSession, unit: Unit, request: EachRequest, columns: Columns, zone: str
    ) -> Collected:
        """Request the API for each row of a table."""
        from waterclock.connectors.rest.for_each import read_each

        return read_each(spark, self._build_source(unit), request, columns, zone)

    def erase_originals(
        self,
        unit: Unit,
        columns: Columns,
        subjects: Subjects,
        *,
        is_dry_run: bool = False,
        requested: Sequence[str] = (),
    ) -> Iterator[OriginalErasure]:
        """Rewrite the stored pages of the unit without the records of erased persons; see `page_erasure`."""
        from waterclock.connectors.rest.page_erasure import erase_pages

        del columns  # pages contain all members of the records
        return erase_pages(self.setting, unit.path, subjects, requested, is_dry_run=is_dry_run)

    def _build_source(self, unit: Unit) -> RestSource:
        from waterclock.connectors.rest.collection import RestSource

        resource = option_definitions.resource_of(self.setting.options, unit.path, unit.options)
        return RestSource(self.api, self.setting, unit, resource)
