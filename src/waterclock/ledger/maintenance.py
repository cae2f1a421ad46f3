"""How a ledger is kept: exported, made again from what is at rest, and told of what maintenance did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from waterclock.flow.declarations import Flow, Table
from waterclock.ledger.store import export
from waterclock.ledger.store.database import Database
from waterclock.ledger.store.export import Head
from waterclock.ledger.write import adopt as adopting
from waterclock.ledger.write import redeclare as redeclaring
from waterclock.ledger.write.adopt import Committed
from waterclock.ledger.write.redeclare import Difference


@dataclass(frozen=True, slots=True)
class Keeping:
    """What keeps a ledger; every method is one transaction."""

    database: Database

    def export_lines(self, earlier: Sequence[tuple[str, Head]] = ()) -> Iterator[str]:
        """See `export.export_lines`."""
        return export.export_lines(self.database, earlier)

    def moment(self) -> Head:
        """See `export.moment`."""
        return export.moment(self.database)

    def load(self, exports: Iterable[Iterable[str]]) -> None:
        """See `export.load`."""
        export.load(self.database, exports)

    def known_claims(self, table: str) -> dict[int, str]:
        """See `adopting.known_claims`."""
        return adopting.known_claims(self.database, table)

    def adopt(self, found: Committed) -> bool:
        """See `adopting.adopt`."""
        return adopting.adopt(self.database, found)

    def raise_claims(self, number: int) -> None:
        """See `adopting.raise_claims`."""
        adopting.raise_claims(self.database, number)

    def move_head(self, table: str, version: int) -> None:
        """See `adopting.move_head`."""
        adopting.move_head(self.database, table, version)

    def drop_windows(self, table: str, before: datetime, version: int, *, who: str) -> None:
        """See `adopting.drop_windows`."""
        adopting.drop_windows(self.database, table, before, version, who=who)

    def differences(self, flow: Flow) -> dict[str, list[Difference]]:
        """See `redeclaring.differences`."""
        return redeclaring.differences(self.database, flow)

    def draw_claim(self) -> int:
        """See `redeclaring.draw_claim`."""
        return redeclaring.draw_claim(self.database)

    def refuse_busy(self, table: str) -> None:
        """See `redeclaring.refuse_busy`."""
        redeclaring.refuse_busy(self.database, table)

    def redeclare(
        self,
        table: Table,
        *,
        version: int,
        claim: int,
        who: str,
        found: Committed | None = None,
        is_new_log: bool = False,
    ) -> None:
        """See `redeclaring.redeclare`."""
        redeclaring.redeclare(
            self.database, table, version=version, claim=claim, who=who, found=found, is_new_log=is_new_log
        )

    def dropped_before(self, table: str, *, by: datetime) -> datetime | None:
        """See `adopting.dropped_before`."""
        return adopting.dropped_before(self.database, table, by=by)

    def forget_versions(self, table: str, oldest: int) -> None:
        """See `adopting.forget_versions`."""
        adopting.forget_versions(self.database, table, oldest)
