"""Data at rest: sealed slices and manifests, Delta commits, and a reader of the Delta log's files.

`slices` writes and reads sealed slices, `commit` adds them to Delta tables, `folds` computes the states of MERGE and
TEMPORAL tables, `log` reads Delta logs, and `search` finds values in files of all kinds.

Modules are imported on demand: reading manifests and logs needs neither Spark nor delta-rs.
"""
