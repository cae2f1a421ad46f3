"""Creates the sample project of `init`: the database of a shop, files that arrive, and a flow that reads both.

Its windows are the three days before today, so that the first run makes batches and the second finds none due.
"""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from waterclock.dpl.config.branches import BRANCHES
from waterclock.dpl.config.environment import Environment
from waterclock.errors import WaterclockError

DAYS = 3
_HOURS = (8, 9, 11, 12, 14, 16, 17, 19, 21)

PROJECT_FILE = """\
# Settings that differ between machines, and defaults of the statements in flows/.
[project]
name = "{name}"

[defaults]
start = "{start}"            # the first window of each collect
owner = "you@example.com"

[vars]
large = 50                      # :large in the queries

[env.dev]
storage = ".waterclock"         # archive, stage, tables and the ledger; not in git
publish = true                  # without it, published rows are only staged
connections.shop = {{ path = "data/shop.sqlite" }}
connections.landing = {{ path = "data/new" }}
connections.out = {{ path = "data/out" }}
"""

COLLECT = """\
-- Inputs. EVERY is the length of a table's windows. Each row belongs to a window, and each window is one batch.
CREATE CONNECTION shop TYPE sqlite COMMENT 'The database of the shop; its address is in waterclock.toml';
CREATE CONNECTION landing TYPE files COMMENT 'Where files land: <supplier>/<source>/<supplier>_<source>_<time>.csv';

-- Rows by their own time: the batch of a day holds the orders of that day, whenever it is made.
COLLECT shop.orders PARTITIONED (
    order_id KEY, customer_id NOT NULL, amount DOUBLE EXPECT (amount > 0) AS is_paid,
    ordered_at TIMESTAMP NOT NULL)
  FROM shop.orders EVERY DAY BY DATA TIME ordered_at
  COMMENT 'One row per order';

-- No BY: the whole table as it is now. One snapshot covers all days since the previous one.
COLLECT shop.customers (customer_id KEY, name NOT NULL, country)
  FROM shop.customers EVERY DAY;

-- Rows by arrival: a file belongs to the day of the stamp in its name.
COLLECT web.visits PARTITIONED (visited_at TIMESTAMP, page, visits INT)
  FROM landing.web.visits EVERY DAY BY ARRIVAL TIME;
"""

TRANSFORM = """\
-- Transforms. A transform has the windows of its inputs, and waits until exactly these inputs are complete.
TRANSFORM sales.by_country PARTITIONED COMMENT 'Revenue by country and day'
AS SELECT c.country, count(*) AS orders, round(sum(o.amount), 2) AS revenue, count_if(o.amount >= :large) AS large
FROM shop.orders o JOIN shop.customers c ON c.customer_id = o.customer_id
GROUP BY c.country;

-- HISTORY reads all days so far, and this table is replaced each day.
TRANSFORM sales.best_customers (customer_id KEY, *) COMMENT 'Who bought most, over all days'
AS SELECT o.customer_id, max(c.name) AS name, count(*) AS orders, round(sum(o.amount), 2) AS revenue
FROM HISTORY(shop.orders) o JOIN shop.customers c ON c.customer_id = o.customer_id
GROUP BY o.customer_id;

TRANSFORM web.per_order PARTITIONED COMMENT 'Visits for each order, by day'
AS SELECT v.visits, o.orders, round(v.visits / o.orders, 1) AS visits_per_order
FROM (SELECT sum(visits) AS visits FROM web.visits) v
CROSS JOIN (SELECT count(*) AS orders FROM shop.orders) o;
"""

PUBLISH = """\
-- Outputs.
CREATE CONNECTION out TYPE files;

PUBLISH sales.by_country TO out.by_country OPTIONS (format 'csv');
"""

EMPTY_PROJECT_FILE = """\
# Settings that differ between machines, and defaults of the statements in flows/.
[project]
name = "{name}"

[defaults]
start = "{start}"            # the first window of each collect

[env.dev]
storage = ".waterclock"         # archive, stage, tables and the ledger; not in git
publish = true                  # without it, published rows are only staged
# connections.landing = {{ path = "data/new" }}
# connections.shop = {{ path = "data/shop.sqlite" }}
"""

EMPTY_FLOW = """\
-- Inputs, transforms and outputs. Remove the dashes, and use your own names.

-- CREATE CONNECTION landing TYPE files;    -- its path is in waterclock.toml
-- CREATE CONNECTION shop TYPE sqlite;

-- Files, each in the window of the stamp in its name: <path>/web/visits/web_visits_2026_01_31_23_59_59.csv
-- COLLECT web.visits PARTITIONED FROM landing.web.visits EVERY DAY BY ARRIVAL TIME;

-- Rows of a database, each in the window of its own time
-- COLLECT shop.orders PARTITIONED (ordered_at TIMESTAMP NOT NULL, *)
--   FROM shop.orders EVERY DAY BY DATA TIME ordered_at;

-- TRANSFORM web.per_day PARTITIONED AS SELECT count(*) AS visits FROM web.visits;
"""

# includes the folder of branches, and the default secrets folder of an environment
IGNORE = f"""\
.waterclock/
{BRANCHES}/
{Environment.model_fields["secrets"].default}/
"""


def today() -> date:
    """Return today's date in UTC, the zone of the example's days."""
    return datetime.now(UTC).date()


