"""Draws the flow of a life from parts that `check` accepts, and picks the drawing with the most new pairs."""

from __future__ import annotations

from itertools import combinations
from random import Random

from tests.life.declarations import Declared
from tests.life.favour import Met, Pair, operated
from tests.life.part import BY_LABEL, Read
from tests.life.parts import (
    MODES,
    PARTS,
    ByTime,
    Closes,
    Demands,
    Hold,
    KeyOnce,
    KeyPast,
    Partial,
    Refers,
    Retain,
    Retire,
)
from tests.life.people import KEYS, MASKS, Subject, is_personal
from tests.life.rows import Row

CANDIDATES = 24
LENGTHS = ((24, 1), (24, 1), (12, 2), (12, 2), (8, 3), (6, 2))
"""The hours of a life's shortest windows, and the number of them in a long window."""
Flow = dict[str, Declared]


def drawn_flow(random: Random, met: Met | None = None, *, is_favoured: bool = True) -> Flow:
    """Draw a flow: of several candidates, the one whose declarations have the most new pairs.

    Its last transform and its publishes are drawn again as long as this adds new pairs. A life has time for only a part
    of the operations that are possible for its flow. `is_favoured`: otherwise the flow with the most pairs is returned.
    """
    flows = [_with_publishes(random, _tables(random)) for _ in range(CANDIDATES * (1 + is_favoured))]
    if not is_favoured:
        return max(flows, key=lambda flow: len(pairs_of(flow)))
    known = met or Met()

    def gain(flow: Flow) -> float:
        happening = sum(known.gain_of(what, words) for what, words in operated(flow.values()).items())
        return known.gain(pairs_of(flow)) + happening / 4

    flow = max(flows, key=gain)
    for draw_again in (_with_another_transform, _with_publishes):
        flow = max((flow, *(draw_again(random, flow) for _ in range(CANDIDATES))), key=gain)
    return flow


def statements(flow: Flow) -> str:
    """Return the DPL of a flow, with the views that its tables read."""
    views = sorted({view for table in flow.values() for view in table.views})
    api = ["CREATE CONNECTION api TYPE rest;"] if any(table.answers for table in flow.values()) else []
    api += ["CREATE CONNECTION forms TYPE forms;"] if any(table.is_form for table in flow.values()) else []
    # the keys by which erased persons are recognised
    api += [KEYS] if any(table.has(Subject) for table in flow.values()) else []
    own = [part.statement(table.name) for table in flow.values() for part in table.parts]
    return "\n".join([*api, *views, *(table.dpl for table in flow.values()), *filter(None, own)])


def pairs_of(flow: Flow) -> set[Pair]:
    """Return the pairs of declarations that meet at one table, or at a table and one that it reads."""
    met: set[Pair] = set()
    words = {name: sorted(table.words) for name, table in flow.items()}
    for name, table in flow.items():
        met.update(combinations(words[name], 2))
        for parent in {read.table for read in table.all_reads} - {name}:
            met |= {(f"reads {one}", other) for one in words[parent] for other in words[name]}
        if table.kind == "PUBLISH":
            met |= {
                (f"publishes {one}", other)
                for one in words[table.of]
                for other in words[name]
                if other.startswith("PUBLISH")
            }
    return met


def _with_another_transform(random: Random, flow: Flow) -> Flow:
    """Draw the last transform again, which no other one reads, and the publishes."""
    tables = {name: table for name, table in flow.items() if table.kind != "PUBLISH"}
    name, last = tables.popitem()
    table = transform(random, name, tables, next(it for it in LENGTHS if it[0] == last.hours))
    if any(_is_partial_state(tables[it]) for it in table.inputs):
        return flow
    return _with_publishes(random, tables | {name: table})


def _is_partial_state(table: Declared) -> bool:
    """Return whether no other table may read this one.

    Which older states are made, and which of them without missing inputs, is known only of states that no table reads.
    """
    return table.mode == "REPLACE" and table.has(Partial)


def _tables(random: Random) -> Flow:
    flow: Flow = {}
    lengths = random.choice(LENGTHS)
    for number in range(random.choice((2, 2, 3))):
        table = _collect(random, f"raw.c{number}", flow, lengths)
        flow[table.name] = table
    for number in range(random.choice((2, 3, 3, 4))):
        table = transform(random, f"made.t{number}", flow, lengths)
        flow[table.name] = table
    for table in flow.values():
        if _is_partial_state(table) and any(table.name in it.inputs for it in flow.values()):
            table.parts = [part for part in table.parts if not isinstance(part, Partial)]
    return flow


