"""Executes a plan: claims, batch steps, commits, retries, takeover and recovery.

`runner` runs a plan's batches, `batch` makes one of them, `collect` and `reads` read its inputs. `maintenance`
maintains and repairs tables, `query` answers users, `spark` starts sessions. `run_context` holds the objects that all
batches of a run use.
"""
