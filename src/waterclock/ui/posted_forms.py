"""Reads the fields of forms that pages post, and the file that a page uploads."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import IO, TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

if TYPE_CHECKING:
    from starlette.requests import Request

MULTIPART = "multipart/form-data"
"""The content type of a form with a file."""

_IN_MEMORY = 1 << 20
_MOST_HEADERS = 4096  # bytes of a part
_BOUNDARY = re.compile(r";\s*boundary=\"?([0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-])\"?\s*(?:;|$)")
_NAME = re.compile(r';\s*name="([^"]*)"')
_FILE_NAME = re.compile(r';\s*filename="([^"]*)"')


@dataclass(frozen=True, slots=True)
class PostedFile:
    """An uploaded file: the name that the browser sent, which can be any text, and its content."""

    name: str
    content: bytes


@dataclass(slots=True)
class PostedForm:
    """A posted form: its fields, and its file if one was chosen."""

    values: dict[str, str] = field(default_factory=dict)
    file: PostedFile | None = None


async def read_form(request: Request, *, most_fields: int = 20) -> dict[str, str]:
    """Return the fields of the form in a request. Raises an HTTPException for one that cannot be read."""
    try:
        return _parse_fields(await request.body(), most_fields)
    except ClientDisconnect as error:  # the client disconnected, or was too slow
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT) from error


async def receive_body(request: Request, most: int) -> IO[bytes]:
    """Return the body of a request as a temporary file. A large body is on disk, not in memory.

    Raises an HTTPException for a body of more than `most` bytes as soon as these have arrived.
    """
    file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - the caller closes it
    size = 0
    try:
        async for part in request.stream():
            size += file.write(part)
            if size > most:
                break
    except ClientDisconnect as error:
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT) from error
    if size > most:
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the form is too large")
    file.seek(0)
    return file


def parse_form(body: bytes, content_type: str, *, most_fields: int = 20) -> PostedForm:
    """Parse the body of a posted form, with or without a file. Raises an HTTPException for one that cannot be read."""
    if not content_type.lower().startswith(MULTIPART):
        return PostedForm(_parse_fields(body, most_fields))
    form = PostedForm()
    try:
        for name, file_name, content in _parts_of(body, content_type, most_fields):
            if file_name is None:
                form.values[name] = content.decode()
            elif file_name or content:
                form.file = PostedFile(file_name, content)
    except ValueError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the form cannot be read") from error
    return form


def _parse_fields(body: bytes, most_fields: int) -> dict[str, str]:
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=most_fields))
    except ValueError as error:  # too many fields, or invalid UTF-8
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the form cannot be read") from error


def _parts_of(body: bytes, content_type: str, most: int) -> Iterator[tuple[str, str | None, bytes]]:
    """Yield the name, the file name and the content of each part (RFC 7578).

    The parser of Starlette (1.10, with python-multipart 0.0.34) takes a form that is cut for one with fewer fields.

    Raises ValueError for a body without an end, a part without a name, and more than `most` parts.
    """
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise ValueError("there is no boundary")
    mark = b"\r\n--" + boundary[1].encode()
    at = len(mark) - 2 if body.startswith(mark[2:]) else len(body)
    for _ in range(most + 1):
        if body[at : at + 2] == b"--":
            return
        split, end = body.find(b"\r\n\r\n", at, at + _MOST_HEADERS), body.find(mark, at)
        headers = body[at:split].decode() if at <= split < end and body[at : at + 2] == b"\r\n" else ""
        name, file_name = _NAME.search(headers), _FILE_NAME.search(headers)
        if name is None:
            raise ValueError("a part has no name, or no end")
        yield name[1], None if file_name is None else file_name[1], body[split + 4 : end]
        at = end + len(mark)
    raise ValueError("there are too many parts")
