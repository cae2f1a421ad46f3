"""Answers commands and options of dbt, SQLMesh, Dagster and similar tools with their Waterclock equivalents."""

from __future__ import annotations

COMMANDS = {
    "apply": "`waterclock run` applies the flow as it stands in its files",
    "build": "`waterclock run` makes what is due, and checks its rules as it does",
    "clean": "`waterclock maintain` removes data that is no longer needed",
    "compile": "`waterclock check` reads and checks the flow; `waterclock show TABLE` shows a table's columns",
    "dag": "`waterclock lineage TABLE` shows what a table is made of and what is made of it",
    "debug": "`waterclock check` reports all that is wrong with the project",
    "deploy": "`waterclock run` applies the flow as it stands in its files",
    "deps": "there are no packages: flows are files, and Python modules of the project are imported",
    "docs": "`waterclock show TABLE` describes a table, `lineage` what it is made of, `model` draws them all",
    "freshness": "`waterclock status` shows how far each table is; `waterclock plan` says what it waits for",
    "graph": "`waterclock lineage TABLE` shows what a table is made of and what is made of it",
    "history": "`waterclock audit TABLE@LABEL` tells a batch's history",
    "list": "`waterclock status` shows the tables and how far each is; `show TABLE` one of them",
    "logs": "`waterclock audit TABLE@LABEL` tells what became of a batch and why",
    "ls": "`waterclock status` shows the tables and how far each is; `show TABLE` one of them",
    "materialize": "`waterclock run` makes what is due; `waterclock backfill TABLE LABELS` a range of the past",
    "parse": "`waterclock check` reads and checks the flow",
    "preview": "`waterclock show TABLE` shows rows of its newest label; `waterclock query SQL` asks anything",
    "seed": "files are collected: COLLECT schema.name FROM project.`data/name.csv` EVERY DAY",
    "serve": "`waterclock ui` serves the project in a browser",
    "snapshot": "a COLLECT declared TEMPORAL keeps every version of its rows, at each `waterclock run`",
    "source": "`waterclock status` shows how far each source is; `waterclock plan` says what it waits for",
    "start": "`waterclock run --watch` goes on as the clock does",
    "tables": "`waterclock status` shows the tables and how far each is; `show TABLE` one of them",
    "test": "rules (EXPECT) hold at each `waterclock run`; `waterclock spec` runs the examples in specs/",
    "version": "`waterclock --version`",
    "watch": "`waterclock run --watch` goes on as the clock does",
    "web": "`waterclock ui` serves the project in a browser",
}
_SELECT = "name tables without an option: waterclock {command} +marts.delays tag:daily"
_LABELS = "labels are a range: --labels 2013-01-05..2013-01-09"
_AGAIN = (
    "what is done stays; `waterclock recompute TABLE LABELS` makes it again from what it read, "
    "`recollect` asks the sources again, `rebuild` makes a table anew from its slices"
)
OPTIONS = {
    "--select": _SELECT,
    "-s": _SELECT,
    "--models": _SELECT,
    "-m": _SELECT,
    "--selector": _SELECT,
    "--exclude": "leave tables out behind `except`: waterclock {command} marts.* except marts.delays",
    "--full-refresh": _AGAIN,
    "--full": _AGAIN,
    "--force": _AGAIN,
    "--target": "environments are chosen by --env NAME",
    "-t": "environments are chosen by --env NAME",
    "--profile": "environments are chosen by --env NAME",
    "--profiles-dir": "environments stand in waterclock.toml, below [env.NAME]; --project names its folder",
    "--project-dir": "--project names the folder",
    "--vars": "values stand below [vars] or [env.NAME.vars] in waterclock.toml",
    "--dry-run": "`waterclock plan` shows what a run would do",
    "--fail-fast": "a failure stops only what rests on it; `waterclock run` leaves with 1",
    "--start": _LABELS,
    "--end": _LABELS,
    "--start-date": _LABELS,
    "--end-date": _LABELS,
    "--event-time-start": _LABELS,
    "--event-time-end": _LABELS,
    "--date": _LABELS,
    "--output": "--json prints JSON and nothing else",
    "--format": "--json prints JSON and nothing else",
}


def answer_to_command(name: str) -> str | None:
    """Return the equivalent of another tool's command, or None if no known tool has a command of that name."""
    answer = COMMANDS.get(name.lower())
    return None if answer is None else f"No such command '{name}': {answer}."


def answer_to_option(name: str, command: str) -> str | None:
    """Return the equivalent of another tool's option of a command, or None if no known tool has that option."""
    answer = OPTIONS.get(name)
    return None if answer is None else f"No such option {name}: {answer.format(command=command)}."
