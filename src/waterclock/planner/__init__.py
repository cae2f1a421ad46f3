"""Plans batches: which are due, which are ready and why the others wait. Pure functions of flow, ledger and time.

Start here for:

- a whole plan: `planning`, the entry, and its result, `plan`
- the batches to make: `due_batches`; whether their inputs are complete, and why not: `readiness`
- done batches that have to be made again: `settlement`
- the windows that a batch reads: `input_binding`; those of a query as of a tick: `query_ticks`
- the closing of windows: `closings`; late rows: `late_rows`; open windows: `open_windows`
- the states that status shows: `label_states`; costs: `estimate`
"""
