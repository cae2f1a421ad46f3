"""Defines a held restatement: labels that wait for a user, since more of them may be made again than a limit allows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waterclock.timelabel.label import label_of


@dataclass(frozen=True, slots=True)
class HeldRestatement:
    """The labels of a table that may be made again, and that are held since there are more than `limit`.

    Of `labels`, the inputs of `changed` are restated already; the others read batches that may be made again. `total`
    labels count towards the limit: those of the table or, if the limit is that of a run (`is_of_run`), of all tables.
    """

    labels: frozenset[datetime]
    changed: frozenset[datetime]
    limit: int
    total: int
    is_of_run: bool = False

    @property
    def reason(self) -> str:
        """The reason why the labels are held."""
        labels = "LABEL" if self.limit == 1 else "LABELS"
        limit = f"--at-most {self.limit}" if self.is_of_run else f"ON RESTATE ... AT MOST {self.limit} {labels}"
        count = "1 label" if self.total == 1 else f"{self.total} labels"
        where = " of all tables" if self.is_of_run else ""
        return f"its inputs were restated; up to {count}{where} would be made again, more than {limit}"

    def to_dict(self) -> dict[str, Any]:
        """Return the held restatement as a dictionary for JSON."""
        return {
            "labels": list(map(label_of, sorted(self.labels))),
            "changed": len(self.changed),
            "limit": self.limit,
            "total": self.total,
            "is_of_run": self.is_of_run,
        }
