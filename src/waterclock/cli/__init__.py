"""The command line: thin commands over planner, ledger and engine, for people and, with `--json`, for scripts.

Importing it loads neither Spark, nor a database, nor the parser: every command imports its dependencies when it runs.
"""
