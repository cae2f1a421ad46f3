"""An API for tests, in a separate process: pages in each style, requested faults, and a log.

Started by `tests.apis`. Each test has its own space, `/s/<space>/...`, whose state is set by `/s/<space>/_set`. Each
request takes the next fault: a status, `slow`, `cut` (a body that ends early), `half` (half a JSON with the right
length), `drip` (a blank now and then, without end), `lost` (processed, but the response is lost), `insert` (a new row
comes first), or null for none.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


@dataclass
class Space:
    """The state of one test."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Any] = field(default_factory=list)
    retry_after: str = ""
    skew: float = 0.0
    most: int = 1000
    credential: str = ""
    token_life: float = 3600.0
    tokens: dict[str, float] = field(default_factory=dict)
    time: str = "at"
    since: str = "since"
    until: str = "until"
    envelope: str = "data"
    refuses: str = ""
    echo: str = ""
    knows_keys: bool = True
    log: list[dict[str, Any]] = field(default_factory=list)
    kept: list[dict[str, Any]] = field(default_factory=list)
    keys: dict[str, int] = field(default_factory=dict)
    flying: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    overlaps: int = 0
    most_flying: int = 0
    now_flying: int = 0
    pause: float = 0.0


SPACES: dict[str, Space] = defaultdict(Space)


def headers_of(space: Space) -> dict[str, str]:
    now = datetime.now(UTC) + timedelta(seconds=space.skew)
    return {"date": format_datetime(now, usegmt=True)}


def is_let_in(request: Request, space: Space) -> bool:
    if not space.credential:
        return True
    kind, _, value = space.credential.partition(":")
    given = request.headers.get("authorization", "")
    if kind == "bearer":
        return given == f"Bearer {value}"
    if kind == "basic":
        return given == "Basic " + base64.b64encode(value.encode()).decode()
    if kind == "header":
        return request.headers.get("x-api-key") == value
    if kind == "param":
        return request.query_params.get("key") == value
    return space.tokens.get(given.removeprefix("Bearer "), 0.0) > time.time()


async def set_space(request: Request) -> Response:
    space = SPACES[request.path_params["space"]]
    for name, value in (await request.json()).items():
        setattr(space, name, value)
    return JSONResponse({})


async def told(request: Request) -> Response:
    space = SPACES[request.path_params["space"]]
    names = ("log", "kept", "overlaps", "most_flying", "faults")
    return JSONResponse({name: getattr(space, name) for name in names})


async def token(request: Request) -> Response:
    space = SPACES[request.path_params["space"]]
    form = dict(pair.split("=", 1) for pair in (await request.body()).decode().split("&"))
    space.log.append({"path": "token", "params": {k: v for k, v in form.items() if k != "client_secret"}})
    given = request.headers.get("authorization", "")
    by_header = given == "Basic " + base64.b64encode(b"client:s3cret%2Fof%20client").decode()
    by_body = form.get("client_id") == "client" and form.get("client_secret") == "s3cret%2Fof+client"
    if not (by_header or by_body):
        return JSONResponse({"error": "invalid_client", "you_sent": given}, 401)
    made = f"token-{len(space.tokens)}-{request.path_params['space']}"
    space.tokens[made] = time.time() + space.token_life
    return JSONResponse({"access_token": made, "token_type": "Bearer", "expires_in": space.token_life})


