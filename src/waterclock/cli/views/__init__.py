"""The output of commands: text for a terminal, and JSON for scripts."""

from __future__ import annotations
