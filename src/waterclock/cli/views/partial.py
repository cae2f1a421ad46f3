"""Prints the batches that were made without some of their inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from waterclock.batches.ledger_snapshot import describe_missing_inputs
from waterclock.planner.plan import Plan
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from rich.console import Console

_MOST_LABELS = 3


def print_partial(to: Console, plan: Plan) -> None:
    """Print how many batches of each table are partial, and the missing inputs of the newest."""
    for name, of_table in plan.partial.items():
        newest = sorted(of_table, reverse=True)[:_MOST_LABELS]
        to.print(Text(f"{len(of_table)} partial of {name}, completed once the missing inputs arrive", style="quiet"))
        for label in newest:
            to.print(
                Text(f"  {label_of(label)}  {describe_missing_inputs(of_table[label])}", style="quiet"), soft_wrap=True
            )
    if plan.partial:
        to.print()
