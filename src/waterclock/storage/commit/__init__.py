"""Commits slices to a Delta table: by references to the sealed files if possible, else by a write of Spark.

`pointers` commits without reading rows, `spark_commit` with a write of Spark, `content_replacement` replaces all
content of a table. `creation` creates the table, `foreign_changes` refuses tables that another writer changed.
"""
