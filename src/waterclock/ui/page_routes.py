"""Declares the pages: their addresses, their parameters and the types of their JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from waterclock.json_models import pages as answers
from waterclock.json_models import quality_pages, table_pages
from waterclock.json_models.access import AccessPage
from waterclock.json_models.branches import BranchesPage
from waterclock.json_models.personal_data import PersonalDataPage
from waterclock.operations.project_opening import OpenedProject
from waterclock.permissions.users_and_roles import Right
from waterclock.ui.page_query import Content, PageQuery
from waterclock.ui.pages.access import access
from waterclock.ui.pages.batch import batch
from waterclock.ui.pages.batches import batches
from waterclock.ui.pages.branches import branches
from waterclock.ui.pages.catalog import catalog
from waterclock.ui.pages.grid import grid
from waterclock.ui.pages.lag import describe_ticks, lag
from waterclock.ui.pages.lineage import lineage
from waterclock.ui.pages.personal_data import personal_data
from waterclock.ui.pages.plan import plan
from waterclock.ui.pages.quality import quality
from waterclock.ui.pages.query import query
from waterclock.ui.pages.runs import run, runs
from waterclock.ui.pages.table import table, table_ticks
from waterclock.ui.pages.today import errors, today
from waterclock.ui.query_queue import QueryQueue


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A page: its name (also of its template), its addresses, its menu entry, and the right that it requires.

    `json_type` is the type of its JSON, `takes` the names of its query parameters. /openapi.json describes both.
    """

    name: str
    paths: tuple[str, ...]
    page: Callable[[OpenedProject, PageQuery], Content]
    menu: str
    json_type: Any
    right: Right
    takes: tuple[str, ...] = ("t", "l")
    is_of_ledger: bool = True  # the content depends only on flow, ledger and time, so that it can be cached
    starts_spark: bool = False
    reads_more: tuple[str, ...] = ()  # parameters with which the content depends on more, and on the person
    ticks: Callable[[OpenedProject, PageQuery], Content] | None = None  # the content that changes with ticks


_FACETS = ("layer", "owner", "tag", "kind", "state")
_LINEAGE = ("t", "l", "depth", "open", "to", "column", "view", "all")


def pages(asker: QueryQueue, sessions: Callable[[], list[Content]] = list) -> tuple[PageRoute, ...]:
    """Return the routes of all pages. `asker` runs queries, `sessions` returns the current sessions of browsers."""
    return (
        PageRoute("grid", ("/", "/grid"), grid, "Grid", answers.GridPage, Right.LOOK, ticks=describe_ticks),
        PageRoute("today", ("/today",), today, "Today", answers.Today, Right.LOOK, ("t",)),
        PageRoute("catalog", ("/catalog",), catalog, "Catalog", table_pages.Catalog, Right.LOOK, ("t", *_FACETS)),
        PageRoute(
            "table", ("/tables/{table}", "/tables/{table}/{tab}"), table, "Catalog", table_pages.TablePage, Right.LOOK,
            ("at", "known", "against", "beside", "differing", "in"), reads_more=("in",), ticks=table_ticks,
        ),
        PageRoute(
            "batch", ("/batches/{table}/{labels}",), batch, "Grid", answers.OneBatch | answers.Batches, Right.LOOK, (),
        ),
        PageRoute("batch", ("/batches",), batches, "Grid", answers.Batches, Right.LOOK),
        PageRoute(
            "lineage", ("/lineage", "/lineage/{table}"), lineage, "Lineage", answers.Lineage, Right.LOOK, _LINEAGE,
        ),
        PageRoute(
            "branches", ("/branches", "/branches/{branch}"), branches, "Branches", BranchesPage, Right.LOOK, (),
            is_of_ledger=False,
        ),
        PageRoute("runs", ("/runs",), runs, "Runs", answers.Runs, Right.LOOK, (), is_of_ledger=False),
        PageRoute("run", ("/runs/{run}",), run, "Runs", answers.OneRun, Right.LOOK, ("against",), is_of_ledger=False),
        PageRoute("quality", ("/quality",), quality, "Quality", quality_pages.Quality, Right.LOOK, ("t",)),
        PageRoute("lag", ("/lag",), lag, "Quality", quality_pages.LagPage, Right.LOOK, ("t",), ticks=describe_ticks),
        PageRoute("pii", ("/pii",), personal_data, "Quality", PersonalDataPage, Right.LOOK, ("t",)),
        PageRoute("errors", ("/errors",), errors, "Errors", answers.AllErrors, Right.LOOK, ("t",)),
        PageRoute(
            "plan", ("/plan",), plan, "Grid", answers.PlanPage, Right.LOOK, ("verb", "t", "l"), is_of_ledger=False,
        ),
        PageRoute(
            "query", ("/query",), partial(query, asker=asker), "Query", answers.QueryPage, Right.QUERY, ("q", "as-of"),
            is_of_ledger=False, starts_spark=True,
        ),
        PageRoute(
            "access", ("/access",), partial(access, sessions=sessions), "", AccessPage, Right.ADMINISTER,
            ("who",), is_of_ledger=False,
        ),
    )  # fmt: skip
