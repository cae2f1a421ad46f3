# noqa: INP001 - made use of by generate.py
"""Draws the house, the road of a batch, and windows and ticks, as SVG, from the code; for `docs/architecture.md`."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path

from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.label import label_of
from waterclock.timelabel.period import parse_period

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "waterclock"
WIDTH = 960
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1c2733; }
.name { font-weight: 600; } .code { font-family: ui-monospace, monospace; font-size: 12px; }
.small { font-size: 10.5px; } .quiet { fill: #5a6876; }
.box { fill: #eef3f8; stroke: #9fb2c4; } .inner { fill: #ffffff; stroke: #c3d0dc; } .line { stroke: #5a6876; }
.mark { stroke: #b3541e; } .markText { fill: #b3541e; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4ebf2; } .quiet { fill: #9dacbb; } .box { fill: #1d2833; stroke: #4b5d6f; }
  .inner { fill: #273442; stroke: #55677a; } .line { stroke: #9dacbb; } .mark { stroke: #f0945a; }
  .markText { fill: #f0945a; }
}
"""


def _svg(title: str, height: float, parts: Iterable[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{kind}"/>'


def _line(x: float, y: float, to_x: float, to_y: float, kind: str = "line") -> str:
    return f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" class="{kind}"/>'


def _purpose(path: Path) -> str:
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0]


def house() -> str:
    """The packages from top to bottom as imports may go, each with its parts and their number of modules."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    by_id = {contract["id"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}
    parts, y = [], 8.0
    for layer in by_id["layers"]["layers"]:
        names = [name for name in re.findall(r"\w+", layer) if any(SOURCE.glob(f"{name}*"))]
        width = (WIDTH - 16 - 12 * (len(names) - 1)) / len(names)
        lefts = [8 + index * (width + 12) for index in range(len(names))]
        height = 28.0 + 34 * any(_is_parted(name, by_id.get(name)) for name in names) + 18 * (width > 400)
        for left, name in zip(lefts, names, strict=True):
            parts += [_box(left, y, width, height), *_room(name, by_id.get(name), left, y, width)]
        y += height + 10
    return _svg("The packages of Waterclock; imports go downward only", y, parts)


def _is_parted(name: str, contract: dict[str, list[str]] | None) -> bool:
    return contract is not None and any((SOURCE / name / part).is_dir() for part in _parts_of(contract))


def _parts_of(contract: dict[str, list[str]]) -> list[str]:
    return [part for layer in contract.get("layers", []) for part in re.findall(r"\w+", layer)]


def _room(name: str, contract: dict[str, list[str]] | None, x: float, y: float, width: float) -> Iterator[str]:
    module = SOURCE / f"{name}.py"
    file = module if module.exists() else SOURCE / name / "__init__.py"
    inside = [path for path in (SOURCE / name).rglob("*.py") if path.name != "__init__.py"]
    count = len(inside) or 1
    yield _text(x + 10, y + 19, name, "name code")
    yield _text(x + width - 10, y + 19, f"{count} module{'s' * (count > 1)}", "quiet", "end")
    down = y + 28
    if width > 400:
        yield _text(x + 10, y + 37, _plain(_purpose(file), int(width / 6.4)), "quiet")
        down += 18
    if contract is None or not _is_parted(name, contract):
        return
    rooms = [part for part in _parts_of(contract) if (SOURCE / name / part).is_dir()]
    each = (width - 20 - 8 * (len(rooms) - 1)) / len(rooms)
    for index, part in enumerate(rooms):
        left = x + 10 + index * (each + 8)
        yield _box(left, down, each, 24, "inner")
        yield _text(left + each / 2, down + 16, part, "code", "middle")


def road() -> str:
    """The steps of a batch, and what is there when the machine stops in each; from `explain/life-of-a-batch.md`."""
    page = (ROOT / "docs" / "explain" / "life-of-a-batch.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    steps = [row for row in rows if row[0] != "Step"]
    modules = sorted((SOURCE / "engine" / "batch").glob("*.py"))
    known = {step for file in modules for step in re.findall(r'\.step\("(\w+)"', file.read_text(encoding="utf-8"))}
    if strange := {step for step, _, _ in steps} - known:
        raise ValueError(f"the page names steps that the engine does not have: {strange}")
    parts = []
    for index, (step, does, left) in enumerate(steps):
        y = 8 + index * 46
        parts += [_box(8, y, 90, 36), _text(53, y + 22, step, "name", "middle")]
        parts.append(_text(112, y + 15, _plain(does, 128)))
        parts.append(_text(112, y + 32, "stopped now: " + _plain(left, 110), "quiet"))
        if index + 1 < len(steps):
            parts += [_line(53, y + 36, 53, y + 46)]
    return _svg("The road of a batch", 8 + len(steps) * 46, parts)


def _plain(text: str, most: int) -> str:
    words = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return words if len(words) <= most else words[: most - 1].rpartition(" ")[0] + " …"


def windows() -> str:
    """Windows of two cadences beside each other, their labels, when they are due, and what a tick sees."""
    tables = {
        "raw.orders": Cadence(parse_period("6 HOURS"), delay=timedelta(hours=1)),
        "marts.daily": Cadence(parse_period("DAY"), delay=timedelta(hours=3)),
    }
    begin = tables["marts.daily"].floor(datetime(2024, 7, 1, 12, tzinfo=UTC))
    end = begin + timedelta(days=2)
    left, right = 122.0, WIDTH - 40.0

    def x_of(instant: datetime) -> float:
        return left + (right - left) * ((instant - begin) / (end - begin))

    tick = tables["marts.daily"].next(begin)
    parts = []
    for row, (name, cadence) in enumerate(tables.items()):
        y = 34 + row * 92
        parts += [_text(8, y + 16, name, "code"), _text(8, y + 32, f"EVERY {cadence.period}", "quiet")]
        start = begin
        while start < end:
            window = cadence.window_of(start)
            middle = (x_of(window.start) + x_of(window.end)) / 2
            parts.append(_box(x_of(window.start) + 1, y, x_of(window.end) - x_of(window.start) - 2, 36))
            label = label_of(window.start)
            parts.append(_text(middle, y + 22, label, "code small", "middle"))
            due = x_of(cadence.due_at(window))
            if due < WIDTH - 40:
                parts += [_line(due, y + 36, due, y + 48), _text(due, y + 60, "due", "quiet", "middle")]
            start = window.end
    parts += [_line(x_of(tick), 22, x_of(tick), 200, "mark"), _text(x_of(tick), 16, "tick", "markText", "middle")]
    before = sum(1 for _ in _windows_before(tables["raw.orders"], begin, tick))
    said = f"As of the tick {label_of(tick)}: {before} windows of raw.orders, one of marts.daily, nothing later."
    return _svg("Windows, labels and a tick", 236, [*parts, _text(8, 226, said, "quiet")])


def _windows_before(cadence: Cadence, begin: datetime, tick: datetime) -> Iterator[datetime]:
    while begin < tick:
        yield begin
        begin = cadence.next(begin)
