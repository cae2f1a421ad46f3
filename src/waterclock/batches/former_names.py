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

    def code(self, code: str) -> str:
        """Return a code as it is named now."""
        return self.codes.get(code, code)

    def request(self, request: ClaimRequest, table: str) -> ClaimRequest:
        """Return what a claim of `table` asked for, in the names of now."""
        if not self.folders:
            return request
        by_folder = {folder: name for name, folder in self.folders.items()}
        inputs = {
            label: tuple(_said(it, by_folder.get(it.location, it.table)) for it in of_label)
            for label, of_label in request.inputs.items()
        }
        return replace(request, table=table, code=self.code(request.code), inputs=inputs)


def renamed_in(text: str, names: Mapping[str, str]) -> str:
    """Return a text in which tables are called by other names, wherever they are named whole; two may change places.

    Cost: one pass over the text, however many names there are.
    """
    return _NAMED_WHOLE.sub(lambda found: names.get(found[0], found[0]), text)


def _said(read: Input, table: str) -> Input:
    return read if read.table == table else replace(read, table=table, read=renamed_in(read.read, {read.table: table}))
