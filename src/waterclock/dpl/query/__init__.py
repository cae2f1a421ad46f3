"""Analyzes queries: the tables and columns that they name, the origins of columns, and invalid parts.

Start here for:

- the tables that a query names: `references`; its columns: `column_scope`, `storable_columns`
- the origins of a column: `lineage` (of a flow), `column_flow` (within a query); what depends on it: `impact`
- the text that Spark runs: `splice`; one query for many windows: `multi_window_rewrite`
- the functions that Waterclock adds: `builtins`, `aggregates`; those of Spark: `spark_functions`
- filters and time limits that follow from conditions: `pushdown`, `time_bounds`
- what a user with grants sees: `granted_select`, `visible_flow`
"""
