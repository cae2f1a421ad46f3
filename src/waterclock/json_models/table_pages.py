"""The JSON of the catalog and of the page of a table."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from waterclock.json_models.page_parts import PageAnswer, PagePart, Part, TicksOfTable
from waterclock.json_models.quality_pages import TableQuality
from waterclock.json_models.tables import ColumnsVersion


class CatalogRow(PagePart):
    """A table in the catalog."""

    table: str
    layer: str
    purpose: str
    owner: str
    tags: list[str]
    kind: str
    state: str
    is_fresh: bool
    fresh_to: str
    address: str


class Catalog(PageAnswer):
    """The tables, and the values they can be filtered by."""

    tables: list[CatalogRow]
    of: int
    """The number of tables before filtering."""
    facets: dict[str, dict[str, int]]
    wanted: dict[str, str]


class Tables(PageAnswer):
    """The names of all tables, upstream first."""

    tables: list[str]


class TableColumn(PagePart):
    """A column of a table."""

    name: str
    type: str
    properties: str
    comment: str


class Bar(PagePart):
    """A label with its number of rows."""

    label: str
    state: str
    rows: int | None


class Bars(PagePart):
    """Rows per batch."""

    each: list[Bar]


class ListedBatch(PagePart):
    """A batch in the list of a table's batches."""

    label: str
    state: str
    reason: str
    rows: int | None
    attempts: int
    is_current: bool
    """Whether it was made by the table's current code."""


class TableCode(PagePart):
    """A statement that defined a table."""

    code: str
    declared_at: str | None
    who: str | None
    count: int
    """The number of batches that it made."""
    statement: str | None
    is_current: bool


class ShownColumnsVersion(ColumnsVersion, PagePart):
    """A version of the columns, as a batch introduced it, and its changes from the version before."""

    model_config = ConfigDict(extra="ignore")


class TablePage(PageAnswer):
    """The page of a table. Which of the keys after `tab` have a value depends on the tab."""

    table: str
    layer: str
    purpose: str
    owner: str
    tags: list[str]
    cadence: str
    state: str
    tab: Literal["overview", "batches", "quality", "code", "history", "live"]
    sentence: list[Part] = Field(default_factory=list)
    bars: Bars | None = None
    columns: list[TableColumn] = Field(default_factory=list)
    made_from: list[dict[str, str]] = Field(default_factory=list)
    went_into: list[dict[str, str]] = Field(default_factory=list)
    held: dict[str, Any] | None = None
    """The rows at the label `at`, by claim `known`, compared with another revision; null before the first batch."""
    batches: list[ListedBatch] = Field(default_factory=list)
    quality: TableQuality | None = None
    codes: list[TableCode] = Field(default_factory=list)
    schemas: list[ShownColumnsVersion] = Field(default_factory=list)
    """Versions of its columns and of its source's, newest first."""
    more_schemas: bool = False
    code: str = ""
    fingerprint: str = ""
    ticks: dict[str, TicksOfTable] = Field(default_factory=dict)
    """On the tabs `live` and `quality`: the open windows of the table, if it has CONTINUOUS."""
    opened: dict[str, Any] | None = None
    """On the tab `live`: the first rows of the newest open window that has rows."""
    seconds: float | None = None
    """On the tab `live`: the time between two ticks."""
