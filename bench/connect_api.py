"""Serves a test API whose own cost is negligible: prepared pages from memory, over plain asyncio.

`POST /hold` stores the pages of a day. `GET /events?since=<day>T…&page=<n>` returns one of them, with the number of the
next. Any other `POST` is accepted and ignored. The server prints its port and runs until it is killed.
"""

from __future__ import annotations

import asyncio
import json
from email.utils import formatdate
from urllib.parse import parse_qs, urlsplit

_PAGES: dict[str, list[bytes]] = {}


def _held(body: bytes) -> bytes:
    told = json.loads(body)
    pages = told["pages"]
    last = len(pages)
    _PAGES[told["day"]] = [
        json.dumps({"data": rows, "next": number + 1 if number < last else None}).encode()
        for number, rows in enumerate(pages, 1)
    ]
    return b"{}"


def _answer(method: str, target: str, body: bytes) -> bytes:
    parts = urlsplit(target)
    if method == "POST":
        return _held(body) if parts.path == "/hold" else b"{}"
    asked = parse_qs(parts.query)
    pages = _PAGES.get(asked.get("since", [""])[0][:10], [])
    number = int(asked.get("page", ["1"])[0])
    return pages[number - 1] if number <= len(pages) else b'{"data": [], "next": null}'


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        method, target, _ = head[0].split(" ")
        sizes = [line.partition(":")[2] for line in head[1:] if line.lower().startswith("content-length:")]
        body = await reader.readexactly(int(sizes[0])) if sizes else b""
        answer = _answer(method, target, body)
        said = (
            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: {formatdate(usegmt=True)}\r\n"
            f"Content-Length: {len(answer)}\r\n\r\n"
        )
        writer.write(said.encode() + (b"" if method == "HEAD" else answer))
        await writer.drain()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=1 << 26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
