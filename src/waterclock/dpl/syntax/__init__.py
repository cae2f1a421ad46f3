"""Parses DPL text into tokens, clauses and statements with their positions, and reports syntax errors.

`tokens` splits a text into tokens and statements. `parser` parses a statement's clauses, each with the function that
`clause_table` lists for it. `statements` defines the parsed classes, `cursor` iterates over the words of a statement,
and `source_text` maps offsets to lines and columns. `spark_lexer` finds text that Spark would tokenize differently.
"""
