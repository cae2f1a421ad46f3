"""Parses DPL text into tokens, clauses and statements with their positions, and reports syntax errors.

`tokens` splits a text into tokens and statements; `parser` reads a statement's clauses by `clause_table`, which lists
every clause with its reader. `statements` has the parsed forms, `cursor` walks over tokens, `source_text` finds lines
and columns. `spark_lexer` finds where Spark would split a text differently.
"""
