"""Writes the rows of a form that a person sees as a CSV file or a workbook to download."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Iterator
from typing import IO, cast
from urllib.parse import quote

from starlette.responses import StreamingResponse

from waterclock.connectors.forms.history import iterate_rows
from waterclock.connectors.forms.row_files import write_csv, write_workbook
from waterclock.connectors.forms.shown_rows import show_rows
from waterclock.operations.forms import OpenedForm

_IN_MEMORY, _PIECE = 1 << 20, 1 << 16
_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def export_rows(form: OpenedForm, kind: str) -> StreamingResponse:
    """Return the download of all rows and columns that the person sees. Raises the errors of `write_workbook`.

    The file is written before it is sent, so that a slow client keeps no transaction of the database open. A CSV file
    begins with a byte order mark, by which spreadsheets know that it is UTF-8.
    """
    view, rows = form.rights.view, iterate_rows(form.database, form.entity)
    shown = rows if view is None else show_rows(view, rows)
    file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(_IN_MEMORY))  # noqa: SIM115 - `_pieces_of` closes it
    if kind == "xlsx":
        write_workbook(form.shown, shown, file)
    else:
        file.write(codecs.BOM_UTF8)
        file.writelines(line.encode() for line in write_csv(form.shown, shown))
    file.seek(0)
    name = quote(f"{form.entity.table}.{kind}", safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}", "Cache-Control": "no-store"}
    return StreamingResponse(_pieces_of(file), media_type=_TYPES[kind], headers=headers)


def _pieces_of(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece
