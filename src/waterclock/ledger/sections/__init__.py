"""The sections of `Ledger`, `ledger.reads` and others: groups of the functions in `ledger/read` and `ledger/write`."""
