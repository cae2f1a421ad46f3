"""Plans batches: which are due, which are ready and why the others wait. Pure: from flow, ledger snapshot and now."""
