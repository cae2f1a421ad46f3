"""Base classes of declarations: a part with its DPL, the places where it is legal and its rule; and references."""

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
    """A reference to a table. `days`: the span of PAST and UNTIL. `via`: a VIEW or a SHARED VIEW of the table.

    A day is one of the oracle: the shortest window of a life.

    For LATEST, `days` is the tick that a label keeps, as the day that begins there; in a declaration it is 0.
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
    """The inputs of a part's rule besides rows: the label, and the keys of the referenced tables."""

    label: int
    keys: frozenset[int] = frozenset()
    is_read_whole: bool = False
    """Whether another table has all columns of the table: then none of them is retired."""


class Part:
    """One declaration of a table. `fits` decides where it is legal; the other members are its text and its rule."""

    word: ClassVar[str] = ""
    is_of_table: ClassVar[bool] = False
    """Whether its verdict depends on the whole table after the batch, not only on the batch."""
    chance: ClassVar[float] = 0.3
    """The probability with which it is drawn where it is legal."""

    @classmethod
    def fits(cls, of: Declared) -> bool:
        """Return whether `check` accepts it there."""
        del of
        return True

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        del random, of
        return cls()

    @property
    def clause(self) -> str:
        """The text among the clauses."""
        return ""

    @property
    def of_key(self) -> str:
        """The text after the key's column."""
        return ""

    @property
    def of_value(self) -> str:
        """The text after the column of the value."""
        return ""

    @property
    def words(self) -> frozenset[str]:
        """Its declared words, for the count of pairs."""
        return frozenset({self.word})

    def statement(self, name: str) -> str:
        """Return the separate statement that it adds to the flow, for the table of that name."""
        del name
        return ""

    @property
    def lookback(self) -> str:
        """The text after BY DATA TIME."""
        return ""

    @property
    def column(self) -> str:
        """Further columns."""
        return ""

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        """Return the rows that its rule keeps; `past`: earlier own slices; `at`: further inputs of the rule."""
        del past, at
        return rows

    def verdict(self, rows: Rows) -> str:
        """Return the status of a batch of these rows."""
        del rows
        return DONE
