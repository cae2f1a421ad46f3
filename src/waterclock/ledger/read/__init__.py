"""Questions to a ledger: what stands now, what stood then, what rests on what."""

from __future__ import annotations
