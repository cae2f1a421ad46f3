"""Reads tables and queries of PostgreSQL databases, and delivers tables to them.

Entry points: `connector` implements the connection type, `database` connects, `types` describes columns.

Collecting: `extract` builds the SQL, `rows` parses results into Arrow (arrays with `array_texts`), and `collection`
builds a Spark frame. `change_scans` scans for CHANGED BY.

BY CHANGES: `change_collection` collects a table through a replication slot (`slots`) and checks that the table
definition is unchanged (`table_facts`). `slot_reading` reads a range of the server's log, which `pgoutput` or
`wal2json` decodes into `log_changes`.

Publishing: `delivery` writes to a table that `destination` creates or adopts, and `versioned_views` finds the tables
behind a view. `stored_columns` describes which values the columns store exactly.
"""
