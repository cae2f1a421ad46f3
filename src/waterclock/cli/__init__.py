"""The command line: thin commands over planner, ledger and engine, for people and, with `--json`, for scripts.

Importing this package loads neither Spark, nor a database, nor the parser. Each command imports what it needs when it
runs.
"""
