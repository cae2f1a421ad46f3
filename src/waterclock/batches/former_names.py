"""What tables, and their code, were called before they were renamed; where the data of these lies. Pure data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from waterclock.batches.records import ClaimRequest, Input

_NAMED_WHOLE = re.compile(r"(?<![\w.])\w+\.\w+")  # as the ledger's names of tables are: a schema and a name


@dataclass(frozen=True, slots=True)
class FormerNames:
    """What was renamed: tables and codes by the names they had, and by table the folder, where a name tells another.

    What was written to a storage keeps the names of its time: the folder says which table it is of.
    """

    tables: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)

    def code(self, code: str, own: str = "") -> str:
        """Return a code as it is named now; `own` is the one of the table that it is of.

        Who reads a new table under an old name has the code that readers of the renamed one had.
        """
        return code if code == own else self.codes.get(code, code)

    def request(self, request: ClaimRequest, table: str, own: str = "") -> ClaimRequest:
        """Return what a claim of `table`, whose code is `own` now, asked for, in the names of now."""
        if not (self.folders or self.tables or self.codes):
            return request
        by_folder = {folder: name for name, folder in self.folders.items()}
        inputs = {
            label: tuple(_said(it, by_folder.get(it.location) or self._of(it)) for it in of_label)
            for label, of_label in request.inputs.items()
        }
        return replace(request, table=table, code=self.code(request.code, own), inputs=inputs)

    def _of(self, read: Input) -> str:
        """Return what a table is called that lies where its name tells; it may have had another one meanwhile."""
        now = self.tables.get(read.table, read.table)
        return now if read.location == folder_of(now) else read.table


def folder_of(table: str) -> str:
    """Return the folder that a table's name tells, relative to the storage."""
    return f"tables/{table.replace('.', '/')}"


def renamed_in(text: str, names: Mapping[str, str]) -> str:
    """Return a text in which tables are called by other names, wherever they are named whole; two may change places.

    Cost: one pass over the text, however many names there are.
    """
    return _NAMED_WHOLE.sub(lambda found: names.get(found[0], found[0]), text)


def _said(read: Input, table: str) -> Input:
    return read if read.table == table else replace(read, table=table, read=renamed_in(read.read, {read.table: table}))
