"""Says which batches are due, which are ready and why the others wait: pure, of (flow, ledger snapshot, now)."""

from __future__ import annotations
