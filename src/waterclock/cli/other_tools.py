"""Explains commands and options of dbt, SQLMesh, Dagster and similar tools by their Waterclock equivalents."""

from __future__ import annotations

COMMANDS = {
    "apply": "`waterclock run` applies the flow of the project's files",
    "build": "`waterclock run` runs due batches and checks their rules",
    "clean": "`waterclock maintain` removes data that is no longer needed",
    "compile": "`waterclock check` reads and checks the flow; `waterclock show TABLE` shows a table's columns",
    "dag": "`waterclock lineage TABLE` shows the inputs and readers of a table",
    "debug": "`waterclock check` reports all errors of the project",
    "deploy": "`waterclock run` applies the flow of the project's files",
    "deps": "there are no packages: flows are files, and Python modules of the project are imported",
    "docs": "`waterclock show TABLE` describes a table, `lineage` shows its inputs, `model` draws all tables",
    "freshness": "`waterclock status` shows how far each table is; `waterclock plan` shows why it waits",
    "graph": "`waterclock lineage TABLE` shows the inputs and readers of a table",
    "history": "`waterclock audit TABLE@LABEL` shows the history of a batch",
    "list": "`waterclock status` shows the tables and how far each is; `show TABLE` describes one",
    "logs": "`waterclock audit TABLE@LABEL` shows the attempts at a batch and their errors",
    "ls": "`waterclock status` shows the tables and how far each is; `show TABLE` describes one",
    "materialize": "`waterclock run` runs due batches; `waterclock backfill TABLE LABELS` runs a range of the past",
    "parse": "`waterclock check` reads and checks the flow",
    "preview": "`waterclock show TABLE` shows rows of its newest label; `waterclock query SQL` runs any query",
    "seed": "files are collected: COLLECT schema.name FROM project.`data/name.csv` EVERY DAY",
    "serve": "`waterclock ui` serves the project in a browser",
    "snapshot": "a COLLECT declared TEMPORAL keeps every version of its rows, at each `waterclock run`",
    "source": "`waterclock status` shows how far each source is; `waterclock plan` shows why it waits",
    "start": "`waterclock run --watch` runs batches as they become due",
    "tables": "`waterclock status` shows the tables and how far each is; `show TABLE` describes one",
    "test": "`waterclock run` checks the rules (EXPECT); `waterclock spec` runs the examples in specs/",
    "version": "`waterclock --version`",
    "watch": "`waterclock run --watch` runs batches as they become due",
    "web": "`waterclock ui` serves the project in a browser",
}
_SELECT = "tables need no option: waterclock {command} +marts.delays tag:daily"
_LABELS = "labels are a range: --labels 2013-01-05..2013-01-09"
_AGAIN = (
    "done batches stay; `waterclock recompute TABLE LABELS` makes them again from their inputs, `recollect` reads "
    "the sources again, `rebuild` makes a table again from its slices"
)
OPTIONS = {
    "--select": _SELECT,
    "-s": _SELECT,
    "--models": _SELECT,
    "-m": _SELECT,
    "--selector": _SELECT,
    "--exclude": "name tables to leave out after `except`: waterclock {command} marts.* except marts.delays",
    "--full-refresh": _AGAIN,
    "--full": _AGAIN,
    "--force": _AGAIN,
    "--branch": "a branch is an environment: waterclock {command} --env NAME",
    "--target": "--env NAME selects the environment",
    "-t": "--env NAME selects the environment",
    "--profile": "--env NAME selects the environment",
    "--profiles-dir": "environments are in waterclock.toml, below [env.NAME]; --project names its folder",
    "--project-dir": "--project names the folder",
    "--vars": "values are below [vars] or [env.NAME.vars] in waterclock.toml",
    "--dry-run": "`waterclock plan` shows what a run would do",
    "--fail-fast": "a failure stops only the batches that need it; `waterclock run` exits with 1",
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
OPTIONS_OF_COMMANDS = {
    "branch": {"--env": "--from ENV selects the environment to borrow from"},
    "init": {"--example": "without options, init writes an example project; --empty writes none"},
    "promote": {"--env": "the argument is the branch: waterclock promote NAME. It is promoted to its own `from`"},
}


def answer_to_command(name: str) -> str | None:
    """Return a message that names the equivalent of another tool's command, or None for an unknown command."""
    answer = COMMANDS.get(name.lower())
    return None if answer is None else f"No such command '{name}': {answer}."


def answer_to_option(name: str, command: str) -> str | None:
    """Return a message that names the equivalent of another tool's option, or None for an unknown option."""
    from waterclock.similar_names import find_similar  # loads difflib

    of_command = OPTIONS_OF_COMMANDS.get(command, {})
    answer = next((of_command[each] for each in find_similar(name, of_command)), OPTIONS.get(name))
    return None if answer is None else f"No such option {name}: {answer.format(command=command)}."
