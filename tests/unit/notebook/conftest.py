"""Fixtures with the shop of the command line's tests, to compare functions with commands."""

from __future__ import annotations

from tests.unit.cli.conftest import busy_ledger, busy_shop, fresh, shop

__all__ = ["busy_ledger", "busy_shop", "fresh", "shop"]
