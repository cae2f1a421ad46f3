"""Reads a table's Delta log as files: its commits, the batches that they record, and the live files.

`delta_log` reads commits, `live_files` the files of a version, `commit_history` the batches that commits record, and
`content_as_of` finds the version at a tick. `identity` marks the commits of this project.
"""
