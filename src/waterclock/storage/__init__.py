"""Data at rest: sealed slices and manifests, Delta commits, and a reader of the Delta log's files.

Modules are imported on demand: reading manifests and logs needs neither Spark nor delta-rs.
"""
