"""Run some days of the flights flow on real data, show what came of them, and say what to try next.

./bin/demo               the first five days of 2013; again: the next five
./bin/demo --days 2      as many days as you like
./bin/demo --fresh       from the beginning
./bin/demo --in DIR      in a folder of its own, not in the checkout
./bin/demo --ui          and then the project in a browser, until Ctrl-C
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path

import make_data

EXAMPLE = Path(__file__).resolve().parent

QUESTIONS = (
    (
        "Whose flights left late?",
        """SELECT airline, sum(flights) AS flights, sum(late) AS late,
                  round(100 * sum(late) / sum(flights), 1) AS percent
           FROM marts.delays GROUP BY airline ORDER BY percent DESC LIMIT 6""",
    ),
    (
        "Which airport of New York was the worst?",
        """SELECT origin, sum(late) AS late, max(worst_delay) AS worst_delay
           FROM marts.worst GROUP BY origin ORDER BY late DESC""",
    ),
    (
        "Which planes flew most?",
        """SELECT h.tailnum, p.operator, p.manufacturer, p.model, h.flights, round(h.minutes / 60, 1) AS hours
           FROM marts.hours_flown h JOIN raw.planes p ON p.tailnum = h.tailnum
           ORDER BY h.minutes DESC, h.tailnum LIMIT 5""",
    ),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Lay out the next days, step the clock through them, and show the answers."""
    parser = argparse.ArgumentParser(prog="./bin/demo", description="Run some days of the flights flow on real data.")
    parser.add_argument("--days", type=int, default=5, help="how many more days (5)")
    parser.add_argument("--fresh", action="store_true", help="begin again: forget the data and the tables")
    parser.add_argument("--in", dest="folder", type=Path, default=EXAMPLE, help="where to work (the example's folder)")
    parser.add_argument("--ui", action="store_true", help="then serve the project in a browser, until Ctrl-C")
    given = parser.parse_args(arguments)
    if given.days < 0:
        parser.error("--days: write 0 or more")
    project = prepare(given.folder.resolve(), fresh=given.fresh)
    days = lay_out(project, given.days)
    last = days[-1] if days else newest_day(project)
    if last is None:
        sys.exit("no day is laid out yet: ask for some by --days")
    first = days[0] if days else last
    run_flow(project, make_data.day_start(first), make_data.day_start(last + timedelta(days=1)))
    show(project, last)
    if given.ui:
        say("The project in a browser")
        now = f"{make_data.day_start(last + timedelta(days=1)):%Y-%m-%dT%H:%MZ}"
        sys.exit(waterclock("ui", "--now", now, "--open", "--listen", "0", project=project))


def prepare(project: Path, *, fresh: bool) -> Path:
    """The project's folder, with the flow in it, and without data and tables where `fresh` says so."""
    if project != EXAMPLE:
        shutil.copytree(EXAMPLE / "flows", project / "flows", dirs_exist_ok=True)
        shutil.copy(EXAMPLE / "waterclock.toml", project)
    if fresh:
        for folder in (project / "data", project / ".waterclock"):
            if folder.exists():
                shutil.rmtree(folder)
    return project


def lay_out(project: Path, count: int) -> tuple[date, ...]:
    """The days after those laid out already, at most `count` of them; none once the year is over."""
    newest = newest_day(project)
    first = newest + timedelta(days=1) if newest else make_data.FIRST_DAY
    count = min(count, (make_data.LAST_DAY - first).days + 1)
    if count <= 0:
        say("No new day", "the year is over" if first > make_data.LAST_DAY else "none was asked for")
        return ()
    layout = make_data.put_days(project / "data", first, count)
    say(
        f"{first:%-d %B} to {layout.days[-1]:%-d %B %Y}" if count > 1 else f"{first:%-d %B %Y}",
        f"landed files: {layout.flight_files} of flights, {layout.weather_files} of weather; "
        f"{layout.plane_rows} changes of planes are in the database",
    )
    return layout.days


def newest_day(project: Path) -> date | None:
    """The newest day laid out so far."""
    return max(make_data.days_put(project / "data"), default=None)


def run_flow(project: Path, start: datetime, until: datetime) -> None:
    """Step `now` from `start` through every due instant until `until`, and run what is due at each."""
    code = waterclock(
        "run", "--now", f"{start:%Y-%m-%dT%H:%MZ}", "--until", f"{until:%Y-%m-%dT%H:%MZ}", project=project
    )
    if code:
        again = _again(project)
        say(
            "Not finished",
            f"`{again} --days 0` makes the remaining batches of these days, `{again} --fresh` starts over",
        )
        sys.exit(code)


def show(project: Path, last: date) -> None:
    """Print the grid, the answers, and what to try next."""
    say("Tables and their timelabels", "a cell is what a table did in a day")
    end = make_data.day_start(last + timedelta(days=1))
    waterclock("status", "--now", f"{end:%Y-%m-%dT%H:%MZ}", project=project)
    for question, query in QUESTIONS:
        say(question)
        waterclock("query", " ".join(query.split()), project=project)
    suggest(project, last)


def suggest(project: Path, last: date) -> None:
    """Print what may be tried next, ready to be copied."""
    begin, end = make_data.day_start(last), make_data.day_start(last + timedelta(days=1))
    where = f"--project {_short(project)}"
    say("Try next")
    for what, command in (
        ("the inputs, code and times of a batch", f"./bin/waterclock audit marts.delays@{begin:%Y%m%d%H%M00} {where}"),
        (
            "the batches that are due a day later, and why",
            f"./bin/waterclock plan --now {end + timedelta(days=1):%Y-%m-%dT%H:%MZ} {where}",
        ),
        ("every batch, as a table", f'./bin/waterclock query "SELECT * FROM waterclock.batches" {where}'),
        ("the lineage of a table", f"./bin/waterclock lineage marts.delays {where}"),
        ("the same in a browser", f"./bin/waterclock ui --now {end:%Y-%m-%dT%H:%MZ} {where}"),
        ("the next days", _again(project)),
    ):
        print(f"  {command}\n      {what}")
    published = " and ".join(_short(project / "data" / name) for name in ("reports.sqlite", "out"))
    print(f"  The published data is in {published}.")


def waterclock(command: str, *arguments: str, project: Path) -> int:
    """Run one command of Waterclock in this process, as the shell would, and give its exit code."""
    from waterclock.cli.app import main as command_line

    return command_line([command, *arguments, "--project", str(project)])


def say(heading: str, detail: str = "") -> None:
    """Print a heading, bold where a terminal shows it."""
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{heading}{plain}" + (f": {detail}" if detail else ""), flush=True)


def _again(project: Path) -> str:
    """The command that was given, without its options of the moment."""
    return "./bin/demo" if project == EXAMPLE else f"./bin/demo --in {_short(project)}"


def _short(path: Path) -> str:
    """The path as one would type it here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    main()
