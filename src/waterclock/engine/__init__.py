"""Carries a plan out: claims, the steps of a batch, commits, retries, takeover and recovery."""
