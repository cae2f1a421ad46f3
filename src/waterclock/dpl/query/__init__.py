"""Analyzes queries: the tables and columns that they name, the origins of columns, and invalid parts.

- `references`, `names_in_query`: the tables that a query names. `column_scope`, `visible_columns`: its columns.
- `storable_columns`: result columns that no table can store. `column_flow`, `lineage`: the origins of columns.
- `splice`: the text that Spark runs. `builtins`, `spark_functions`: the known functions.
- `pushdown`, `time_bounds`: filters and time limits that follow from conditions.
"""
