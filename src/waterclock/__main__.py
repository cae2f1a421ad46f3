"""Runs the command line as `python -m waterclock`."""

from __future__ import annotations

import sys

from waterclock.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
