"""Counts the pairs of declarations, and of operations and declarations, that meet: `python -m tests.life.pairs 60`."""

from __future__ import annotations

import sys
from random import Random

from tests.life.drawing import Pair, drawn_flow, pairs_of
from tests.life.lives import lived, met_before

FLOWS, LIVES = 2000, 300


def legal_pairs() -> set[Pair]:
    """Return the pairs that some flow or life has: many are drawn, in the oracle alone, without favour."""
    random = Random(0)
    legal = {pair for _ in range(FLOWS) for pair in pairs_of(drawn_flow(random))}
    return legal | {pair for seed in range(LIVES) for pair in lived(seed + 100_000).pairs}


def main(lives: int) -> None:
    """Print the counts, and the pairs that do not meet."""
    legal = legal_pairs()
    met = met_before(lives) & legal
    sys.stdout.write(
        f"{len(legal)} legal pairs, {len(met)} met in {lives} lives ({100 * len(met) / len(legal):.1f} %)\n"
    )
    for pair in sorted(legal - met):
        sys.stdout.write(f"not met: {' x '.join(pair)}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
