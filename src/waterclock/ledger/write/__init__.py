"""Changes to a ledger: claims, completions, decisions, declarations, and marks on batches whose inputs changed.

Start here for:

- a claim: `claims` (granted, with the limits of pools), `claim_endings` (leases, releases), `completion` (its result)
- requests of users, such as retry, skip, recompute and release: `decisions`; pauses: `pauses`
- done batches to compare again after a change of their inputs: `suspect_batches`
- the declarations of a run's flow: `flow_declarations`; former names of tables: `renaming`
"""
