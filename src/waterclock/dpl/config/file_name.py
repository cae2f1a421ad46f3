"""Defines the name of the project file, by which a project is found."""

from __future__ import annotations

FILE = "waterclock.toml"
