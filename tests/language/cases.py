"""Reads cases from text files: a title, the files of a project, and the expected output of `check`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.language.clause_lists import with_names_of_lists
from waterclock.connectors.forms.connector import CAPABILITIES as FORMS
from waterclock.connectors.keys.connector import CAPABILITIES as KEYS
from waterclock.connectors.rest.connector import CAPABILITIES as REST
from waterclock.dpl.project import Project, check_project
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Capabilities, Option
from waterclock.flow.enums import Batching, Mode, WindowSignal
from waterclock.flow.lookback_changes import ChangeReporting

HERE = Path(__file__).parent
FORMATS = Option(choices=("csv", "json", "parquet", "raw"))
CAPABILITIES = {
    "files": Capabilities(
        "files",
        {"path": Option(is_required=True, help="the folder"), "token": Option()},
        {"format": FORMATS, "header": Option("flag")},
        {"format": FORMATS, "compression": Option(), "keep": Option(choices=("all",))},
        frozenset({Batching.ARRIVAL_TIME, Batching.DATA_TIME, Batching.SNAPSHOT}),
        frozenset({Mode.APPEND, Mode.REPLACE}),
        awaits=frozenset({WindowSignal.MARKER, WindowSignal.NEXT}),
        changes=ChangeReporting.BY_ITSELF,
        returns_unparsed_lines=True,
        reads_open_windows=frozenset({Batching.ARRIVAL_TIME}),
        origin_fields=frozenset({"file", "row"}),
        copies=True,
    ),
    "receiver": Capabilities(
        "receiver",
        {
            "path": Option(is_required=True, help="the folder"),
            "token": Option(is_secret=True),
            "max_body": Option("number"),
            "max_waiting": Option("number"),
            "headers": Option(),
            "raw": Option("flag"),
        },
        collects=frozenset({Batching.ARRIVAL_TIME}),
        origin_fields=frozenset({"file", "row"}),
    ),
    "sqlite": Capabilities(
        "sqlite",
        {"path": Option(is_required=True, help="the database file"), "timeout": Option("number")},
        {"partitions": Option("number")},
        {"behind": Option(choices=("view",)), "keep": Option(), "adopt": Option("flag"), "speed": Option("flag")},
        frozenset({Batching.DATA_TIME, Batching.SNAPSHOT}),
        frozenset({Mode.APPEND, Mode.REPLACE, Mode.MERGE}),
        takes_query=True,
        reads_open_windows=frozenset({Batching.DATA_TIME}),
        awaits=frozenset({WindowSignal.QUERY}),
        changes=ChangeReporting.BY_COLUMN,
        replaces_some=True,
    ),
    "postgres": Capabilities(
        "postgres",
        {"url": Option(is_required=True)},
        {"decoder": Option(choices=("wal2json", "pgoutput")), "snapshot": Option()},
        collects=frozenset({Batching.DATA_TIME, Batching.SNAPSHOT, Batching.CHANGES}),
        takes_query=True,
    ),
    "forms": FORMS,
    "keys": KEYS,
    "rest": REST,
    "waterclock": Capabilities(
        "waterclock",
        {"path": Option(help="the folder of the other project")},
        collects=frozenset({Batching.LABELS, Batching.STATE}),
    ),
}
SETTINGS = """\
[project]
name = "shop"

[vars]
late_minutes = 15
land = "DE"

[env.dev]
connections.landing = { path = "data/new" }
connections.ops = { path = "data/ops.sqlite" }
connections.out = { path = "data/out" }
"""
KNOWN = """\
CREATE CONNECTION landing TYPE files; CREATE CONNECTION ops TYPE sqlite; CREATE CONNECTION out TYPE files;
COLLECT raw.orders PARTITIONED (id BIGINT NOT NULL, at TIMESTAMP, amount DOUBLE, customer STRING, *)
  FROM landing.orders EVERY DAY START '2024-01-01' BY DATA TIME at;
COLLECT raw.clicks PARTITIONED FROM landing.clicks EVERY HOUR START '2024-01-01' BY DATA TIME at RETAIN 30 DAYS;
COLLECT raw.customers (id BIGINT KEY, name STRING, *) FROM ops.customers EVERY DAY;
CREATE VIEW stg.open AS SELECT * FROM raw.orders WHERE amount > 0;
"""
_FILE = re.compile(r"^@ (?P<name>\S+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One case: `files` by name, and the errors as they are rendered, separated by an empty line."""

    book: Path
    title: str
    files: Mapping[str, str]
    expected: str


def cases_of(folder: str) -> Iterator[Case]:
    """Read the cases of all books in a folder."""
    for book in sorted((HERE / folder).glob("*.txt")):
        for entry in book.read_text(encoding="utf-8").split("=" * 80 + "\n"):
            if entry.strip():
                yield _case(book, entry)


def text_of(case: Case, expected: str) -> str:
    """Return the text of a case in its book."""
    body = "".join(
        text if name == "flows/case.dpl" else f"@ {name}\n{text}" for name, text in sorted(case.files.items())
    )
    return f"# {case.title}\n{body}{'-' * 80}\n{expected}"


def check(case: Case, root: Path) -> tuple[Project | None, tuple[WaterclockError, ...]]:
    """Write a case's files below `root`, next to those of every case, and check the project."""
    for name, text in {"waterclock.toml": SETTINGS, "flows/known.dpl": KNOWN, **case.files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return check_project(root, capabilities=CAPABILITIES)


def rendered(errors: tuple[WaterclockError, ...], root: Path) -> str:
    """Return the errors as text, without the folder's own path, and with the names of lists of clauses."""
    text = "\n\n".join(error.render() for error in errors).replace(str(root), "<root>")
    return with_names_of_lists(text) + "\n"


def _case(book: Path, entry: str) -> Case:
    title, _, rest = entry.partition("\n")
    body, _, expected = rest.partition("-" * 80 + "\n")
    files: dict[str, str] = {}
    starts = [*_FILE.finditer(body)]
    first = starts[0].start() if starts else len(body)
    if body[:first].strip():
        files["flows/case.dpl"] = body[:first]
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(body)
        files[start["name"]] = body[start.end() : end]
    return Case(book, title.removeprefix("# "), files, expected)
