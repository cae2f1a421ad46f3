"""Tokens in a life (TOKENS): some of its tables have them, and the keys of all its tables are texts.

The rules are those of docs/howto/replace-people-by-tokens.md. The tables with tokens are drawn by a separate generator,
so that all other declarations equal those that the seed has without tokens.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.life.branching import has_branch
from tests.life.declarations import Declared
from tests.life.drawing import Flow
from tests.life.parts import Closes, Quarantine, Unshuffled
from tests.life.people import Granted, Subject, Tokens


def has_tokens(seed: int) -> bool:
    """Return whether the life of a seed has tokens: 65 of 240. None of them has a branch, which cannot run them."""
    return not has_branch(seed) and seed % 4 in {0, 1, 2}


def can_have_tokens(table: Declared) -> bool:
    """Return whether `check` accepts TOKENS there."""
    return table.kind != "PUBLISH" and not table.has(Quarantine, Closes, Unshuffled)


def add_tokens(random: Random, flow: Flow) -> None:
    """Add tokens to some tables of a flow, often to those that collect the values; at least to one if possible."""
    able = [table for table in flow.values() if can_have_tokens(table)]
    if not able:
        return
    chosen = [table for table in able if random.random() < (0.6 if table.kind == "COLLECT" else 0.25)]
    chosen = chosen or [random.choice(able)]
    for name, table in flow.items():
        parts = [replace(it, is_of_value=True) if isinstance(it, Granted) else it for it in table.parts]
        if table in chosen:
            parts = [part for part in parts if not isinstance(part, Subject)] + [Tokens()]
        flow[name] = replace(table, parts=parts, has_texts=True)  # its cached words must be computed again
