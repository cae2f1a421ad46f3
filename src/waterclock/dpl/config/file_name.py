"""Defines the names of the project file and of the folder with the project's rules."""

from __future__ import annotations

FILE = "waterclock.toml"
RULES_FOLDER = "rules"
