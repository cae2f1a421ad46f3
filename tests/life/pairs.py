"""Counts which two declarations, and which operation and declaration, meet in how many lives: `python -m tests.life.pairs 60`."""

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
    print(f"{len(legal)} legal pairs, {len(met)} met in {lives} lives ({100 * len(met) / len(legal):.1f} %)")
    for pair in sorted(legal - met):
        print("not met:", " x ".join(pair))


if __name__ == "__main__":
    main(int(sys.argv[1]))