def start_project(folder: Path, day: date) -> tuple[Path, ...]:
    """Write the sample project for the days before `day`. Return the relative paths. Raises E901, E905."""
    texts = _texts(folder, day)
    data = Path("data") / "shop.sqlite"
    _check_folder(folder, (*texts, data))
    with _report_write_errors(folder):
        _write(folder, texts)
        _make_folder((folder / data).parent)
        _make_shop(folder / data, day)
    return (*texts, data)


def start_empty(folder: Path, day: date) -> tuple[Path, ...]:
    """Write a project without statements, with `day` as its START. Return the relative paths. Raises E901, E905."""
    texts = {
        Path("waterclock.toml"): EMPTY_PROJECT_FILE.format(name=_name_of(folder), start=day),
        Path("flows/flow.dpl"): EMPTY_FLOW,
        **_build_gitignore(folder),
    }
    _check_folder(folder, texts)
    with _report_write_errors(folder):
        _write(folder, texts)
    return tuple(texts)


def next_commands(folder: Path, *commands: str) -> tuple[str, ...]:
    """Return the next commands to run, such as `run` and `status`, with the --project option if needed."""
    resolved = folder.resolve()
    here = "" if resolved == Path.cwd() else f" --project {shlex.quote(str(folder))}"
    return tuple(f"waterclock {command}{here}" for command in commands)


def _check_folder(folder: Path, files: Iterable[Path]) -> None:
    """Raise E901 if the folder cannot be a project's, or if one of the files exists already."""
    solid = next((each for each in (folder, *folder.parents) if each.exists() and not each.is_dir()), None)
    if solid is not None:
        raise WaterclockError(
            "E901",
            f"{solid.name} is a file",
            where=str(solid.resolve()),
            why="a project is a folder, and init changes no file",
            fix="choose another name: waterclock init my_project",
        )
    there = [path for path in files if (folder / path).exists()]
    if there:
        raise WaterclockError(
            "E901",
            f"{there[0]} exists already",
            where=str(folder.resolve()),
            why="init writes a new project and changes no file",
            fix="choose another folder: waterclock init my_project",
        )


@contextmanager
def _report_write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        raise WaterclockError(
            "E905",
            "the project cannot be written",
            where=str(folder.resolve()),
            why=getattr(error, "strerror", None) or str(error),
            fix="choose a writable folder with free space: waterclock init my_project",
        ) from error


def _write(folder: Path, texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        for parent in reversed([folder / path, *(folder / path).parents][1:]):
            _make_folder(parent)
        (folder / path).write_text(text, encoding="utf-8")
        (folder / path).chmod((folder / path).stat().st_mode & ~0o002)


def _make_folder(folder: Path) -> None:
    """Create a folder that is not world-writable, whatever the umask: a world-writable project is not trusted."""
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        folder.chmod(folder.stat().st_mode & ~0o002)


def _build_gitignore(folder: Path) -> dict[Path, str]:
    return {} if (folder / ".gitignore").exists() else {Path(".gitignore"): IGNORE}


def _texts(folder: Path, day: date) -> dict[Path, str]:
    start = day - timedelta(days=DAYS)
    texts = {
        Path("waterclock.toml"): PROJECT_FILE.format(name=_name_of(folder), start=start),
        Path("flows/1_collect.dpl"): COLLECT,
        Path("flows/2_transform.dpl"): TRANSFORM,
        Path("flows/3_publish.dpl"): PUBLISH,
    }
    return texts | _build_gitignore(folder) | dict(_visits(day))


def _name_of(folder: Path) -> str:
    """Build a legal project name from the folder's name."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", folder.resolve().name).strip("_-")
    return name if re.match(r"[A-Za-z_]", name) else f"project_{name}".rstrip("_")


def _visits(day: date) -> Iterator[tuple[Path, str]]:
    """Yield the path and the CSV text of one file per day, named after the last second that it covers."""
    for back in range(DAYS, 0, -1):
        of = day - timedelta(days=back)
        rows = [f"{of}T{hour:02d}:00:00Z,{page},{(hour * 7 + back * 3) % 11 + 2}" for hour, page in _pages()]
        name = f"web_visits_{of:%Y_%m_%d}_23_59_59.csv"
        yield Path("data/new/web/visits") / name, "visited_at,page,visits\n" + "\n".join(rows) + "\n"


def _pages() -> Iterator[tuple[int, str]]:
    for hour in _HOURS:
        yield hour, "home" if hour % 2 else "offers"


def _make_shop(path: Path, day: date) -> None:
    customers = [(1, "Ada", "GB"), (2, "Blaise", "FR"), (3, "Carl", "DE"), (4, "Emmy", "DE"), (5, "Sofya", "RU")]
    with closing(sqlite3.connect(path)) as shop, shop:
        shop.execute("CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT)")
        shop.execute(
            "CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL, amount REAL NOT NULL, "
            "ordered_at TIMESTAMP NOT NULL)"
        )
        shop.executemany("INSERT INTO customers VALUES (?, ?, ?)", customers)
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", _orders(day))


def _orders(day: date) -> Iterator[tuple[int, int, float, str]]:
    number = 1000
    for back in range(DAYS, 0, -1):
        of = day - timedelta(days=back)
        for hour in _HOURS:
            number += 1
            amount = (number * 37 % 90) + 9.5
            yield number, number * 3 % 5 + 1, amount, f"{of} {hour:02d}:{number % 60:02d}:00"
