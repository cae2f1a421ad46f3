"""Analyzes queries: the tables and columns that they name, the origins of columns, and queries that are refused.

Where to look: `references` and `names_in_query` find the tables and columns that a query names; `visible_columns` and
`outputs` those that no table can store; `column_flow` and `lineage` their origins; `splice` builds the text that
Spark runs; `builtins` and `spark_functions` list the known functions; `pushdown` and `time_bounds` derive filters.
"""
