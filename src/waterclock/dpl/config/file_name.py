"""The name of the project file: where a project begins, known before any of it is read."""

from __future__ import annotations

FILE = "waterclock.toml"
