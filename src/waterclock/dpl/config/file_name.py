"""Defines the name of the project file."""

from __future__ import annotations

FILE = "waterclock.toml"
