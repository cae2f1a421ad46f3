"""Prints the files of a table for other programs, as plain lines without colour or wrapping."""

from __future__ import annotations

from pathlib import Path

from waterclock.cli.views.json import print_answer
from waterclock.cli.views.output import write_out
from waterclock.engine.run_opening import open_workplace
from waterclock.operations.data_files import data_files, partition_statements
from waterclock.operations.project_opening import one_table, open_project


def print_files(
    folder: Path,
    env: str | None,
    table: str,
    *,
    as_of: str | None,
    known_at: str | None,
    is_hive: bool,
    is_json: bool,
) -> None:
    """Print the files of a table, or the SQL that registers its labels."""
    project = open_project(folder, env)
    with open_workplace(project, is_question=True) as work:
        name, _ = one_table(project.flow, table)
        found = data_files(work, name, as_of=as_of, known_at=known_at)
        lines = partition_statements(found, work.lake.folder(name)) if is_hive else [each.path for each in found.files]
    if is_json:
        from waterclock.json_models.tables import FilesAnswer

        print_answer(
            FilesAnswer.build(
                table=name,
                as_of=None if found.moment is None else found.moment.tick,
                known_at=None if found.moment is None else found.moment.known_at,
                files=found.files,
                statements=lines if is_hive else [],
            )
        )
        return
    write_out("".join(f"{line}\n" for line in lines))
