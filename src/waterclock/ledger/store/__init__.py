"""The database of a ledger: its tables, opening and upgrading it, and exporting it.

`schema` has the tables, `migrations` the upgrades. `backend` chooses between `sqlite` and `postgres`, and `database`
runs transactions. `locations` reads the ledger's address, and `export` writes and loads exports.
"""
