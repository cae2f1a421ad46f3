"""Run benchmarks, each in a process, print their tables, and write them to docs/performance.md on request.

bench/run                       print all of them
bench/run flights chain         print some of them
bench/run flights -- --days 3   print one of them, with arguments for it
bench/run --write               also write the tables to docs/performance.md
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

BENCHES = (
    "commands",
    "cold",
    "ledger",
    "postgres",
    "status",
    "scale",
    "commits",
    "archive",
    "flights",
    "chain",
    "empty",
    "backfill",
    "big_slice",
    "long_session",
    "service",
    "quality",
    "rights",
    "erasing",
    "branch",
    "layout",
    "receive",
    "connect",
    "restate",
    "temporal",
    "timelines",
    "ui",
    "forms",
)
HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "performance.md"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("benches", nargs="*", metavar="bench", help=f"of {', '.join(BENCHES)}; all, if none is named")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    own, rest = _split(sys.argv[1:])
    asked = parser.parse_args(own)
    unknown = [name for name in asked.benches if name not in BENCHES]
    if unknown:
        parser.error(f"there is no bench {unknown[0]}; there are {', '.join(BENCHES)}")
    page = PAGE.read_text(encoding="utf-8")
    if asked.write and (
        homeless := [name for name in asked.benches or BENCHES if not all(m in page for m in marks(name))]
    ):
        sys.exit(f"{PAGE.name} has no place for {', '.join(homeless)}: {' … '.join(marks(homeless[0]))}")
    for name in asked.benches or BENCHES:
        text = _run(name, rest)
        print(text, flush=True)
        if asked.write:
            _keep(name, text)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def _run(name: str, arguments: list[str]) -> str:
    load = os.getloadavg()[0]
    done = subprocess.run(
        [sys.executable, str(HERE / f"{name}.py"), *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    command = " ".join(["bench/run", name, *(["--", *arguments] if arguments else [])])
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%MZ}"
    cores = len(os.sched_getaffinity(0))
    return (
        f"{done.stdout.strip()}\n\n`{command}`, {when}, {cores} cores, "
        f"load {load:.1f} before and {os.getloadavg()[0]:.1f} after.\n"
    )


def marks(name: str) -> tuple[str, str]:
    """Return the comments before and after the table of a benchmark in the page."""
    return f"<!-- {name} -->", f"<!-- /{name} -->"


def _keep(name: str, text: str) -> None:
    """Replace the text between the two comments of a benchmark in the page. Text around them is kept."""
    begin, end = marks(name)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n{text}{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
