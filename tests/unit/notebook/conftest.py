"""The shop of the command line's tests: what functions show is held against what commands print."""

from __future__ import annotations

from tests.unit.cli.conftest import busy_ledger, busy_shop, fresh, shop

__all__ = ["busy_ledger", "busy_shop", "fresh", "shop"]
