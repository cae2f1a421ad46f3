"""Delivers lineage events: to a server, one per request, or to a file, one per line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from waterclock.errors import WaterclockError
from waterclock.flow.openlineage import LineageSink
from waterclock.http.posting import NotDelivered, post
from waterclock.permissions.ownership import create_private_file, make_private_folder
from waterclock.secrets.reader import Secrets


def deliver(sink: LineageSink, root: Path, secrets: Secrets, event: Mapping[str, Any]) -> None:
    """Deliver one event, and return after it has arrived. Raises NotDelivered, without addresses and secrets."""
    if sink.file is not None:
        _append(root / sink.file, event)
        return
    try:
        url = secrets.value_of(sink.url or "")
        token = None if sink.token is None else secrets.value_of(sink.token)
    except WaterclockError as error:
        raise NotDelivered(error.what) from None
    post(url, token, event)


def _append(path: Path, event: Mapping[str, Any]) -> None:
    line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
    try:
        make_private_folder(path.parent)
        with suppress(FileExistsError):
            os.close(create_private_file(path))
        with path.open("a+b") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":  # truncated where a runner was killed; that event is sent again
                    line = b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise NotDelivered(f"{type(error).__name__}: {error.strerror}") from None
