"""Tables and queries of PostgreSQL databases, and tables delivered to them.

`connector` is asked by the engine, `database` connects, `types` says what columns are. Collecting: `extract` has the
SQL, `rows` makes Arrow of what it gives (`array_texts`), `collection` a Spark frame; `looks` answers CHANGED BY.
BY CHANGES: `following`, by a slot (`slots`) and what must stay as it is of the table (`table_facts`); `logical` reads a
range of the log, which `pgoutput` or `wal2json` decodes into `log_changes`. Publishing: `delivery`, into a table that
`destination` makes or takes, `behind` a view; `exact_values` refuses what its columns would not store exactly.
"""

from __future__ import annotations
