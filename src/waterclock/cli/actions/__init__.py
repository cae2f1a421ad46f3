"""What commands do, in terms of planner, ledger and engine; what they print is the views'."""

from __future__ import annotations
