"""Changes to a ledger: claims, completions, decisions, declarations, and marks on batches whose inputs changed."""
