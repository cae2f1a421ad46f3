"""Describes the HTTP interface as OpenAPI, generated from the pages' declarations and checked by tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

from pydantic import TypeAdapter

from waterclock.json_models import page_parts, table_pages
from waterclock.json_models import pages as answers
from waterclock.json_models.version import JSON_VERSION
from waterclock.operations.proposals import Verb
from waterclock.ui.page_routes import pages
from waterclock.ui.pages.table import TABS
from waterclock.ui.query_queue import QueryQueue

Described = dict[str, Any]
_TEXT: Described = {"type": "string"}
PARAMETERS: Mapping[str, tuple[str, Described]] = {
    "t": ("tables, in the grammar of the command line: `marts.*`, `+reports.board_kpis`, `tag:finance`", _TEXT),
    "l": ("labels: `2026-11`, `2026-11-01..2026-11-07`, `20261109000000`", _TEXT),
    "table": ("a table's name", _TEXT),
    "labels": ("labels: one, or a range", _TEXT),
    "run": ("the name of a run", _TEXT),
    "tab": ("a part of a table's page", {"enum": list(TABS)}),
    "at": ("the label whose rows are shown; by default the newest", _TEXT),
    "known": ("the claim whose rows are shown; by default the current one", {"type": "integer", "minimum": 0}),
    "against": ("what it is compared with: another claim of the label, or another run", _TEXT),
    "of": ("the label to which `known` and `against` belong; they are ignored if `at` is another label", _TEXT),
    "beside": ("another label to compare the rows with", _TEXT),
    "in": ("the base or a branch of the environment, whose rows of the label are compared", _TEXT),
    "branch": ("the name of a branch", _TEXT),
    "differing": ("shows only differing rows", {"enum": ["1"]}),
    "layer": ("only tables of this schema", _TEXT),
    "owner": ("only tables of this owner", _TEXT),
    "tag": ("only tables with this tag", _TEXT),
    "kind": ("only tables of this kind: `collect`, `transform`, `publish`", _TEXT),
    "state": ("only tables whose worst batch is in this state", _TEXT),
    "depth": ("number of steps in each direction; by default 1", {"type": "integer", "minimum": 1, "maximum": 999}),
    "open": ("tables whose neighbors are shown too", _TEXT),
    "to": ("another table: shows the tables between the two", _TEXT),
    "column": ("a column to follow in both directions", _TEXT),
    "view": ("as a list", {"enum": ["list"]}),
    "all": ("shows all tables even if they are too many for a drawing", {"enum": ["1"]}),
    "verb": ("the action", {"enum": [verb.value for verb in Verb]}),
    "q": ("a query; without it, none runs", {"type": "string", "maxLength": 10_000}),
    "as-of": ("the tick to query as of: `marts.revenue@2026-11-09`", _TEXT),
    "formulas": ("texts that a spreadsheet would read as formulas start with an apostrophe", {"enum": ["escape"]}),
    "digest": ("the digest of the shown plan, so that exactly this plan is carried out", _TEXT),
    "who": ("the user who decides, if the project declares no users; by default the user that serves the pages", _TEXT),
    "why": ("the reason; a skip needs one", _TEXT),
    "session": ("the number of a session, or `all`", _TEXT),
    "rule": ("the name of a rule of the table", _TEXT),
    "alert": ("the number of an open alert", {"type": "integer", "minimum": 1}),
    "text": ("the new note on the rule; an empty text removes the note", _TEXT),
}
_JSON, _HTML, _PLAIN = "application/json", "text/html", "text/plain"
_OUTSIDE = {
    HTTPStatus.UNAUTHORIZED: "the token is missing",
    HTTPStatus.MISDIRECTED_REQUEST: "not a host name of this server",
    HTTPStatus.TOO_MANY_REQUESTS: "too many wrong tokens at once",
}
_WRONG = {
    HTTPStatus.FORBIDDEN: "the right that it needs is missing",
    HTTPStatus.NOT_FOUND: "not found",
    HTTPStatus.UNPROCESSABLE_ENTITY: "the request is not valid",
    HTTPStatus.SERVICE_UNAVAILABLE: "the project or its ledger cannot be read now",
}
_FOREIGN = {HTTPStatus.FORBIDDEN: "the request comes from a page of another site, or a right is missing"}
_NO_FORM = {HTTPStatus.BAD_REQUEST: "the form cannot be read"}
_CHANGED = {HTTPStatus.CONFLICT: "the plan has changed, and the new one is shown; nothing was done"}


@cache
def describe_api() -> Described:
    """Return the OpenAPI description as a JSON-compatible object."""
    every = pages(QueryQueue())
    (*of_pages, of_tables, of_errors), parts = _schemas(
        [*(at.json_type for at in every), table_pages.Tables, page_parts.Errors]
    )
    wrong, foreign = _describe_responses(_WRONG, _JSON, of_errors), _describe_responses(_FOREIGN, _JSON, of_errors)
    paths = {"/tables.json": {"get": _describe_request("/tables.json", (), _describe_answer(of_tables, parts) | wrong)}}
    for at, schema in zip(every, of_pages, strict=True):
        answer = _describe_answer(schema, parts) | wrong | (foreign if at.starts_spark else {})
        for path in at.paths[at.paths[0] == "/" :]:
            paths[f"{path}.json"] = {"get": _describe_request(path, at.takes, answer)}
    lineage = next(at for at in every if at.name == "lineage")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Waterclock", "version": str(JSON_VERSION), "description": answers.__doc__},
        "paths": dict(sorted((paths | _describe_other_routes(lineage.paths, lineage.takes)).items())),
        "components": {"schemas": parts},
    }


def _schemas(json_types: Sequence[Any]) -> tuple[list[Described], Described]:
    """Return the JSON schema of each type in `json_types`, and the schemas of the types that they share."""
    adapters = [(index, "serialization", TypeAdapter(each)) for index, each in enumerate(json_types)]
    made, parts = TypeAdapter.json_schemas(adapters, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    return [made[index, "serialization"] for index in range(len(json_types))], parts["$defs"]


def _describe_other_routes(of_lineage: Iterable[str], parameters: Iterable[str]) -> Described:
    """Describe the responses that are not JSON: drawings, CSV rows, liveness, and the forms."""
    wrong = _describe_responses(_WRONG, _HTML)
    form = wrong | _describe_responses(_NO_FORM, _HTML)
    plan = _describe_responses(
        {HTTPStatus.OK: "the plan was carried out; only with `HX-Request: true`"} | _CHANGED, _HTML
    )
    drawing = _describe_responses({HTTPStatus.OK: "the drawing, as a file"}, "image/svg+xml") | wrong
    rows = (
        _describe_responses({HTTPStatus.OK: "rows, after a line of column names"}, "text/csv")
        | wrong
        | _describe_responses(_FOREIGN, _HTML)
    )
    return {f"{path}.svg": {"get": _describe_request(path, parameters, drawing)} for path in of_lineage} | {
        "/query.csv": {"get": _describe_request("/query", ("q", "as-of", "formulas"), rows)},
        "/forms/{table}/rows.csv": {"get": _describe_request("/forms/{table}", (), rows)},
        "/livez": {
            "get": _describe_request(
                "/livez", (), _describe_responses({HTTPStatus.OK: "the server is running"}, _PLAIN)
            )
        },
        "/plan": {"post": _describe_form(("verb", "t", "digest"), ("l", "who", "why"), form | plan)},
        "/alerts": {"post": _describe_form(("alert", "why"), ("who", "t"), form)},
        "/sessions": {"post": _describe_form(("session",), (), form)},
        "/quality": {"post": _describe_form(("table", "rule"), ("text", "who", "t"), form)},
    }


def _describe_form(needed: Sequence[str], others: Sequence[str], answers: Described) -> Described:
    """Describe a form that writes to the ledger. Only a page of the same address may send it."""
    fields = {name: PARAMETERS[name][1] | {"description": PARAMETERS[name][0]} for name in (*needed, *others)}
    form = {"type": "object", "properties": fields, "required": list(needed)}
    refused = _FOREIGN | {HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "the form is too large"}
    written = {"303": {"description": "the change is recorded; redirects to a page that shows it"}}
    origin = {
        "name": "Origin",
        "in": "header",
        "required": True,
        "schema": _TEXT,
        "description": "the address of the pages",
    }
    return _describe_request("", (), written | answers | _describe_responses(refused, _PLAIN)) | {
        "parameters": [origin],
        "requestBody": {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": form}}},
    }


def _describe_request(path: str, names: Iterable[str], answers: Described) -> Described:
    """Describe the request for an address."""
    within = re.findall(r"{(\w+)}", path)
    places = [(name, "path") for name in within] + [(name, "query") for name in names]
    parameters = [
        {"name": name, "in": place, "required": place == "path", "description": words, "schema": schema}
        for name, place in places
        for words, schema in [PARAMETERS[name]]
    ]
    return {"parameters": parameters, "responses": answers | _describe_responses(_OUTSIDE, _PLAIN)}


def _describe_answer(schema: Described, parts: Described) -> Described:
    """Describe a JSON response by the docstring of its type."""
    named = [each["$ref"].rpartition("/")[2] for each in schema.get("anyOf", [schema])]
    words = " ".join(parts[name]["description"] for name in named)
    same = {"description": "unchanged since the answer whose ETag is in `If-None-Match`"}
    return {"200": {"description": words, "content": {_JSON: {"schema": schema}}}, "304": same}


def _describe_responses(statuses: Mapping[HTTPStatus, str], kind: str, schema: Described | None = None) -> Described:
    """Describe responses by status, all with one content type, and one schema if they are JSON."""
    content = {kind: {"schema": schema or _TEXT}}
    return {str(status.value): {"description": words, "content": content} for status, words in statuses.items()}
