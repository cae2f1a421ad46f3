"""One module a command: its arguments and its help. What it does is in `cli.actions`, what it shows in `cli.views`."""

from __future__ import annotations
