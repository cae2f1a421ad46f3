"""The responses that do not depend on the project: static files, the description of the pages' JSON, and liveness."""

from __future__ import annotations

import json
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from waterclock.ui.openapi import describe_api
from waterclock.ui.rendering import static

if TYPE_CHECKING:
    from starlette.requests import Request

_KINDS = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


async def serve_openapi(_: Request) -> Response:
    """Return the description of the pages' JSON."""
    return Response(json.dumps(describe_api(), ensure_ascii=False), media_type="application/json")


async def serve_livez(_: Request) -> Response:
    """Report that the server is running."""
    return Response("alive\n", media_type="text/plain")


async def serve_static(request: Request) -> Response:
    """Return a static file. Browsers keep it only if its address has the digest of its content."""
    name = request.path_params["name"]
    folder = files("waterclock.ui").joinpath("static")
    if name not in {each.name for each in folder.iterdir()} or name.endswith(".md"):
        raise HTTPException(HTTPStatus.NOT_FOUND)
    is_current = static(name) == f"{request.url.path}?{request.url.query}"
    kept = "public, max-age=31536000, immutable" if is_current else "no-cache"
    kind = _KINDS[name.rpartition(".")[2]]
    return FileResponse(str(folder.joinpath(name)), media_type=kind, headers={"Cache-Control": kept})
