"""The connection type `forms`: tables of master data that people edit, with the history of each row.

The engine calls `connector`; `database` opens the database and creates its tables. Writing: `changes`, with `values`
and `imports`. Changes that need approval: `proposal_store` stores and `proposals` decides them. Reading: `history`,
`shown_rows` for people who see a part, and `suggestions`. Batches: `collection` and `delivery`. Persons: `erasure`.
"""
