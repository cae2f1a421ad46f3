"""Carries out the lifecycle of a batch: make, seal, audit, commit, record, retry, takeover and publish."""
