"""Counts the covered pairs of declarations, and of operations and declarations: `python -m tests.life.pairs 240`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from random import Random

from tests.life.branching import has_branch
from tests.life.drawing import drawn_flow, pairs_of
from tests.life.favour import LIVES, Pair
from tests.life.keeping import has_apart
from tests.life.lives import lived, met_before
from tests.life.tokens import has_tokens

FLOWS, SINGLE_LIVES = 2000, 300


def legal_pairs() -> set[Pair]:
    """Return the pairs that some flow or life has: many are drawn, in the oracle alone, without favouring new pairs."""
    random = Random(0)
    legal = {pair for _ in range(FLOWS) for pair in pairs_of(drawn_flow(random, is_favoured=False))}
    for seed in range(100_000, 100_000 + SINGLE_LIVES):
        legal |= lived(seed, with_branch=True).pairs | lived(seed, with_tokens=True, with_apart=True).pairs
    return legal


def pairs_of_additions(seeds: Iterable[int]) -> set[Pair]:
    """Return the pairs of the lives that have a branch, tokens or APART: no later life depends on them."""
    found: set[Pair] = set()
    for seed in seeds:
        branch, tokens, apart = has_branch(seed), has_tokens(seed), has_apart(seed)
        if branch or tokens or apart:
            life = lived(seed, met=met_before(seed), with_branch=branch, with_tokens=tokens, with_apart=apart)
            found |= life.pairs
    return found


def main(lives: int) -> None:
    """Print the counts of each soak and of all soaks, and the pairs that are not covered.

    Pairs that a soak covers are legal, even if no other life has covered them.
    """
    firsts = range(0, lives, LIVES)
    ends = {first: min(first + LIVES, lives) for first in firsts}
    met = {
        first: met_before(end - 1).with_pairs(
            {*lived(end - 1, met=met_before(end - 1)).pairs, *pairs_of_additions(range(first, end))}
        )
        for first, end in ends.items()
    }
    ever = frozenset[Pair]().union(*(each.ever for each in met.values()))
    legal = legal_pairs() | ever
    for first, end in ends.items():
        count = len(met[first].soak)
        sys.stdout.write(f"lives {first} to {end - 1}: {count} pairs met ({100 * count / len(legal):.1f} %)\n")
    sys.stdout.write(
        f"{len(legal)} legal pairs, {len(ever)} met in {lives} lives ({100 * len(ever) / len(legal):.1f} %)\n"
    )
    for pair in sorted(legal - ever):
        sys.stdout.write(f"not met: {' x '.join(pair)}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
