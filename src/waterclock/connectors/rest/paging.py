"""Computes the position of the next page and the parameters that request it. Pure functions.

The position of a page is a small JSON object with its number, offset, cursor or link. An interrupted collect continues
at the position that its last page stores as the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waterclock.connectors.rest.option_definitions import Paging
from waterclock.connectors.rest.records import Body, NoRecords

PagePosition = dict[str, Any]


def first_position(paging: Paging) -> PagePosition:
    """Return the position of the first page."""
    if paging.style == "page":
        return {"page": paging.first}
    return {"offset": 0} if paging.style == "offset" else {}


def params_at(paging: Paging, place: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters that request the page at a position; empty for a link, which contains its parameters."""
    if "link" in place:
        return {}
    params = {} if paging.size is None else {paging.size_param: str(paging.size)}
    for kind in ("page", "offset", "cursor"):
        if kind in place:
            params[paging.param] = str(place[kind])
    return params


def next_position(
    paging: Paging, place: Mapping[str, Any], body: Body, *, before: int, link: str | None
) -> PagePosition | None:
    """Return the position of the next page; None after the last page.

    `before` is the number of records on earlier pages; `link` is the next page in the header Link. An offset advances
    by the number of records received, as a server may return fewer than were requested.
    Raises NoRecords if the field that shows whether there are more pages is missing or invalid, and for an empty page
    of an API that declares more records.
    """
    if paging.style == "link":
        following = body.at(paging.next) if paging.next else link
        return {"link": str(following)} if following else None
    if paging.style == "none" or (paging.more and not _read_paging_value(body, paging.more)):
        return None
    if paging.style == "cursor":
        cursor = body.at(paging.next)
        return None if cursor is None or cursor == "" or cursor is False else {"cursor": cursor}
    return _compute_next_position(paging, place, body, before)


def _compute_next_position(paging: Paging, place: Mapping[str, Any], body: Body, before: int) -> PagePosition | None:
    """Return the position with the next page number or offset; None after the last page."""
    count = len(body.lines)
    is_short = paging.stops_short and paging.size is not None and count < paging.size
    # a source with a `more` flag may filter the records of a page after it has cut it
    if not paging.more and not count:
        total = _parse_total(body.at(paging.total), paging.total)
        if total is not None and total > before:
            why = f"it has no record after {before} of {total}; if its total counts other records too, leave total out"
            raise NoRecords(why)
        return None
    if not paging.more and is_short:
        return None
    total = _parse_total(_read_paging_value(body, paging.total), paging.total) if paging.total else None
    if total is not None and before + count >= total:
        return None
    return {"page": int(place["page"]) + 1} if paging.style == "page" else {"offset": int(place["offset"]) + count}


def _parse_total(total: Any, path: tuple[str, ...]) -> int | None:
    if not path:
        return None
    try:
        return None if total is None else int(total)
    except (TypeError, ValueError):
        raise NoRecords(f"its {'.'.join(path)} is {str(total)[:100]!r}, which is not a number") from None


def _read_paging_value(body: Body, path: tuple[str, ...]) -> Any:
    above = body.at(path[:-1])
    if not isinstance(above, dict) or path[-1] not in above:
        raise NoRecords(f"it has no {'.'.join(path)}, which shows whether there are more pages")
    return above[path[-1]]
