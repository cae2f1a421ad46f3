"""Enters the project's tables in a Hive metastore, by which other engines find them by name.

`client` makes one entry equal to what it should be. `entering` does that for the tables of a run, and waits after a
failure. `hive_metastore.thrift` is the part of the metastore's interface that they use.
"""
