"""What keeps a project well: tidying, rebuilding tables and the ledger, mending what was damaged."""

from __future__ import annotations
