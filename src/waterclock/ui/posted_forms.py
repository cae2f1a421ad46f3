"""Reads the fields of forms that pages post."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

if TYPE_CHECKING:
    from starlette.requests import Request


async def read_form(request: Request, *, most_fields: int = 20) -> dict[str, str]:
    """Return the fields of the form in a request. Raises an HTTPException for one that cannot be read."""
    try:
        body = await request.body()
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=most_fields))
    except ClientDisconnect as error:  # the client disconnected, or was too slow
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT) from error
    except ValueError as error:  # too many fields, or invalid UTF-8
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the form cannot be read") from error
