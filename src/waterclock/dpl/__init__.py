"""The language: statements in DPL and Python to declarations, references found in queries and put in place. Pure."""

from __future__ import annotations

from waterclock.dpl.project import Project, check_project, load_project
from waterclock.dpl.splice import Spliced, flats_of, reads_of, splice, variables_of

__all__ = [
    "Project",
    "Spliced",
    "check_project",
    "flats_of",
    "load_project",
    "reads_of",
    "splice",
    "variables_of",
]
