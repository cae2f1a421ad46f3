"""Plans batches: which are due, which are ready and why the others wait. Pure functions of flow, ledger and time.

`planning` is the entry and `plan` its result. `due_batches` finds the windows to make, `readiness` decides whether
their inputs are complete, `settlement` which done batches have to be made again, `input_binding` binds inputs to
windows. `estimate` computes costs, `label_states` the states that status shows, `ticks` reads ticks.
"""
