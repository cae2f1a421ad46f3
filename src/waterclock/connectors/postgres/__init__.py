"""Reads tables and queries of PostgreSQL databases, and delivers tables to them.

Start here for:

- the connection type: `connector`; connections and their errors: `database`; types of columns: `types`
- collecting rows: `collection`, from queries of `extract`, parsed by `rows` and `array_texts`
- CHANGED BY: `change_scans`
- BY CHANGES: `change_collection`; its replication slot: `slots`, `slot_reading`; decoders of the server's log:
  `pgoutput`, `wal2json`; the table's definition: `table_facts`
- publishing, also of tables behind a view: `delivery`; its table: `destination`, `stored_columns`; merges by key:
  `row_merging`
"""
