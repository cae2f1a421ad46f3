"""Maps former names of renamed tables and code to current ones, and tables to their data folders. Pure data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from waterclock.batches.records import ClaimRequest, Input

_NAMED_WHOLE = re.compile(r"(?<![\w.])\w+\.\w+")  # the form of table names in the ledger: a schema and a name


@dataclass(frozen=True, slots=True)
class FormerNames:
    """Renamed tables and codes by their former names, and the folders of tables where these differ from the name.

    Files in a storage keep the names of their time; the folder identifies the table.
    """

    tables: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)

    def code(self, code: str, own: str = "") -> str:
        """Return the current form of a code. `own` is the code of the table itself.

        A reader of a new table under an old name has the same code as the former readers of the renamed table.
        """
        return code if code == own else self.codes.get(code, code)

    def request(self, request: ClaimRequest, table: str, own: str = "") -> ClaimRequest:
        """Return the request of a claim of `table`, whose code is now `own`, with the current names."""
        if not (self.folders or self.tables or self.codes):
            return request
        by_folder = {folder: name for name, folder in self.folders.items()}
        inputs = {
            label: tuple(_rename_read(it, by_folder.get(it.location) or self._current_name(it)) for it in of_label)
            for label, of_label in request.inputs.items()
        }
        return replace(request, table=table, code=self.code(request.code, own), inputs=inputs)

    def _current_name(self, read: Input) -> str:
        """Return the current name of an input's table. Keep its name if the folder does not match the renamed table."""
        now = self.tables.get(read.table, read.table)
        return now if read.location == folder_of(now) else read.table


def folder_of(table: str) -> str:
    """Return the folder that follows from a table's name, relative to the storage."""
    return f"tables/{table.replace('.', '/')}"


def replace_table_names(text: str, names: Mapping[str, str]) -> str:
    """Return a text with whole table names replaced, all in one pass, so that two names may be swapped."""
    return _NAMED_WHOLE.sub(lambda found: names.get(found[0], found[0]), text)


def _rename_read(read: Input, table: str) -> Input:
    return (
        read
        if read.table == table
        else replace(read, table=table, read=replace_table_names(read.read, {read.table: table}))
    )
