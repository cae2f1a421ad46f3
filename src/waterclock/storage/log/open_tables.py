"""Keeps delta-rs's tables open: opening one anew reads its whole log, a kept one reads what is new."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from waterclock.errors import WaterclockError
from waterclock.storage.log.delta_log import damaged_log

_MOST_KEPT = 512
_kept: OrderedDict[tuple[str, int, int], _Kept] = OrderedDict()
_lock = threading.Lock()


@dataclass(slots=True)
class _Kept:
    lock: threading.Lock = field(default_factory=threading.Lock)
    table: DeltaTable | None = None


@contextmanager
def opened(folder: str) -> Iterator[DeltaTable]:
    """Hold the table of a folder at its newest version; one thread at a time has it.

    Raises  E623 where the folder holds no table, E643 where its log cannot be read
    """
    kept = _of(folder)
    with kept.lock:
        try:
            if kept.table is None:
                kept.table = DeltaTable(folder)
            else:
                kept.table.update_incremental()
        except TableNotFoundError as error:
            raise _no_table(folder, str(error)) from error
        except DeltaError as error:
            kept.table = None
            raise damaged_log(folder, f"{folder}/_delta_log", str(error).partition("\n")[0][:300]) from error
        try:
            yield kept.table
        except BaseException:
            # it may have been left at a version of which its log knows nothing
            kept.table = None
            raise


def forget(folder: str) -> None:
    """Keep nothing of a folder's table: its log was lost, and a new one may come to lie where the old one lay."""
    with _lock:
        for key in [key for key in _kept if key[0] == folder]:
            del _kept[key]


def _of(folder: str) -> _Kept:
    try:
        log = os.stat(f"{folder}/_delta_log")  # noqa: PTH116 - a table made anew in the same folder is another table
    except OSError as error:
        raise _no_table(folder, str(error)) from error
    key = (folder, log.st_dev, log.st_ino)
    with _lock:
        kept = _kept.setdefault(key, _Kept())
        _kept.move_to_end(key)
        if len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
        return kept


def _no_table(folder: str, why: str) -> WaterclockError:
    return WaterclockError(
        "E623",
        "the folder holds no Delta table",
        where=folder,
        why=why,
        fix="create the table first; where it was removed, bring its folder back: its stage lay in it",
    )
