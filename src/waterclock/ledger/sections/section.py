"""Base class of the ledger's sections. Their methods are functions whose first argument is the ledger's database."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Concatenate, Generic, ParamSpec, TypeVar

from waterclock.ledger.store.database import LedgerDatabase

P = ParamSpec("P")
R = TypeVar("R")


class DatabaseMethod(Generic[P, R]):
    """A method of a ledger section: a function whose first argument is the ledger's database."""

    def __init__(self, function: Callable[Concatenate[LedgerDatabase, P], R]) -> None:
        self._function = function

    def __get__(self, section: Section, _: type[Section]) -> Callable[P, R]:
        return partial(section.database.call_with_retries, self._function)


class Section:
    """One group of the ledger's methods. Each call is one transaction, repeated if the connection breaks."""

    def __init__(self, database: LedgerDatabase) -> None:
        self.database = database
