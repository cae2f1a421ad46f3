"""Plans batches: which are due, which are ready and why the others wait. Pure functions of flow, ledger and time."""