def _with_publishes(random: Random, flow: Flow) -> Flow:
    flow = {name: table for name, table in flow.items() if table.kind != "PUBLISH"}
    for number in range(random.choice((1, 1, 2))):
        table = drawn_publish(random, flow, number)
        flow[table.name] = table
    return flow


def drawn_publish(random: Random, flow: Flow, number: int, of: Declared | None = None) -> Declared:
    """Draw a publish of a table, by default of any one."""
    of = of or random.choice([it for it in flow.values() if it.kind != "PUBLISH"])
    table = Declared("PUBLISH", f"out.p{number}", of.mode, of=of.name, way=_way(random, of))
    table.size, table.hours = of.size, of.hours
    table.decision = _decision(random, is_personal=is_personal(flow, of.name))
    return table


def _decision(random: Random, *, is_personal: bool) -> str:
    """Draw how a PUBLISH sends the value: a personal one needs a mask or a tag."""
    if not is_personal:
        return random.choice(("", "", "", *MASKS))
    return random.choice(("TAGS (pii)", "TAGS (no_pii)", *MASKS))


def _way(random: Random, of: Declared) -> str:
    """Draw how a table is published: by MERGE if a label has each key once, or in another way that `check` accepts."""
    ways = ["", ""]
    if of.mode in BY_LABEL and not of.is_snapshot and (of.groups or of.has(KeyOnce, KeyPast)) and not of.has(Retain):
        ways.append("MERGE")
    if of.mode in {"PARTITIONED", "REPLACE"}:
        ways.append("behind a view")
    if of.mode == "MERGE":
        ways += ["REPLACE", "REPLACE behind a view"]
    if of.mode in {"MERGE", "REPLACE", "TEMPORAL"}:
        ways.append("REPLACE WHERE")
    return random.choice(ways)


def add_parts(random: Random, table: Declared) -> None:
    """Add parts by chance where `check` accepts them."""
    for part in random.sample(PARTS, len(PARTS)):
        if part.fits(table) and random.random() < part.chance:
            table.parts.append(part.drawn(random, table))


def _collect(random: Random, name: str, flow: Flow, lengths: tuple[int, int]) -> Declared:
    if random.random() < 0.15:
        table = Declared("COLLECT", name, random.choice(("REPLACE", "TEMPORAL")), is_snapshot=True)
    else:
        table = Declared("COLLECT", name, random.choice(MODES["COLLECT"]), is_by_file=random.random() < 0.3)
    table.hours, table.size = lengths[0], lengths[1] if random.random() < 0.4 else 1
    table.start = 1 + table.size * random.choice((0, 0, 1, 2))
    add_parts(random, table)
    if table.mode == "MERGE" and not table.has(ByTime):
        # a batch with two rows of a key is refused once it is released
        table.parts = [part for part in table.parts if not isinstance(part, Hold)]
    parents = [it.name for it in flow.values() if it.mode == "TEMPORAL"]
    # FLAT reads all columns, so a retired column would remain
    if parents and Refers.fits(table) and not table.has(Retire) and random.random() < 0.6:
        table.parts.append(Refers(random.choice(parents)))
    return table


def transform(random: Random, name: str, flow: Flow, lengths: tuple[int, int]) -> Declared:
    table = Declared("TRANSFORM", name, random.choice(MODES["TRANSFORM"]), groups=random.random() < 0.4)
    if table.mode == "MERGE":
        table.groups = True
    table.hours, table.size = lengths[0], lengths[1] if random.random() < 0.5 else 1
    if table.mode != "TEMPORAL" and random.random() < 0.15 and _ask_for_each(random, table, flow):
        add_parts(random, table)
        return table
    table.reads = _reads(random, table, flow)
    if table.mode == "PARTITIONED" and random.random() < 0.4:
        table.reads = _until(random, table, flow) or table.reads
    if random.random() < 0.2:
        odd = _reads(random, table, flow)
        if not any(read.kind == "UNTIL" for read in table.reads + odd):
            table.odd = odd
    table.shapes = {it.name: it.mode for it in flow.values()} | {name: table.mode}
    add_parts(random, table)
    if any(read.kind == "UNTIL" and flow[read.table].has(Retain) for read in table.reads):
        # an open window may read further back than RETAIN keeps
        table.parts = [part for part in table.parts if not isinstance(part, Closes)]
    keyed = [it.name for it in flow.values() if it.mode == "MERGE"]
    if keyed and Demands.fits(table) and random.random() < 0.3:
        table.parts.append(Demands(random.choice(keyed)))
    flats = [flow[it.table].part(Refers) for it in table.all_reads if it.kind == "FLAT"]
    inputs = table.inputs | {part.parent for part in flats if isinstance(part, Refers)}
    table.has_cadence = any(flow[it].size != table.size for it in inputs)
    return table


