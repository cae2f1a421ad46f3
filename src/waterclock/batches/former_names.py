"""Maps former names of tables and former fingerprints of code to current ones, and tables to their data folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from waterclock.batches.records import ClaimRequest, Input

_NAMED_WHOLE = re.compile(r"(?<![\w.])\w+\.\w+")  # the form of table names in the ledger: a schema and a name


@dataclass(frozen=True, slots=True)
class FormerNames:
    """Maps the former names of tables and codes to current ones, and tables to folders that differ from their names.

    Files in a storage are not renamed; the folder identifies the table.
    """

    tables: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)

    def code(self, code: str, own: str = "") -> str:
        """Return the current code fingerprint for a former one. `own`, that of the table itself, is returned unchanged.

        A reader of a new table that took an old name has the same fingerprint as former readers of the renamed table.
        """
        return code if code == own else self.codes.get(code, code)

    def request(self, request: ClaimRequest, table: str, own: str = "") -> ClaimRequest:
        """Return a copy of the claim request in which former names are replaced by current ones.

        `table` is the current name of the claim's table, `own` its current code.
        """
        if not (self.folders or self.tables or self.codes):
            return request
        by_folder = {folder: name for name, folder in self.folders.items()}
        inputs = {
            label: tuple(_rename_read(it, by_folder.get(it.location) or self._current_name(it)) for it in of_label)
            for label, of_label in request.inputs.items()
        }
        return replace(request, table=table, code=self.code(request.code, own), inputs=inputs)

    def _current_name(self, read: Input) -> str:
        """Return the current name of an input's table. The name is kept if its folder is not the renamed table's."""
        now = self.tables.get(read.table, read.table)
        return now if read.location == folder_of(now) else read.table


def folder_of(table: str) -> str:
    """Return the default folder of a table with this name, relative to the storage."""
    return f"tables/{table.replace('.', '/')}"


def is_borrowed(location: str) -> bool:
    """Return whether the folder of a table is absolute: a branch borrows the table from another environment."""
    return location.startswith("/") or "://" in location


def replace_table_names(text: str, names: Mapping[str, str]) -> str:
    """Replace whole table names in a text, all in one pass, so that two names may be swapped."""
    return _NAMED_WHOLE.sub(lambda found: names.get(found[0], found[0]), text)


def _rename_read(read: Input, table: str) -> Input:
    return (
        read
        if read.table == table
        else replace(read, table=table, read=replace_table_names(read.read, {read.table: table}))
    )