async def broken(space: Space, content: bytes) -> Response | None:
    """Return the response of the next fault; None if there is no fault, or if it does not change the response."""
    fault = space.faults.pop(0) if space.faults else None
    if fault is None or fault == "insert":
        if fault == "insert":
            space.rows.insert(0, {"id": f"new{len(space.rows)}", "at": "2013-01-01T00:30:00Z"})
        return None
    head = headers_of(space)
    if isinstance(fault, int):
        if space.retry_after:
            head["retry-after"] = space.retry_after
        if space.retry_after == "date":  # by the server's own clock
            head["retry-after"] = format_datetime(datetime.now(UTC) + timedelta(seconds=space.skew + 2), usegmt=True)
        return JSONResponse({"error": "as asked", "echo": space.echo}, fault, headers=head)
    if fault == "slow":
        await asyncio.sleep(1.5)
        return None
    if fault == "half":
        return Response(content[: len(content) // 2], media_type="application/json", headers=head)

    async def drops() -> Any:
        while True:
            yield b" "
            await asyncio.sleep(0.02)

    async def pieces() -> Any:
        yield content[: len(content) // 2]

    if fault == "drip":
        return StreamingResponse(drops(), headers=head)
    return StreamingResponse(pieces(), headers={**head, "content-length": str(len(content) + 10)})


def chosen(space: Space, params: dict[str, str]) -> list[dict[str, Any]]:
    since, until = params.get(space.since), params.get(space.until)
    rows = space.rows
    if since is not None:
        rows = [row for row in rows if row.get(space.time) is None or str(row[space.time]) >= since]
    if until is not None:  # an inclusive end, as many APIs have it
        rows = [row for row in rows if row.get(space.time) is None or str(row[space.time]) <= until]
    return rows


async def records(request: Request) -> Response:
    space = SPACES[request.path_params["space"]]
    style = request.path_params["style"]
    params = dict(request.query_params)
    if request.method == "POST":
        params |= {name: str(value) for name, value in (await request.json()).items()}
    hidden = {name: value for name, value in params.items() if name != "key"}
    is_look = request.method == "HEAD"
    if not is_look:
        space.log.append({"path": style, "params": hidden, "at": time.time()})
    if not is_let_in(request, space):
        return JSONResponse({"error": "no", "you_sent": dict(request.headers)}, 401, headers=headers_of(space))
    if is_look:
        return Response(headers=headers_of(space))
    if space.faults and space.faults[0] == "insert":
        await broken(space, b"")
    body, following = page_of(space, style, params, chosen(space, params))
    head = headers_of(space)
    if following:
        link = f"{request.url.path}?{urlencode({**params, 'cursor': following})}"
        if style == "link":
            head["link"] = f'<{link}>; rel="next", </first>; rel="first"'
        if style in {"away", "links"}:
            body["links"] = {"next": f"http://elsewhere.example{link}" if style == "away" else link}
    content = json.dumps(body, indent=1).encode()
    return await broken(space, content) or Response(content, media_type="application/json", headers=head)


def page_of(space: Space, style: str, params: dict[str, str], found: list[dict[str, Any]]) -> tuple[Any, str | None]:
    """Return the content of a page, and the cursor of the next one."""
    size = min(int(params.get("limit", "50")), space.most)
    if style == "all":
        return found, None
    if style in {"page", "offset"}:
        at = (int(params.get("page", "1")) - 1) * size if style == "page" else int(params.get("offset", "0"))
        return {space.envelope: found[at : at + size], "total": len(found), "more": at + size < len(found)}, None
    if style in {"stuck", "loop"}:
        return {space.envelope: found[:size], "next_cursor": "again"}, None
    at = int(params.get("cursor", "c0")[1:])
    following = f"c{at + size}" if at + size < len(found) else None
    body = {space.envelope: found[at : at + size]} | ({"next_cursor": following} if following else {})
    return (body[space.envelope] if style == "link" else body), following


async def detail(request: Request) -> Response:
    """Return the row of an id, `/detail/{id}`, or those of `ids`; an unknown id is a 404, or missing among several."""
    space = SPACES[request.path_params["space"]]
    params = dict(request.query_params)
    one = request.path_params.get("id")
    wanted = [one] if one is not None else params.get("ids", "").split(",")
    if request.method == "POST":
        wanted = [str(each) for each in (await request.json())["ids"]]
    space.log.append({"path": "detail", "ids": wanted, "at": time.time()})
    space.now_flying += 1
    space.most_flying = max(space.most_flying, space.now_flying)
    try:
        await asyncio.sleep(space.pause)
        found = [row for row in space.rows if str(row["id"]) in wanted]
        if not is_let_in(request, space):
            return JSONResponse({"error": "no"}, 401, headers=headers_of(space))
        if one is not None and not found:
            return JSONResponse({"error": "unknown"}, 404, headers=headers_of(space))
        if space.echo == "all":  # an API that ignores the parameter
            found = space.rows
        content = json.dumps(found[0] if one is not None else found[::-1]).encode()
        answer = await broken(space, content)
        return answer or Response(content, media_type="application/json", headers=headers_of(space))
    finally:
        space.now_flying -= 1


async def take(request: Request) -> Response:
    """Accept rows, once per idempotency key if the space knows keys; a newer delivery replaces its label's rows."""
    space = SPACES[request.path_params["space"]]
    content = await request.body()
    label = request.headers.get("waterclock-label", "")
    claim = int(request.headers.get("waterclock-delivery", "0"))
    key = request.headers.get("idempotency-key", "")
    if request.path_params["style"] == "lines":
        rows = [json.loads(line) for line in content.splitlines()]
    else:
        parsed = json.loads(content) if content else []
        rows = parsed if isinstance(parsed, list) else parsed.get("rows", [parsed])
    space.log.append(
        {"path": request.url.path.split("/", 3)[3], "key": key, "ids": [row.get("id") for row in rows], "label": label}
    )
    if not is_let_in(request, space):
        return JSONResponse({"error": "no"}, 401, headers=headers_of(space))
    people = {str(row.get("who")) for row in rows}
    space.now_flying += 1
    space.most_flying = max(space.most_flying, space.now_flying)
    for one in people:
        space.flying[one] += 1
        space.overlaps += space.flying[one] > 1
    try:
        await asyncio.sleep(space.pause)
        return await _taken(space, request, rows, label, claim, key)
    finally:
        space.now_flying -= 1
        for one in people:
            space.flying[one] -= 1


async def _taken(space: Space, request: Request, rows: list[Any], label: str, claim: int, key: str) -> Response:
    is_lost = bool(space.faults) and space.faults[0] == "lost"
    if not is_lost:
        answer = await broken(space, b'{"taken": true, "and": "some more"}')
        if answer is not None:
            return answer
    if space.refuses and any(space.refuses == str(row.get("id")) for row in rows):
        return JSONResponse({"error": f"{space.refuses} is not welcome"}, 422, headers=headers_of(space))
    if not (space.knows_keys and key in space.keys):
        space.keys[key] = len(rows)
        space.kept = [one for one in space.kept if one["timelabel"] != label or one["claim"] >= claim]
        space.kept += [{**row, "timelabel": label, "claim": claim, "method": request.method} for row in rows]
    if is_lost:
        space.faults.pop(0)
        return JSONResponse({"error": "lost"}, 502, headers=headers_of(space))
    return JSONResponse({"taken": len(rows)}, headers=headers_of(space))


APP = Starlette(
    routes=[
        Route("/s/{space}/_set", set_space, methods=["POST"]),
        Route("/s/{space}/_told", told),
        Route("/s/{space}/token", token, methods=["POST"]),
        Route("/s/{space}/take/{style}", take, methods=["POST", "PUT", "PATCH"]),
        Route("/s/{space}/inbox/{style}", take, methods=["POST"]),
        Route("/s/{space}/take/{style}/{id}", take, methods=["POST", "PUT", "PATCH"]),
        Route("/s/{space}/detail/{id}", detail),
        Route("/s/{space}/details", detail, methods=["GET", "POST"]),
        Route("/s/{space}/{style}", records, methods=["GET", "POST", "HEAD"]),
    ]
)

if __name__ == "__main__":
    uvicorn.run(APP, host="127.0.0.1", port=int(sys.argv[1]), date_header=False, log_level="critical")
