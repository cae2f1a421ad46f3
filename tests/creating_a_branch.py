"""Creates a branch and takes over its changed tables as another user of the machine, who may not write to production.

    python -m tests.creating_a_branch WARM FOLDER USER

The same is done first in the project WARM, as this user: all modules are imported then. No JVM is started.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from waterclock.cli.actions.branch_run import BranchRun, prepare_branch_run
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import load_project
from waterclock.engine.branching.creation import create_branch
from waterclock.engine.run_opening import open_workplace
from waterclock.operations.branches import for_branch


def create(folder: Path) -> list[str]:
    """Create the branch `try`, and return its own tables."""
    project = for_branch(load_project(folder, env="try", capabilities=capabilities()))
    now = datetime.now(UTC)
    state = create_branch(project, tick=now, now=now, days=7, who="a test")
    with open_workplace(project, is_branch_run=True) as work:
        changes, _ = prepare_branch_run(work, state, BranchRun())
    return sorted(changes.own)


def main(warm: str, folder: str, user: str) -> None:
    """Create the branch of both projects, that of FOLDER as the user, and print its own tables."""
    create(Path(warm))
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
    try:
        (Path(folder) / ".prod" / "written").write_text("x")
    except PermissionError:
        sys.stdout.write(" ".join(create(Path(folder))))
    else:
        sys.exit("production can be written")


if __name__ == "__main__":
    main(*sys.argv[1:])
