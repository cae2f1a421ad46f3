"""The comparison of two runs: for each table its batches, the time per batch, and whether its code differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from waterclock.batches.audit_records import RunClaim, RunRecord
from waterclock.ledger.ledger import Ledger
from waterclock.operations.formatting import seconds_words
from waterclock.ui.page_query import Content

_EARLIER_RUNS = 100  # runs to search for the previous one
_MOST_SEARCHED = 5  # how many of these are searched for one with claims
_NOTABLE_FACTOR = 1.5


def find_earlier_run(ledger: Ledger, run: RunRecord, most: int) -> tuple[RunRecord, list[RunClaim]] | None:
    """Find the newest earlier run of the same command that ended and claimed batches. Cost: some queries."""
    runs = ledger.past.runs(_EARLIER_RUNS)
    earlier = [
        other
        for other in runs
        if other.command == run.command and other.ended_at is not None and other.started_at < run.started_at
    ]
    for other in earlier[:_MOST_SEARCHED]:
        if claims := ledger.past.claims_of_run(other, most):
            return other, claims
    return None


def side_by_side(claims: Iterable[RunClaim], before: Iterable[RunClaim]) -> list[Content]:
    """Return a row for each table with batches in either run. Tables with a notable change of speed come first."""
    now, then = _group_by_table(claims), _group_by_table(before)
    rows = [
        {
            "table": name,
            "now": _describe_work(now.get(name)),
            "before": _describe_work(then.get(name)),
            "change": _describe_speed_change(now.get(name), then.get(name)),
            "has_other_code": _has_other_code(now.get(name), then.get(name)),
        }
        for name in dict.fromkeys((*now, *then))
    ]
    return sorted(rows, key=lambda row: (row["change"] == "", not row["has_other_code"]))


@dataclass(frozen=True, slots=True)
class _TableWork:
    """The done batches of one table in one run: their number, rows, total seconds and code versions."""

    batches: int
    rows: int
    seconds: float
    codes: frozenset[str]

    @property
    def each(self) -> float:
        """The mean duration of a batch in seconds."""
        return self.seconds / self.batches


def _group_by_table(claims: Iterable[RunClaim]) -> dict[str, _TableWork]:
    found: dict[str, list[RunClaim]] = {}
    for claim in claims:
        if claim.status == "done":
            found.setdefault(claim.table, []).append(claim)
    return {name: _sum_claims(of_table) for name, of_table in found.items()}


def _sum_claims(claims: Sequence[RunClaim]) -> _TableWork:
    seconds = sum(
        max(0.0, (claim.closed_at - claim.claimed_at).total_seconds())
        for claim in claims
        if claim.closed_at is not None
    )
    return _TableWork(
        batches=sum(claim.count for claim in claims),
        rows=sum(claim.rows or 0 for claim in claims),
        seconds=seconds,
        codes=frozenset(claim.code for claim in claims),
    )


def _describe_work(work: _TableWork | None) -> Content | None:
    if work is None:
        return None
    return {
        "batches": work.batches,
        "rows": work.rows,
        "seconds": round(work.seconds, 3),
        "each": seconds_words(work.each),
        "codes": sorted(code[:8] for code in work.codes),
    }


def _describe_speed_change(now: _TableWork | None, before: _TableWork | None) -> str:
    """Format by which factor batches took longer or were faster, or "" below a factor of 1.5."""
    if now is None or before is None or not now.each or not before.each:
        return ""
    times = now.each / before.each
    if times >= _NOTABLE_FACTOR:
        return f"{times:.1f} times as long"
    return f"{1 / times:.1f} times as fast" if times <= 1 / _NOTABLE_FACTOR else ""


def _has_other_code(now: _TableWork | None, before: _TableWork | None) -> bool:
    return now is not None and before is not None and now.codes != before.codes
