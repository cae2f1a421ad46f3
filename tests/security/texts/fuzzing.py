"""Generates hostile texts: seeded mutations of valid queries and statements, and of pieces that broke parsers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

_PIECE = re.compile(r"\w+|'[^']*'|\s+|.", re.DOTALL)
_ACCEPTED = Path(__file__).parents[2] / "language" / "accepted"
ATOMS = tuple(
    """
    SELECT FROM WHERE AS WITH VALUES TABLE ( ) [ ] { } , ; : :: . .. ... ? * + - / % = == <=> <> < > >> << ||
    | |> & ^ ~ ! @ # $ $$ \\ ` ' " -- /* */ -> => 3un 1L 0x 1e 1e999999 .5 5. 1_000 x'AF' r'a' NULL TRUE CASE
    WHEN THEN ELSE END NOT AND OR IN LIKE BETWEEN IS DISTINCT EXISTS UNION ALL INTERSECT EXCEPT MINUS JOIN
    LATERAL VIEW CROSS LEFT ON USING GROUP BY ORDER HAVING LIMIT OFFSET QUALIFY WINDOW OVER PARTITION ROWS
    RANGE UNBOUNDED PRECEDING FOLLOWING CURRENT ROW PIVOT UNPIVOT FOR TABLESAMPLE CAST TRY_CAST INTERVAL DATE
    TIMESTAMP ARRAY MAP STRUCT array map struct count sum max transform explode extract trim position
    substring overlay IF COALESCE WITHIN FILTER IGNORE NULLS RESPECT SET EXTEND DROP AGGREGATE RENAME CALL
    COLLECT TRANSFORM PUBLISH CREATE CONNECTION FUNCTION TYPE OPTIONS SECRET EVERY START ZONE KEY PARTITIONED
    TEMPORAL MERGE APPEND REPLACE QUARANTINE EXPECT REFERENCES ROLE AT MOST LOOKBACK PREVIOUS WATERMARK
    IS_PARTIAL timelabel window_start RETAIN UNTIL CLOSE LATE HIDDEN OTHERWISE DAY HOUR MINUTE 1 0 -1
    999999999999999999999999 'x' 'cron' a b raw.orders `a b` é 中 \u200b \x00 \x1b \ud800 \U0001f600 {{ }} {%
    ${x} ${env:HOME} :name ?? !! @@ `` '' \"\" /*+ REPARTITION(2) */
    """.split()
)


def seeds() -> list[str]:
    """Return the texts that are mutated: all statements of the language's accepted cases."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(_ACCEPTED.glob("*"))]
    return [part.strip() for text in texts for part in text.split(";") if 10 < len(part.strip()) < 1500]


def mutations(texts: list[str], count: int, seed: int) -> Iterator[str]:
    """Yield mutated texts, the same ones for the same seed."""
    rng = random.Random(seed)
    cut = [_PIECE.findall(text) for text in texts]
    for _ in range(count):
        pieces = list(rng.choice(cut))
        for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
            _mutate(rng, pieces, cut)
        yield "".join(pieces)


def _mutate(rng: random.Random, pieces: list[str], cut: list[list[str]]) -> None:
    at = rng.randrange(len(pieces) + 1)
    kind = rng.randrange(8)
    if kind == 0 and pieces:
        del pieces[at : at + rng.randint(1, 4)]
    elif kind == 1:
        pieces[at:at] = [" ", rng.choice(ATOMS), " "]
    elif kind == 2:
        pieces[at : at + 1] = [rng.choice(ATOMS)]
    elif kind == 3:
        pieces[at:at] = pieces[at : at + rng.randint(1, 8)]
    elif kind == 4:
        other = rng.choice(cut)
        begin = rng.randrange(len(other))
        pieces[at:at] = [" ", *other[begin : begin + rng.randint(1, 12)], " "]
    elif kind == 5:
        del pieces[at:]
    elif kind == 6 and pieces:
        other_at = rng.randrange(len(pieces))
        at = min(at, len(pieces) - 1)
        pieces[at], pieces[other_at] = pieces[other_at], pieces[at]
    else:
        pieces[at:at] = [rng.choice(ATOMS)] * rng.choice([2, 3, 200])
