"""Carries out the lifecycle of a batch: make, seal, audit, commit, record, retry, takeover and publish.

`lifecycle` takes a group of batches through its steps: `make` computes the rows (`transform`, `engine.collect`,
`row_filters`), then `seal`, `audit` with `expectations`, `commit`, `publish`. `failed_attempts` and `retry` handle
errors, `takeover` continues the claims of a dead runner, `releasing` continues held batches.
"""