def _ask_for_each(random: Random, table: Declared, flow: Flow) -> bool:
    """Make a table query an API for each key of another one whose slices fit; return whether there is one."""
    fitting = [u for u in flow.values() if u.mode != "PARTITIONED" or not table.size % u.size]
    kept = [(u, part) for u in fitting if isinstance(part := u.part(Retain), Retain) and u.mode == "PARTITIONED"]
    fitting = [u for u in fitting if not any(it is u and part.days < table.size for it, part in kept)]
    if not fitting:
        return False
    u = random.choice(fitting)
    table.reads, table.groups, table.has_cadence = (Read("PLAIN", u.name),), False, u.size != table.size
    table.shapes = {it.name: it.mode for it in flow.values()} | {table.name: table.mode}
    drawn = tuple(Row(key, random.randint(1, 400), key * 60) for key in (1, 2, 3))
    table.answers = next((it.answers for it in flow.values() if it.answers), drawn)  # from a single API
    return True


def _until(random: Random, table: Declared, flow: Flow) -> tuple[Read, ...]:
    """Draw a table that is read UNTIL, so that books can be closed; return no read if no table's slices fit."""
    fitting = [u for u in flow.values() if u.mode == "PARTITIONED" and not table.size % u.size and not u.has(Retain)]
    files = [u for u in fitting if u.is_by_file]  # their rows arrive late
    return (Read("UNTIL", (u := random.choice(files or fitting)).name, u.size),) if fitting else ()


def _reads(random: Random, table: Declared, flow: Flow) -> tuple[Read, ...]:
    reads = [_read(random, random.choice([*flow.values()]), table, is_first=True)]
    if random.random() < 0.45:
        read = _read(random, random.choice([*flow.values()]), table, is_first=False)
        # unread states keep ticks that no query shows
        reads.append(Read("LATEST", read.table) if table.mode != "REPLACE" and random.random() < 0.2 else read)
    if random.random() < 0.25:
        reads.append(Read("PREVIOUS", table.name))
    return tuple(dict.fromkeys(reads))


def _read(random: Random, u: Declared, table: Declared, *, is_first: bool) -> Read:
    """Draw a reference to a table by another one."""
    kinds, size = ["PLAIN", "HISTORY", "PREVIOUS"], table.size
    if u.mode == "PARTITIONED" and size % u.size:
        kinds = ["HISTORY"]  # its slices do not fit
    elif u.mode == "PARTITIONED":
        kinds = ["PLAIN", "PLAIN", "HISTORY", "PREVIOUS", "PAST", "PAST", "UNTIL"]
        if table.mode == "PARTITIONED":
            kinds += ["UNTIL"] * 2  # its windows may wait until their books are closed
        if u.has(Refers) and is_first:
            kinds += ["FLAT"] * 6
    kind = random.choice(kinds)
    days = {"PAST": random.choice((2, 3)) * size, "UNTIL": u.size}.get(kind, 0)
    kept = u.part(Retain)
    reach = {"PAST": days, "UNTIL": size + 2 * days, "PLAIN": size, "FLAT": size, "PREVIOUS": size}.get(kind, 0)
    if isinstance(kept, Retain) and u.mode == "PARTITIONED" and reach > kept.days:
        kind, days = "HISTORY", 0  # a span may not reach beyond RETAIN
    via = random.choice(("", "", "", "VIEW", "SHARED VIEW")) if kind != "FLAT" else ""
    return Read(kind, u.name, days, via)
