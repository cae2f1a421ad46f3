"""Reads a table's Delta log as files: its commits, the batches that they record, and the live files.

`delta_log` reads commits, `live_files` the files that they leave, `commit_history` the batches that they record,
`content_as_of` the version at a tick; `identity` marks the commits of this project.
"""
