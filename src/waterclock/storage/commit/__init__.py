"""Commits slices to a Delta table: by references to the sealed files if possible, else by a write of Spark.

`pointers` commits without reading rows, `by_spark` with a write of Spark, `whole_set` replaces all content of a table.
`creation` creates the table, `foreign` refuses tables that another writer changed.
"""
