"""Codes of the rules of a project, which `check` runs."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

PROJECT_RULES: Mapping[str, Code] = {
    "E395": Code(
        "broken rule of the project",
        "The place breaks a rule in the project's folder `rules`. Only `check` runs these rules; batches are not "
        "stopped.",
    ),
    "E396": Code(
        "invalid rule of the project",
        "A file in the folder `rules` has no valid header, or is not one SELECT that SQLite accepts. A rule can read "
        "the relations of the project and call plain functions. It cannot write, ATTACH or set a PRAGMA.",
    ),
    "E397": Code(
        "rule of the project stopped",
        "The rule took too much time or memory, so it was stopped. The other rules were checked.",
    ),
}
