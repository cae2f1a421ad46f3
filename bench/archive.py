"""Measures the cost of listing a landing folder and its archive by number of files, against stating every file.

    python bench/archive.py [--files 365 8760 26280]

Milliseconds of CPU, the best of five rounds. `arrivals`: lists three new files, next to an archive of collected files.
`window`: lists the files of one window by data time, in the folder itself. `clock`: finds the newest stamp. By hand:
matches each name, parses its stamp and reads the file's size.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from measure import grid, ratio

from waterclock.connectors.files import landing as land
from waterclock.connectors.files.file_name_matching import parse_unit_path

NAMES = parse_unit_path("shop.orders")
FIRST = datetime(2013, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
NOW = datetime(2030, 1, 1, tzinfo=UTC)
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[365, 8_760, 26_280])
    rows = [measured(files) for files in parser.parse_args().files]
    head = ["files", "arrivals ms", "window ms", "clock ms", "by hand ms", "window/by hand"]
    print("Hourly files of one source.\n")
    print(grid(head, rows))


def measured(files: int) -> list[str]:
    """Return a row: the number of files, and the cost of each kind of listing."""
    with tempfile.TemporaryDirectory() as root:
        new, old = Path(root) / "new" / "shop" / "orders", Path(root) / "archive" / "shop" / "orders"
        names = [f"shop_orders_{FIRST + at * HOUR:%Y_%m_%d_%H_%M_%S}.csv" for at in range(files)]
        put(old, names)
        arrived = land.Landing(Path(root) / "new", Path(root) / "archive")
        put(new, names[-3:])
        for name in names[-3:]:
            (old / name).unlink()
        taken = set(names[:-3])
        arrivals = best(lambda: land.list_items(arrived, NAMES, now=NOW, taken=taken))
        clock = best(lambda: land.newest_stamp(arrived, NAMES, now=NOW))
        put(new, names)
        kept = land.Landing(Path(root) / "new", Path(root) / "none")
        middle = FIRST + files // 2 * HOUR
        window = best(lambda: land.list_between(kept, NAMES, (middle, middle + HOUR), now=NOW))
        by_hand = best(lambda: look_at_all(new))
    return [f"{files:,}", *(f"{ms:.1f}" for ms in (arrivals, window, clock, by_hand)), ratio(window, by_hand)]


def put(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("id\n1\n", encoding="ascii")


def look_at_all(folder: Path) -> list[tuple[datetime, str, int]]:
    pattern = re.compile(r"shop_orders_(\d{4}(?:_\d\d){5})\.csv")
    found = []
    for path in folder.iterdir():
        if match := pattern.fullmatch(path.name):
            stamp = datetime.strptime(match[1], "%Y_%m_%d_%H_%M_%S").replace(tzinfo=UTC)
            found.append((stamp, path.name, path.stat().st_size))
    return sorted(found)


def best(work: Callable[[], object]) -> float:
    """Return the lowest CPU time of some rounds, in milliseconds."""
    costs = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        costs.append(1000 * (time.process_time() - begun))
    return min(costs)


if __name__ == "__main__":
    main()
