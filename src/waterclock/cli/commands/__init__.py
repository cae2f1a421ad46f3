"""One module a command: its arguments and its help. What it does is the action's of the same name."""

from __future__ import annotations
