"""Executes a plan: claims, batch steps, commits, retries, takeover and recovery."""
