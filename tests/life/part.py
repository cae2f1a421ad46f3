"""What every declaration is: a part with its DPL, the places where it is legal, and its rule; and references."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, ClassVar

from tests.life.rows import Rows, Slices

if TYPE_CHECKING:
    from tests.life.declarations import Declared

HELD, FAILED, DONE, SKIPPED = "held", "failed", "done", "skipped"
BY_LABEL = frozenset({"PARTITIONED", "APPEND"})
FOLDS = frozenset({"MERGE", "TEMPORAL"})


@dataclass(frozen=True)
class Read:
    """A reference to a table. `days`: how far PAST and UNTIL reach. `via`: a VIEW or a SHARED VIEW of the table.

    A day is one of the oracle: the shortest window of a life.

    Of LATEST `days` is the tick that a label keeps, by the day that begins there; in a declaration 0.
    """

    kind: str
    table: str
    days: int = 0
    via: str = ""

    @property
    def word(self) -> str:
        return self.kind if self.kind != "PLAIN" else "by name"

    @property
    def sql(self) -> str:
        of = self.view or self.table
        if self.kind == "PLAIN":
            return of
        span = f", '{self.days} days'" if self.days else ""
        return f"{self.kind}({of}{span})"

    @property
    def view(self) -> str:
        """The name of the view that is read, if any."""
        names = {
            "VIEW": f"view.{self.table.replace('.', '_')}",
            "SHARED VIEW": f"shared.{self.table.replace('.', '_')}",
        }
        return names.get(self.via, "")


@dataclass(frozen=True)
class Known:
    """What a part's rule goes by besides rows: the label, and the keys of the tables that are referred to."""

    label: int
    keys: frozenset[int] = frozenset()
    is_read_whole: bool = False
    """Whether another table has all columns of the table: then none of them ends."""


class Part:
    """One declaration of a table. `needs` decides where it is legal; the rest is text, and the rule."""

    word: ClassVar[str] = ""
    is_of_table: ClassVar[bool] = False
    """Whether its verdict is over the table as the batch makes it, and not over the batch alone."""
    chance: ClassVar[float] = 0.3
    """How often it is drawn where it is legal."""

    @classmethod
    def fits(cls, of: Declared) -> bool:
        """Tell whether `check` takes it there."""
        del of
        return True

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        del random, of
        return cls()

    @property
    def clause(self) -> str:
        """What stands among the clauses."""
        return ""

    @property
    def of_key(self) -> str:
        """What stands behind the key's column."""
        return ""

    @property
    def of_value(self) -> str:
        """What stands behind the column of the value."""
        return ""

    @property
    def words(self) -> frozenset[str]:
        """All that it declares, for the count of pairs."""
        return frozenset({self.word})

    def statement(self, name: str) -> str:
        """Return a statement of its own that it adds to the flow, for the table of that name."""
        del name
        return ""

    @property
    def lookback(self) -> str:
        """What stands behind BY DATA TIME."""
        return ""

    @property
    def column(self) -> str:
        """Further columns."""
        return ""

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        """Return the rows that it lets stay; `past`: the table's own slices before; `at`: what else it goes by."""
        del past, at
        return rows

    def verdict(self, rows: Rows) -> str:
        """Return what becomes of a batch of these rows."""
        del rows
        return DONE
